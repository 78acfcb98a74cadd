"""Trainings with suggested settings alone, from three arguments, and their table."""

import statistics
import time

import numpy as np
from tensorflow import keras

import tfdpnorm
from tfdpnorm.keras_compat.devices_and_precision import made_under
from tfdpnorm.privacy import PrivacyBudget
from tfdpnorm.training.suggested_rate import optimizer_at
from trainers.ours.defaults_data import SYNTHETIC
from trainers.ours.defaults_runs import DATASETS, DELTA, EPSILONS, NETWORKS, NORMS
from trainers.ours.finetune_cells import LAST_LAYERS
from trainers.ours.finetune_cells import spec as finetune_spec
from trainers.records.made_with import made_with
from trainers.report.markdown import table

# By data set with searched cells: their experiment, and a function from the normalisation to their
# network.
_TUNED = {
    "digits": (
        "method_small_data",
        lambda norm: f"digits-{SYNTHETIC if norm == 'public_batch' else norm}",
    ),
    "mnist": ("davody_table5", lambda norm: norm),
    "ag_news": ("davody_table7", lambda norm: norm),
    "cifar10_features": (
        "finetune_cifar10",
        lambda norm: finetune_spec("cifar10", 1.0, norm=norm, **LAST_LAYERS).network,
    ),
}
TUNED = tuple(experiment for experiment, _ in _TUNED.values())


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
