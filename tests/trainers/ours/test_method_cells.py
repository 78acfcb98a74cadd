"""Our own experiments on the method: cells that differ in what they compare, and in no more."""

import dataclasses

import numpy as np

from tfdpnorm.data import SyntheticRows
from trainers.davody import cells as davody
from trainers.runs.data import load_experiment_data
from trainers.runs.private import PrivateRun


def test_synthetic_rows_leave_all_private_rows():
    settings = dict(public_dataset="synthetic:uniform", public_batch_size=40, seed=3)
    data = load_experiment_data(davody.spec("digits", "public_batch", 1.0, **settings))
    assert data.num_examples == 1437
    assert data.public_x == SyntheticRows("uniform", 40, None, 3)
    assert data.public_source == '40 synthetic ones of kind "uniform", seed 3'
    none = load_experiment_data(davody.spec("digits", "layer", 1.0, **settings))
    assert none.public_x is None and none.public_source is None


def test_a_run_says_that_its_public_rows_are_synthetic(tiny_spec, tiny_data):
    rows = SyntheticRows(count=6, seed=1)
    data = dataclasses.replace(tiny_data, public_x=rows, public_source=str(rows))
    spec = tiny_spec(norm="public_batch", public_dataset="synthetic", public_batch_size=6)
    run = PrivateRun(spec, data)
    assert "public rows: 6 synthetic ones, seed 1" in run.describe()
    assert "Public rows: 6 synthetic ones of kind" in run.model.privacy_statement()


def test_features_of_synthetic_images(monkeypatch, tmp_path):
    """Convolutions that are trained before get images, whatever their features are like."""
    from trainers.runs import data as datasets

    seen = {}

    def features(spec, arrays, **more):
        seen.update(arrays)
        return arrays, "nothing", None

    monkeypatch.setattr(datasets, "frozen_features", features)
    monkeypatch.setattr(datasets, "_check_fits", lambda *args, **more: None)
    spec = davody.spec(
        "digits",
        "public_batch",
        1.0,
        public_dataset="synthetic",
        pretraining_dataset="kmnist",
        public_batch_size=7,
    )
    load_experiment_data(spec, cache_dir=tmp_path)
    made = SyntheticRows(count=7).rows((28, 28, 1))
    np.testing.assert_array_equal(seen["public_x"], made)
