"""Trainings with suggested settings alone, from three arguments: data, records and their table."""

import dataclasses
import statistics
import time
from typing import NamedTuple

import numpy as np
from tensorflow import keras

import tfdpnorm
from tfdpnorm import models
from tfdpnorm.data import match_images
from tfdpnorm.keras_compat.devices_and_precision import made_under
from tfdpnorm.privacy import PrivacyBudget
from tfdpnorm.training.suggested_rate import optimizer_at
from trainers.data.sources import load_examples
from trainers.davody import cells as davody
from trainers.ours import finetune_cells as finetune
from trainers.ours.defaults_runs import DATASETS, DELTA, EPSILONS, NETWORKS, NORMS
from trainers.ours.method_cells import digits_spec
from trainers.records.made_with import made_with
from trainers.report.markdown import runs_text, table
from trainers.runs.build import build_network
from trainers.runs.data import load_experiment_data
from trainers.specs.training import CACHE_DIR

# The network of the cell of DIGITS that is named otherwise than its normalisation.
_SYNTHETIC = "public_batch-synthetic"

# By data set with searched cells: their experiment, and a function from the normalisation to their
# network.
_TUNED = {
    "digits": (
        "method_small_data",
        lambda norm: f"digits-{_SYNTHETIC if norm == 'public_batch' else norm}",
    ),
    "mnist": ("davody_table5", lambda norm: norm),
    "ag_news": ("davody_table7", lambda norm: norm),
    "cifar10_features": (
        "finetune_cifar10",
        lambda norm: finetune.spec("cifar10", 1.0, norm=norm, **finetune.LAST_LAYERS).network,
    ),
}
TUNED = tuple(experiment for experiment, _ in _TUNED.values())


class Task(NamedTuple):
    """The Keras model, not private, that a run trains, and pairs of arrays (x, y)."""

    network: keras.Model
    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]


def load_task(run, precision="float32", *, data_dir=None, cache_dir=CACHE_DIR):
    """Returns the `Task` of a `DefaultsRun`: the network and the data of the cell searched for.

    Features of images are kept in `cache_dir`.
    """
    if run.dataset in ("ag_news", "cifar10_features"):
        spec = dataclasses.replace(_spec(run), seed=run.seed, precision=precision)
        data = load_experiment_data(spec, data_dir, cache_dir=cache_dir)
        network = build_network(spec, data)
        return Task(network, (data.train_x, data.train_y), (data.test_x, data.test_y))
    train, test = (load_examples(run.dataset, s, data_dir) for s in ("train", "test"))
    return lenet5_task(run, train, test, precision)


def lenet5_task(run, train, test, precision="float32"):
    """Returns the `Task` of LeNet-5 on images; the arguments are `Examples`, else as `load_task`.

    Activation and pooling are those of the searched cell; KMNIST has those of MNIST.
    """
    # DIGITS at twice its size: LeNet-5 needs 12 pixels.
    shape = tuple(max(size, 16) for size in train.x.shape[1:3]) + train.x.shape[3:]
    keras.utils.set_random_seed(run.seed)
    with made_under(precision):
        network = models.build(
            "lenet5",
            run.norm,
            num_classes=train.num_classes,
            input_shape=shape,
            **dict(_spec(run).model_options),
        )
    return Task(network, *((match_images(e.x, shape), e.y) for e in (train, test)))


def _spec(run):
    if run.dataset == "digits":
        return digits_spec(_SYNTHETIC if run.norm == "public_batch" else run.norm, 1.0)
    if run.dataset == "cifar10_features":
        return finetune.spec("cifar10", 1.0, norm=run.norm, **finetune.LAST_LAYERS)
    return davody.spec("ag_news" if run.dataset == "ag_news" else "mnist", run.norm, 1.0)


