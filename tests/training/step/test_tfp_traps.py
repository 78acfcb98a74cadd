"""Faults measured in tensorflow-privacy 0.9.0, and that this library's path has none of them."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.keras_versions import legacy
from tfdpnorm.keras_compat.variables import KERAS_3


def no_gradient(y, predictions):
    return 0.0 * tf.reduce_sum(predictions, axis=1)


def linear(units=64):
    return keras.Sequential([keras.layers.Dense(units, use_bias=False, input_shape=(5,))])


def distinct(updates):
    """Whether no coordinate of one update is one of another: a repeated draw would be."""
    rounded = [np.round(np.concatenate([p.ravel() for p in u]), 6) for u in updates]
    # Independent draws of 320 coordinates share a few values by chance, never most of them.
    return all(
        np.mean(np.isclose(np.abs(a), np.abs(b), rtol=1e-4)) < 0.1
        for i, a in enumerate(rounded)
        for b in rounded[:i]
    )


class TestGlobalSeed:
    def test_neither_weights_nor_compiling_restore_the_noise(self, private, data, weight_trace):
        trained, trace = private(linear()), weight_trace()
        keras.utils.set_random_seed(1)
        trained.compile(keras.optimizers.SGD(1.0), no_gradient)
        # Epsilon only grows: the first epoch is the best, and is restored.
        stops = keras.callbacks.EarlyStopping(
            "epsilon", patience=1, mode="min", restore_best_weights=True
        )
        trained.fit(*data, epochs=2, steps_per_epoch=1, verbose=0, callbacks=[trace, stops])
        again = weight_trace()
        keras.utils.set_random_seed(1)
        trained.compile(keras.optimizers.SGD(1.0), no_gradient)
        trained.fit(*data, epochs=1, steps_per_epoch=2, verbose=0, callbacks=[again])
        assert int(trained.update_count) == trained.ledger.updates == 4
        assert distinct([*trace.updates(), *again.updates()])


class TestHalfPrecision:
    def test_noise_is_in_float32_and_not_scaled(self, private, data, weight_trace):
        keras.mixed_precision.set_global_policy("mixed_float16")
        trained, trace = private(linear(1000), steps=2), weight_trace()
        trained.compile(keras.optimizers.SGD(1.0), no_gradient)
        trained.fit(*data, epochs=1, verbose=0, callbacks=[trace])
        values = np.concatenate([u[0].ravel() for u in trace.updates()])
        assert values.std() / 0.1 == pytest.approx(1, abs=6 / np.sqrt(2 * values.size))
        # On a grid of 1/32 to 1/64 of its size it takes some 200 values, which half precision
        # would round.
        assert len(np.unique(values)) > 100
        assert {tf.as_dtype(v.dtype) for v in trained.trainable_variables} == {tf.float32}

    def test_loss_scaling_optimizers_are_rejected(self, build, private):
        of_keras = keras.optimizers if KERAS_3 else keras.mixed_precision
        inner = [keras.optimizers.SGD] if KERAS_3 else [keras.optimizers.SGD, legacy("SGD")]
        for make in inner:
            with pytest.raises(ValueError, match="Pass the optimizer inside it"):
                private(build()).compile(of_keras.LossScaleOptimizer(make()), "mse")

    @pytest.mark.keras_3_only("optimizers have no loss_scale_factor")
    def test_a_factor_of_the_loss_is_rejected(self, build, private):
        with pytest.raises(ValueError, match="loss_scale_factor=4.0.*loss_scale="):
            private(build()).compile(keras.optimizers.SGD(loss_scale_factor=4.0), "mse")


class TestRegularizers:
    def test_tfp_drops_activity_losses_here_they_are_rejected(self, build, private, data):
        class Penalty(keras.layers.Layer):
            def call(self, inputs, training=None):
                if training or not self.only_in_training:
                    self.add_loss(tf.reduce_mean(inputs**2))
                return inputs

            only_in_training = False

        functional = keras.Sequential([keras.Input((5,)), Penalty(), keras.layers.Dense(3)])
        with pytest.raises(ValueError, match="uses add_loss"):
            private(functional)

        class Hidden(keras.Model):
            def __init__(self):
                super().__init__()
                self.penalty, self.head = Penalty(), keras.layers.Dense(3)

            def call(self, inputs, training=None):
                return self.head(self.penalty(inputs, training=training))

        for only_in_training in (False, True):
            model = Hidden()
            model.penalty.only_in_training = only_in_training
            trained = private(model)
            trained.compile("sgd", "mse")
            with pytest.raises(ValueError, match="uses add_loss"):
                trained.fit(data[0], data[0][:, :3], verbose=0)
            assert trained.ledger.updates == 0, "it shows before anything is spent"
