"""Trainings with suggested settings alone: their records and table."""

import numpy as np
import pytest

from tests.each import each
from tfdpnorm.data import Examples
from trainers.ours.defaults import defaults_record, defaults_text
from trainers.ours.defaults_data import lenet5_task
from trainers.ours.defaults_runs import NETWORKS, DefaultsRun
from trainers.records.fields import DEFAULTS_FIELDS


@pytest.fixture
def toy():
    rng = np.random.default_rng(0)
    return [
        Examples(
            "toy", s, rng.random((40, 8, 8, 1), np.float32), rng.integers(10, size=40), 10, True
        )
        for s in ("train", "test")
    ]


def test_defaults_need_only_model_budget_and_number(toy, monkeypatch):
    monkeypatch.setattr("tfdpnorm.privacy.suggested_plan._STEPS", 4)
    monkeypatch.setattr("tfdpnorm.privacy.suggested_plan._FEWEST_STEPS", 4)
    run = DefaultsRun("digits", "public_batch", 3.0, "sgd", 0)
    record = defaults_record(run, lenet5_task(run, *toy))
    assert set(record) == set(DEFAULTS_FIELDS) and record["guarantee_holds"]
    assert 2.9 < record["epsilon_spent"] <= 3.0
    assert record["num_examples"] == 40 and record["learning_rate"] > 0
    assert record["cell"] == "digits-public_batch-sgd/eps=3"


def record(dataset, norm, epsilon, accuracy, **more):
    given = {"dataset": dataset, "norm": norm, "optimizer": "sgd", "epsilon_target": epsilon}
    return {**given, "test_accuracy": accuracy, **more}


@each(
    "dataset, experiment, network, other",
    [
        ("digits", "method_small_data", "digits-layer", "mnist-layer"),
        ("mnist", "davody_table5", "layer", "none"),
        ("ag_news", "davody_table7", "layer", "none"),
        (
            "cifar10_features",
            "finetune_cifar10",
            "efficientnet_lite0-layer-96px-10000_images",
            "efficientnet_lite0-none-96px-10000_images",
        ),
    ],
)
def test_the_searched_cell_of_the_same_budget_is_in_brackets(dataset, experiment, network, other):
    own = [record(dataset, "layer", 3.0, accuracy) for accuracy in (90.0, 92.0)]
    tuned = [
        {"experiment": experiment, "network": n, "epsilon_target": e, "test_accuracy": accuracy}
        for n, e, accuracy in ((network, 3.0, 93.0), (network, 1.0, 10.0), (other, 3.0, 20.0))
    ]
    row = defaults_text(own, tuned).splitlines()[-1]
    cells = f"{NETWORKS[dataset]} | layer | sgd |  | 91.00 +- 1.41 (2 runs) [93.00 (1 run): -2.0]"
    assert row == f"| {dataset} | {cells} |  |"


def test_data_that_nothing_was_derived_from_have_no_brackets():
    text = defaults_text([record("kmnist", "none", 1.0, 50.0)], [])
    assert text.splitlines()[-1] == "| kmnist | LeNet-5 | none | sgd | 50.00 (1 run) |  |  |"