def defaults_record(run, task, precision="float32"):
    """Trains the network of a `Task` and tests it; returns its record, with `DEFAULTS_FIELDS`."""
    started = time.perf_counter()
    (x, y), (test_x, test_y) = task.train, task.test
    budget = PrivacyBudget(run.epsilon, DELTA)
    with made_under(precision):
        private = tfdpnorm.make_private(task.network, budget=budget, num_examples=len(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    rate = run.times_rate * private.suggestion.learning_rates[run.optimizer]
    by_name = run.times_rate == 1
    private.compile(
        run.optimizer if by_name else optimizer_at(rate, private.plan.steps, run.optimizer), loss
    )
    private.fit(x, y, verbose=0)
    ledger, plan = private.ledger, private.plan
    logits = private.predict(test_x, batch_size=1000, verbose=0)
    return {
        "experiment": "defaults",
        "kind": "defaults",
        "cell": run.cell,
        "dataset": run.dataset,
        "norm": run.norm,
        "optimizer": run.trained_by,
        "epsilon": run.epsilon,
        "test_accuracy": round(float(100 * np.mean(logits.argmax(-1) == test_y)), 4),
        "epsilon_target": run.epsilon,
        "epsilon_spent": ledger.epsilon(),
        "delta": DELTA,
        "guarantee_holds": ledger.guarantee_holds,
        "num_examples": len(x),
        "expected_batch_size": plan.expected_batch_size,
        "updates": ledger.updates,
        "noise_multiplier": plan.noise_multiplier,
        "learning_rate": rate,
        "views": 1 if private.suggestion.views is None else private.suggestion.views.multiplicity,
        "seed": run.seed,
        "seconds": round(time.perf_counter() - started, 1),
        **made_with({"precision": precision}),
    }


def defaults_text(records, tuned):
    """Returns the table of records, in Markdown; `tuned` are those of the experiments `TUNED`."""
    epsilons = sorted({*EPSILONS, *(r["epsilon_target"] for r in records)})
    cells = sorted(
        {(r["dataset"], r["norm"], r["optimizer"]) for r in records},
        key=lambda c: (DATASETS.index(c[0]), NORMS.index(c[1]), c[2]),
    )
    rows = [
        (dataset, NETWORKS[dataset], norm, optimizer)
        + tuple(_entry(records, tuned, dataset, norm, optimizer, e) for e in epsilons)
        for dataset, norm, optimizer in cells
    ]
    columns = ("data", "network", "normalisation", "optimizer")
    return (
        f"Made from {len(records)} records by `python -m trainers.defaults --nocompute "
        "--output_dir=...`. Test accuracy in percent: mean +- standard deviation over runs with "
        "`make_private(model, budget=..., num_examples=...)` and an optimizer by name; with x2, of "
        "twice the suggested rate. In brackets: the cell that a search had found, of the same "
        "network, with its runs, and how far the defaults are ahead (+) or behind (-). KMNIST "
        "(7,011 training images) was never searched; the features are of 10,000 images of "
        "CIFAR-10. Public-batch normalisation has synthetic examples by default, and real ones in "
        "the searched cells of MNIST.\n\n"
        + table((*columns, *(f"epsilon {e:g}" for e in epsilons)), rows)
    )


def _entry(records, tuned, dataset, norm, optimizer, epsilon):
    own = [
        r["test_accuracy"]
        for r in records
        if (r["dataset"], r["norm"], r["optimizer"]) == (dataset, norm, optimizer)
        and r["epsilon_target"] == epsilon
    ]
    experiment, network_of = _TUNED.get(dataset, (None, str))
    network = network_of(norm)
    theirs = [
        r["test_accuracy"]
        for r in tuned
        if r["experiment"] == experiment
        and (r["network"], r["epsilon_target"]) == (network, epsilon)
    ]
    if not own or not theirs:
        return runs_text(own) if own else ""
    ahead = statistics.mean(own) - statistics.mean(theirs)
    return f"{runs_text(own)} [{runs_text(theirs)}: {ahead:+.1f}]"
