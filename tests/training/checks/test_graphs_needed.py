"""Models and losses that no graph can hold, or that mix rows: rejected in one line of our own."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.private_of import private_of

layers = keras.layers
X = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)


def made(*parts, **settings):
    return private_of(
        keras.Sequential([keras.Input((5,)), *parts]),
        steps=2,
        l2_norm_clip=0.5,
        **settings,
    )


class Values(layers.Layer):
    """Looks at values, which a graph does not have."""

    def call(self, x):
        return x * (2.0 if tf.reduce_sum(x).numpy() > 0 else 1.0)

    def compute_output_shape(self, shape):
        return shape


def assert_one_line(error, start):
    assert str(error).startswith(start) and "\n" not in str(error)
    assert "user code" not in str(error)


def wrapped(layer):
    return keras.Sequential([layers.Dense(5), layer])


@pytest.mark.keras_2_only("layers of Keras 3 have no such option")
@each("around", [lambda layer: layer, wrapped])
def test_a_dynamic_layer_is_rejected_at_once(around):
    with pytest.raises(ValueError) as caught:
        made(around(Values(dynamic=True, name="looks")), layers.Dense(1))
    assert_one_line(caught.value, "Expected layers that run in a graph, got Values 'looks'")


def over_pairs(y, predictions):
    del y
    unit = tf.nn.l2_normalize(predictions, -1)
    return -tf.linalg.diag_part(tf.nn.log_softmax(tf.matmul(unit, unit, transpose_b=True)))


@each("same_shape, engine", [(True, None), (False, None), (True, "per_example")])
def test_a_loss_over_pairs_is_not_told_to_have_other_targets(same_shape, engine):
    private = made(layers.Dense(5), engine=engine)
    private.compile("sgd", over_pairs)
    y = X if same_shape else X[:, :1]
    with pytest.raises(ValueError) as caught:
        private.fit(X, y, epochs=1, steps_per_epoch=1, verbose=0)
    assert_one_line(caught.value, "The loss compares")
    assert ("The loss itself mixes rows" in str(caught.value)) == same_shape
    assert ("the shape of the model's outputs" in str(caught.value)) != same_shape
