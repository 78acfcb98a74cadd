"""PrivateValidation: settings, data and judgements that are rejected."""

import math

import numpy as np
import pytest
from tensorflow import keras

from tests.training.callbacks.private_validation.queries import (
    count,
)
from tfdpnorm.privacy import PrivacyBudget
from tfdpnorm.training.callbacks.private_validation import PrivateValidation


class TestRefusals:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({}, "either a noise_multiplier or a budget, got None and None"),
            ({"noise_multiplier": 1, "budget": PrivacyBudget(1, 1e-5)}, "either"),
            ({"budget": PrivacyBudget(1, 1e-5)}, "queries=None"),
            ({"budget": 3.0, "queries": 2}, "PrivacyBudget.* got 3.0"),
            ({"noise_multiplier": math.nan}, "noise_multiplier >= 0 and finite, got nan"),
            ({"noise_multiplier": math.inf}, "got inf"),
            ({"noise_multiplier": -1.0}, "got -1.0"),
            ({"noise_multiplier": "1"}, "got '1'"),
            ({"noise_multiplier": 1, "queries": 0}, "queries to be an integer >= 1, got 0"),
            ({"noise_multiplier": 1, "every": 1.5}, "every to be an integer >= 1, got 1.5"),
            ({"noise_multiplier": 1, "batch_size": True}, "batch_size .* got True"),
            ({"noise_multiplier": 1, "name": "loss"}, "begin with \"private_val_\", got 'loss'"),
        ],
    )
    def test_settings_out_of_range_are_rejected(self, settings, message, validation):
        with pytest.raises(ValueError, match=message):
            PrivateValidation(*validation, **settings)

    @pytest.mark.parametrize(
        ("x", "y", "message"),
        [
            (np.ones((0, 5)), np.ones(0), "at least 1 example"),
            (np.ones((3, 5)), np.ones(2), "same number of rows"),
            (np.full((3, 5), np.nan), np.ones(3), "finite values in x"),
            (np.ones((3, 5)), np.full(3, 0.5), "class numbers 0, 1, ... in y"),
            (np.ones((3, 5)), np.array([-1, 1, 1]), "class numbers"),
            (np.ones((3, 5)), np.ones((3, 4)), "not one-hot"),
            (np.ones((3, 5)), np.full((3, 2), 0.5), "not one-hot"),
            (np.ones((3, 5)), np.ones((3, 4, 2)), r"got \[3, 4, 2\]. Pass correct"),
            (np.ones((3, 5)), {"a": np.ones(3)}, "a dict of arrays"),
        ],
    )
    def test_data_that_cannot_be_judged_are_rejected(self, x, y, message):
        with pytest.raises(ValueError, match=message):
            PrivateValidation(x, y, noise_multiplier=1)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"correct": lambda y, p: p[:, 0]}, r"bool \[30\].* float32 \[30\]"),
            ({"correct": lambda y, p: y[:, None] == p.argmax(1)}, r"got bool \[30, 30\]"),
            ({"correct": lambda y, p: p[:, 0] > np.median(p[:, 0])}, "each row by itself"),
            ({"correct": lambda y, p: np.arange(len(y)) > 3}, "each row by itself"),
        ],
    )
    def test_judgements_that_could_count_a_row_twice_are_rejected(
        self, settings, message, build, private, fit, validation
    ):
        trained = private(build())
        with pytest.raises(ValueError, match=message):
            fit(trained, [PrivateValidation(*validation, noise_multiplier=1, **settings)])
        assert trained.ledger.updates == 0

    @pytest.mark.parametrize(
        ("outputs", "labels", "message"),
        [
            (1, 2, "from_logits=True or False"),
            (1, 3, "class numbers below 2"),
            (2, 3, "class numbers below 2"),
        ],
    )
    def test_labels_that_do_not_fit_the_outputs(self, outputs, labels, message, validation):
        model = keras.Sequential([keras.layers.Dense(outputs, input_shape=(5,))])
        y = np.arange(30) % labels
        with pytest.raises(ValueError, match=message):
            count(PrivateValidation(validation[0], y, noise_multiplier=1), model)

    def test_more_than_one_row_of_outputs(self, validation):
        model = keras.Sequential([keras.layers.Reshape((5, 1), input_shape=(5,))])
        with pytest.raises(ValueError, match="one output"):
            count(PrivateValidation(*validation, noise_multiplier=1), model)

    def test_a_budget_at_another_delta(self, build, private, fit, validation):
        budget = PrivacyBudget(1.0, 1e-3)
        with pytest.raises(ValueError, match="the plan's delta, 1e-05.* got 0.001"):
            fit(private(build()), [PrivateValidation(*validation, budget=budget, queries=2)])

    def test_models_without_a_ledger_are_rejected(self, build, validation, data, cross_entropy):
        model = build()
        model.compile("sgd", cross_entropy)
        with pytest.raises(ValueError, match="no ledger to charge"):
            callbacks = [PrivateValidation(*validation, noise_multiplier=1)]
            model.fit(*data, verbose=0, callbacks=callbacks)
