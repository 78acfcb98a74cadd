"""Layers whose output is copied for each example, in models that look at its shape."""

import pytest
import tensorflow as tf
from tensorflow import keras

from tests.private_of import private_of
from tfdpnorm.independence import prove_training

layers = keras.layers
STEPS, WIDTH = 4, 6


class Positions(layers.Layer):
    """Adds what a function makes of the embeddings of all places, [STEPS, WIDTH]."""

    def __init__(self, made_of):
        super().__init__()
        self.made_of, self.places = made_of, layers.Embedding(STEPS, WIDTH)

    def call(self, x):
        return x + self.made_of(self.places(tf.range(STEPS)))


def model_of(made_of):
    inputs = keras.Input((STEPS, WIDTH))
    return keras.Sequential([inputs, Positions(made_of), layers.Flatten(), layers.Dense(1)])


def without_rank(p):
    return 2.0 * p if p.shape.rank == 2 else 3.0 * p


@pytest.mark.parametrize("rows", [2, 3])
@pytest.mark.parametrize(
    "made_of",
    [
        lambda p: p / float(p.shape[0]),
        lambda p: p / tf.sqrt(tf.cast(tf.shape(p)[0], tf.float32)),
        lambda p: p * float(len(p.shape)),
        lambda p: tf.tanh(p) if p.shape.rank == 2 else tf.sigmoid(p),
        without_rank,
    ],
    ids=["size", "tensor_of_size", "rank", "operation", "constant"],
)
def test_a_model_that_reads_the_shape_is_rejected(made_of, rows):
    spec = tf.TensorSpec([rows, STEPS, WIDTH])
    with pytest.raises(ValueError, match="reads numbers from the shape.*Do not read that shape"):
        prove_training(model_of(made_of), "mse", spec, tf.TensorSpec([rows, 1]))


@pytest.mark.parametrize(
    "made_of",
    [
        lambda p: p,
        lambda p: 2.0 * tf.tanh(p) / p.shape[-1],
    ],
    ids=["as_it_is", "width"],
)
def test_a_model_that_does_not_is_verified(made_of):
    spec = tf.TensorSpec([3, STEPS, WIDTH])
    proof = prove_training(model_of(made_of), "mse", spec, tf.TensorSpec([3, 1]))
    assert proof.holds, proof.obstacle


def test_another_engine_is_found_for_it():
    with pytest.warns(UserWarning, match="reads numbers from the shape"):
        private = private_of(
            model_of(lambda p: p / float(p.shape[0])),
            num_examples=40,
            expected_batch_size=10,
            steps=2,
            l2_norm_clip=1.0,
            noise_multiplier=2.0,
            delta=1e-5,
        )
    private.compile("sgd", "mse")
    private.fit(tf.ones([40, STEPS, WIDTH]).numpy(), tf.ones([40, 1]).numpy(), verbose=0)
    assert "isolated" in private.privacy_statement() or "per_example" in private.privacy_statement()
