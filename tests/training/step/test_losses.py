"""One loss value per row, and never one row's target against another's prediction."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.private_of import private_of
from tfdpnorm.training.losses import PerExampleLoss

RNG = np.random.default_rng(5)


@each("loss, y_shape", [("mse", (3, 3, 1)), (keras.losses.MeanSquaredError(), (3, 3))])
def test_a_last_axis_of_one_is_no_axis(loss, y_shape):
    """[3, 3, 1] against [3, 3] would broadcast to [3, 3, 3] without an error."""
    y, predictions = RNG.normal(size=(2, 3, 3)).astype(np.float32)
    values = PerExampleLoss(loss)(tf.constant(y.reshape(y_shape)), tf.constant(predictions))
    np.testing.assert_allclose(values, ((y - predictions) ** 2).mean(1), rtol=1e-5)


@each("dtype, expected", [("float16", "float32"), ("float32", "float32"), ("float64",) * 2])
def test_losses_are_taken_in_single_precision_or_more(dtype, expected):
    predictions = tf.constant([[300.0, 0.0]], dtype)  # whose square float16 cannot hold
    y = tf.zeros([1, 2], "float32" if dtype.endswith("16") else dtype)
    values = PerExampleLoss("mse")(y, predictions)
    assert values.dtype == expected and values.numpy() == pytest.approx([45000.0], rel=1e-2)


@pytest.mark.keras_3_only("has Dice")
def test_the_remedy_for_a_reduction_over_all_axes_works():
    y, predictions = tf.ones([4, 2, 2, 1]), tf.random.uniform([4, 2, 2, 1])
    with pytest.raises(ValueError, match=r"Dice\(axis=\(1, 2, 3\)\)"):
        PerExampleLoss(keras.losses.Dice())(y, predictions)
    assert PerExampleLoss(keras.losses.Dice(axis=(1, 2, 3)))(y, predictions).shape == [4]


@pytest.mark.keras_2_only("converts no code of users")
def test_a_loss_of_the_users_is_converted_in_the_step():
    def loss(y, predictions):
        total = tf.zeros_like(predictions)
        for _ in tf.range(2):  # a loop of Python over a tensor: AutoGraph's to convert
            total += tf.square(predictions - y)
        return tf.reduce_mean(total, axis=-1)

    inputs = keras.Input([3])
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    private = private_of(
        model,
        expected_batch_size=8,
        steps=5,
        delta=1e-3,
    )
    private.compile("sgd", loss)
    x = np.random.default_rng(0).normal(size=[40, 3]).astype(np.float32)
    private.fit(x, x[:, :1], epochs=1, steps_per_epoch=1, verbose=0)
    assert private.ledger.updates == 1
