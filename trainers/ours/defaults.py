"""Trainings with suggested settings alone, from three arguments, and their table."""

import dataclasses
import statistics
import time

import numpy as np
from tensorflow import keras

import tfdpnorm
from tfdpnorm import models
from tfdpnorm.data import match_images
from tfdpnorm.keras_compat.devices_and_precision import made_under
from tfdpnorm.privacy import PrivacyBudget
from trainers.davody import cells as davody
from trainers.ours.defaults_runs import DATASETS, DELTA, EPSILONS, NORMS
from trainers.ours.method_cells import digits_spec
from trainers.records.made_with import made_with
from trainers.report.markdown import table

# By data set: the experiment that has tuned cells, and what precedes the normalisation in their
# names. KMNIST has none: no rule was derived from it.
TUNED = {"digits": ("method_small_data", "digits-"), "mnist": ("davody_table5", "")}
# Networks of the tuned cells, where they are not named by the normalisation.
_SYNTHETIC = {"digits": "public_batch-synthetic", "mnist": "public_batch"}


def defaults_record(run, train, test, precision="float32"):
    """Trains and tests a `DefaultsRun`; returns its record, with `DEFAULTS_FIELDS`.

    Args:
        run: `DefaultsRun`.
        train: `Examples`.
        test: `Examples`.
        precision: One of `trainers.specs.training.PRECISIONS`.
    """
    started = time.perf_counter()
    keras.utils.set_random_seed(run.seed)
    # DIGITS at twice its size: LeNet-5 needs 12 pixels.
    shape = tuple(max(size, 16) for size in train.x.shape[1:3]) + train.x.shape[3:]
    x, test_x = (match_images(examples.x, shape) for examples in (train, test))
    budget = PrivacyBudget(run.epsilon, DELTA)
    with made_under(precision):
        network = models.build(
            "lenet5", run.norm, num_classes=10, input_shape=shape, **_options(run.dataset, run.norm)
        )
        private = tfdpnorm.make_private(network, budget=budget, num_examples=len(train))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    private.compile(run.optimizer, loss)
    private.fit(x, train.y, verbose=0)
    ledger, plan = private.ledger, private.plan
    logits = private.predict(test_x, batch_size=1000, verbose=0)
    return {
        "experiment": "defaults",
        "kind": "defaults",
        "cell": run.cell,
        **dataclasses.asdict(run),
        "test_accuracy": round(float(100 * np.mean(logits.argmax(-1) == test.y)), 4),
        "epsilon_target": run.epsilon,
        "epsilon_spent": ledger.epsilon(),
        "delta": DELTA,
        "guarantee_holds": ledger.guarantee_holds,
        "num_examples": len(train),
        "expected_batch_size": plan.expected_batch_size,
        "updates": ledger.updates,
        "noise_multiplier": plan.noise_multiplier,
        "learning_rate": private.suggestion.learning_rates[run.optimizer],
        "views": 1 if private.suggestion.views is None else private.suggestion.views.multiplicity,
        "seconds": round(time.perf_counter() - started, 1),
        **made_with({"precision": precision}),
    }


def _options(dataset, norm):
    """Activation and pooling of the tuned cell: the search chose these, too; KMNIST has MNIST's."""
    if dataset == "digits":
        spec = digits_spec(_SYNTHETIC["digits"] if norm == "public_batch" else norm, 1.0)
    else:
        spec = davody.spec("mnist", norm, 1.0)
    return dict(spec.model_options)


def defaults_text(records, tuned):
    """Returns the table, in Markdown.

    Args:
        records: Records with `DEFAULTS_FIELDS`.
        tuned: Records of the experiments of `TUNED`.
    """
    cells = sorted(
        {(r["dataset"], r["norm"], r["optimizer"]) for r in records},
        key=lambda c: (DATASETS.index(c[0]), NORMS.index(c[1]), c[2]),
    )
    rows = [
        (dataset, norm, optimizer, *(_entry(records, tuned, *cell, e) for e in EPSILONS))
        for cell in cells
        for dataset, norm, optimizer in [cell]
    ]
    return (
        f"Made from {len(records)} records by `python -m trainers.defaults --nocompute "
        "--output_dir=...`. LeNet-5, test accuracy in percent: mean +- standard deviation over "
        "runs with `make_private(model, budget=..., num_examples=...)` and an optimizer by name. "
        "In brackets: the cell that a search had found, of the same network, with its runs, and "
        "how far the defaults are ahead (+) or behind (-). KMNIST (7,011 training images) was "
        "never searched. Public-batch normalisation "
        "has synthetic examples by default, and real ones in the searched cells of MNIST.\n\n"
        + table(("data", "normalisation", "optimizer", *(f"epsilon {e:g}" for e in EPSILONS)), rows)
    )


def _entry(records, tuned, dataset, norm, optimizer, epsilon):
    own = [
        r["test_accuracy"]
        for r in records
        if (r["dataset"], r["norm"], r["optimizer"]) == (dataset, norm, optimizer)
        and r["epsilon_target"] == epsilon
    ]
    experiment, prefix = TUNED.get(dataset, (None, ""))
    synthetic = norm == "public_batch" and dataset in _SYNTHETIC
    network = prefix + (_SYNTHETIC[dataset] if synthetic else norm)
    theirs = [
        r["test_accuracy"]
        for r in tuned
        if r["experiment"] == experiment
        and (r["network"], r["epsilon_target"]) == (network, epsilon)
    ]
    if not own:
        return ""
    if not theirs:
        return _mean(own)
    ahead = statistics.mean(own) - statistics.mean(theirs)
    return f"{_mean(own)} [{_mean(theirs)}: {ahead:+.1f}]"


def _mean(values):
    text = f"{statistics.mean(values):.2f}"
    if len(values) > 1:
        text += f" +- {statistics.stdev(values):.2f}"
    return f"{text} ({len(values)} run{'s' * (len(values) > 1)})"
