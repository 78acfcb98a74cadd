"""Our own experiments on the method: cells that differ in what they compare, and in no more."""

import dataclasses

import numpy as np
import pytest

from tfdpnorm.data import SyntheticRows
from trainers import registry
from trainers.davody import cells as davody
from trainers.ours.method_cells import digits_spec, mismatch_spec
from trainers.runs.data import load_experiment_data
from trainers.runs.private import PrivateRun


def settings(spec, *names):
    return {k: v for k, v in dataclasses.asdict(spec).items() if k not in names}


def test_public_rows_are_all_that_differs():
    columns = {}
    for spec in registry.cells("method_public_rows"):
        automatic = spec.network.endswith("-weight_auto")
        key = (spec.network.partition("-")[0], spec.epsilon, automatic)
        columns.setdefault(key, []).append(spec)
    for specs in columns.values():
        plain = [settings(spec, "network", "public_dataset") for spec in specs]
        assert all(one == plain[0] for one in plain)
        assert len({spec.public_dataset for spec in specs}) == len(specs)
        assert not specs[0].public_dataset.startswith("synthetic")
    assert {e for data, e, _ in columns if data == "mnist"} == {7.0, 3.0, 1.0, 0.5, 0.1}


@pytest.mark.parametrize("experiment", ["method_public_rows", "method_small_data"])
def test_names_of_cells_are_unique(experiment):
    names = [spec.cell for spec in registry.cells(experiment)]
    assert len(set(names)) == len(names)


def test_small_mnist_is_that_of_davody_statistics():
    (whole,) = (
        spec for spec in registry.cells("davody_statistics") if spec.cell == "public_batch/eps=3"
    )
    for spec in registry.cells("method_small_data"):
        if spec.dataset == "mnist" and spec.epsilon == 3:
            names = ("experiment", "network", "public_dataset", "pull_back")
            if spec.norm != "public_batch":
                names += ("norm", "model_options", "pull_back_weight")
            assert settings(spec, *names) == settings(whole, *names)


def test_other_budgets_take_the_settings_of_the_next_smaller_one():
    rates = [digits_spec("layer", e).learning_rate for e in (0.5, 1.0, 2.9, 3.0, 6.0, 100.0)]
    assert rates == [0.15, 0.15, 0.15, 0.3, 0.3, 0.4]
    spec = digits_spec("public_batch-synthetic", 2.0, steps=None, seed=3)
    assert (spec.steps, spec.seed, spec.cell) == (None, 3, "digits-public_batch-synthetic/eps=2")


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


@pytest.mark.parametrize("name", ["synthetic:stripes", "synthetic:tokens:2"])
def test_unknown_kinds_are_rejected(name):
    with pytest.raises(ValueError, match="public_dataset to be one of"):
        davody.spec("mnist", "public_batch", 1.0, public_dataset=name)


def test_the_study_splits_public_rows_off():
    spec = mismatch_spec(7.0, seed=2, steps=9)
    assert (spec.public_dataset, spec.steps, spec.seed, spec.epochs) == ("split", 9, 2, None)
