"""Trainings with suggested settings alone: their records and table."""

import numpy as np
import pytest

from tfdpnorm.data import Examples
from trainers.ours.defaults import defaults_record, lenet5_task
from trainers.ours.defaults_runs import DefaultsRun
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
