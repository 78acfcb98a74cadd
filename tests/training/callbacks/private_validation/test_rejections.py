"""PrivateValidation: settings, data and judgements that are rejected."""

import math

import numpy as np
import pytest
from tensorflow import keras

from tests.each import each
from tests.training.callbacks.private_validation.queries import count
from tfdpnorm.privacy import PrivacyBudget
from tfdpnorm.training.callbacks.private_validation import PrivateValidation


class TestRefusals:
    @each(
        "settings, name",
        [
            ({}, "noise_multiplier"),
            ({"noise_multiplier": 1, "budget": PrivacyBudget(1, 1e-5)}, "budget"),
            ({"budget": PrivacyBudget(1, 1e-5)}, "queries"),
            ({"budget": 3.0, "queries": 2}, "PrivacyBudget"),
            *(({"noise_multiplier": n}, str(n)) for n in (math.nan, math.inf, -1.0, "1")),
            ({"noise_multiplier": 1, "queries": 0}, "queries"),
            ({"noise_multiplier": 1, "every": 1.5}, "every"),
            ({"noise_multiplier": 1, "batch_size": True}, "batch_size"),
            ({"noise_multiplier": 1, "name": "loss"}, "'loss'"),
        ],
    )
    def test_settings_out_of_range_are_rejected(self, settings, name, validation):
        with pytest.raises(ValueError, match=name):
            PrivateValidation(*validation, **settings)

    @each(
        "x, y, message",
        [
            (np.ones((0, 5)), np.ones(0), "example"),
            (np.ones((3, 5)), np.ones(2), "rows"),
            (np.full((3, 5), np.nan), np.ones(3), "in x"),
            (np.ones((3, 5)), np.full(3, 0.5), "in y"),
            (np.ones((3, 5)), np.array([-1, 1, 1]), "class numbers"),
            (np.ones((3, 5)), np.ones((3, 4)), "one-hot"),
            (np.ones((3, 5)), np.full((3, 2), 0.5), "one-hot"),
            (np.ones((3, 5)), np.ones((3, 4, 2)), r"\[3, 4, 2\]"),
            (np.ones((3, 5)), {"a": np.ones(3)}, "dict"),
        ],
    )
    def test_data_that_cannot_be_judged_are_rejected(self, x, y, message):
        with pytest.raises(ValueError, match=message):
            PrivateValidation(x, y, noise_multiplier=1)

    def test_judgements_that_could_count_a_row_twice_are_rejected(
        self, build, private, fit, validation
    ):
        trained = private(build())
        for correct, message in (
            (lambda y, p: p[:, 0], r"float32 \[30\]"),
            (lambda y, p: y[:, None] == p.argmax(1), r"bool \[30, 30\]"),
            (lambda y, p: p[:, 0] > np.median(p[:, 0]), "row by itself"),
            (lambda y, p: np.arange(len(y)) > 3, "row by itself"),
        ):
            asked = PrivateValidation(*validation, noise_multiplier=1, correct=correct)
            with pytest.raises(ValueError, match=message):
                fit(trained, [asked])
        assert trained.ledger.updates == 0

    @each(
        "outputs, labels, message",
        [(1, 2, "from_logits"), (1, 3, "class numbers"), (2, 3, "class numbers")],
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
