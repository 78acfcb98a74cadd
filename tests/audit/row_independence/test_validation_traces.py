"""After a validation all is as it was, whether it found something or not."""

import random

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.audit.row_independence.sound_models import (
    CLASSES,
    FEATURES,
    SpectralDense,
    images,
    masked_lstm,
    sequential,
)
from tfdpnorm import audit

layers = keras.layers
pytestmark = pytest.mark.usefixtures("nothing_unchecked")


class TestNoTrace:
    MODELS = {
        "plain": lambda: sequential(layers.Dense(4)),
        "random": lambda: images(
            layers.Dropout(0.5, seed=1), layers.RandomFlip(seed=2), layers.GaussianNoise(0.1)
        ),
        "recurrent": masked_lstm,
        "batch": lambda: sequential(layers.BatchNormalization()),
        "spectral": lambda: sequential(SpectralDense()),
        "added_loss": lambda: sequential(layers.Dense(2, activity_regularizer="l2")),
    }

    @staticmethod
    def observed(name, validated, seeded):
        """Everything that could show a trace, from an equal start."""
        keras.backend.clear_session()
        keras.utils.set_random_seed(7)
        model = TestNoTrace.MODELS[name]()
        if not seeded:
            tf.random.set_seed(None)
        before = [tf.random.uniform([2], seed=3).numpy()]
        generator = tf.random.Generator.from_seed(1)
        if validated:
            audit.findings(
                model, augmentation=lambda x: x + tf.cast(tf.random.uniform([]), x.dtype)
            )
        seeds = [
            (g._seed, g._generator.state.numpy() if getattr(g, "_generator", None) else None)
            for g in (getattr(x, "_random_generator", None) for x in model._flatten_layers())
            if g is not None
        ]
        drawn = [
            tf.random.uniform([2], seed=3).numpy(),  # the next of a stream begun above
            generator.normal([2]).numpy(),
            np.random.rand(2),
            random.random(),
        ]
        if seeded:
            drawn += [tf.random.normal([2]).numpy(), layers.Dense(2)(tf.ones([1, 2])).numpy()]
        losses = [len(x._losses) + len(x._eager_losses) for x in model._flatten_layers()]
        return before, [v.numpy() for v in model.variables], seeds, drawn, losses

    @pytest.mark.slow_cases("recurrent-*", "spectral-*")
    @pytest.mark.parametrize("seeded", [True, False])
    @pytest.mark.parametrize("name", MODELS)
    def test_of_a_validation(self, name, seeded):
        without, after = (self.observed(name, validated, seeded) for validated in (False, True))
        tf.nest.map_structure(np.testing.assert_array_equal, without, after)

    def test_of_one_that_fails_in_the_middle(self, monkeypatch):
        """Variables and streams are put back also when a check raises."""
        keras.utils.set_random_seed(1)
        model = sequential(layers.BatchNormalization(), layers.Dropout(0.5))
        before = [v.numpy() for v in model.variables]
        state = random.getstate()

        def failing(*_):
            random.random()
            raise RuntimeError("in the middle")

        monkeypatch.setattr("tfdpnorm.audit.row_independence.differences.of_rows", failing)
        with pytest.raises(RuntimeError, match="in the middle"):
            audit.findings(model)
        for old, new in zip(before, model.variables, strict=True):
            np.testing.assert_array_equal(old, new.numpy())
        assert random.getstate() == state

    def test_a_trained_model_trains_on(self):
        """Compiled functions and dropout masks go on as if nothing had been in between."""

        def trained(validated):
            keras.backend.clear_session()
            keras.utils.set_random_seed(3)
            model = sequential(layers.Dense(8), layers.Dropout(0.5))
            model.compile("sgd", "mse")
            x, y = np.ones((8, FEATURES), np.float32), np.ones((8, CLASSES), np.float32)
            model.fit(x, y, epochs=2, verbose=0)
            if validated:
                audit.validate(model, loss="mse")
            model.fit(x, y, epochs=2, verbose=0)
            return model.get_weights()

        for one, other in zip(trained(False), trained(True), strict=True):
            np.testing.assert_array_equal(one, other)
