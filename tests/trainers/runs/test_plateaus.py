"""Halving of the learning rate on a plateau: what is asked, what it costs, and what is said."""

import dataclasses
import types

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm.privacy import PrivacyPlan
from trainers.registry import run_cell
from trainers.runs.optimizers import fit_options, halving_callbacks
from trainers.runs.private import PrivateRun
from trainers.specs.parts import Variational


@pytest.fixture(scope="module")
def with_validation():
    """Returns a function from `ExperimentData` to the same with 30 private validation rows."""

    def make(data):
        rng = np.random.default_rng(9)
        rows = rng.random((30, 12, 12, 1), np.float32)
        return dataclasses.replace(data, validation_x=rows, validation_y=rng.integers(2, size=30))

    return make


class Rates(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = []

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(float(self.model.optimizer.learning_rate))


def trained(spec, data, echo=lambda _: None):
    rates = Rates()
    return run_cell(spec, data=data, echo=echo, callbacks=[rates]), rates.seen


def test_validation_queries_stay_within_their_own_budget(tiny_spec, tiny_data, with_validation):
    data = with_validation(tiny_data)
    spec = tiny_spec(epsilon=9.0, steps=20, plateau="private", plateau_epsilon=2.0)
    plan = PrivacyPlan(64, 16, 20, noise_multiplier=1.0, l2_norm_clip=1.0, delta=1e-3)
    validation, halving = halving_callbacks(spec, data, plan)
    np.testing.assert_array_equal(validation.x, data.validation_x)
    np.testing.assert_array_equal(validation.y, data.validation_y)
    # Five epochs of four updates: five Gaussian answers, an example moves each by one.
    alphas = np.arange(2, 200)
    renyi = 5 * alphas / (2 * validation.noise_multiplier**2)
    epsilon = renyi + np.log1p(-1 / alphas) - np.log(1e-3 * alphas) / (alphas - 1)
    assert 1.9 < epsilon.min() <= 2.01
    assert halving.monitor == validation.name


def test_epsilon_of_validation_examples_is_shown_separately(make_record):
    record = make_record(
        epsilon=2.5,
        epsilon_validation=0.75,
        not_covered=["The weather."],
        weights_from_elsewhere=["Weights of before."],
    )
    run = types.SimpleNamespace(
        data=types.SimpleNamespace(validation_x=np.zeros(30)),
        spec=types.SimpleNamespace(variational=Variational()),
    )
    assert PrivateRun.spent(run, record) == (
        "epsilon 2.5 at delta 1e-05 (rdp); for the 30 validation examples queried for the plateau: "
        "epsilon 0.75 at delta 1e-05\n  ADDS TO THIS EPSILON: Weights of before."
        "\n  NOT COVERED: The weather."
    )


def test_public_examples_cost_nothing_and_halve_the_rate(tiny_spec, tiny_data, with_validation):
    public = dict(plateau="public", plateau_dataset="kmnist", plateau_patience=1)
    data, shown = with_validation(tiny_data), []
    # At this rate nothing moves, and no epoch has a lower loss than the one before.
    spec = tiny_spec(steps=16, learning_rate=1e-30, **public)
    result, rates = trained(spec, data, echo=shown.append)
    assert "1 epoch without progress of the loss on 30 public examples of kmnist" in shown[0]
    np.testing.assert_allclose(rates, [1e-30, 5e-31, 2.5e-31, 1.25e-31], rtol=1e-5)
    assert result.record["guarantee_holds"] and result.record["not_covered"] == []
    assert result.record["epsilon_validation"] is None
    options = fit_options(spec, data)
    np.testing.assert_array_equal(options["validation_data"][0], data.validation_x)
    np.testing.assert_array_equal(options["validation_data"][1], data.validation_y)
