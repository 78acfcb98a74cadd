"""Masks of Keras and weights of steps in every mode of statistics, and with every engine."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.training.step.looped import looped_sum
from tfdpnorm.layers import PublicBatchNormalization
from tfdpnorm.training.losses import MEANING

ROWS, STEPS, WORDS, CLASSES, PADDING = 5, 4, 7, 3, 3
LENGTHS = (1, 4, 2, 3, 4)
WEIGHTS = np.array([1.0, 0.5, 2.0, 3.0, 0.1], np.float32)
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
LAYERS = keras.layers
# Of the rows of examples and public ones: whose moments normalise example i.

pytestmark = pytest.mark.filterwarnings(f"ignore:{MEANING[:20]}", "ignore:No privacy guarantee")


def words(count, seed=0):
    """Ids [count, STEPS]; 0 behind the length of each."""
    x = np.random.default_rng(seed).integers(1, WORDS, size=(count, STEPS))
    x[np.arange(STEPS) >= np.resize(LENGTHS, count)[:, None]] = 0
    return x


def masked_model(*hidden):
    inputs = keras.Input((STEPS,), dtype="int32")
    x = LAYERS.Embedding(WORDS, 4, mask_zero=True, embeddings_initializer="normal")(inputs)
    for layer in hidden:
        x = layer(x)
    return keras.Model(inputs, LAYERS.Dense(CLASSES)(x))


def targets():
    return np.random.default_rng(1).integers(CLASSES, size=(ROWS, STEPS))


def sum_of_valid_steps(model, y, clip, logits_of, weights=WEIGHTS):
    """Sum of clipped gradients, each that of the mean over the example's own valid steps.

    Weights of steps multiply the losses of the steps; the mean is not divided by them.
    """

    def loss_of(i):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y[i], logits_of(i))
        return tf.reduce_mean((weights[i] * losses)[: LENGTHS[i]])

    return looped_sum(model, loss_of, ROWS, clip)


def test_masks_with_statistics(private, one_lot, step_sum):
    """Against the layer's formula, written out; the moments are those of all steps."""
    norm = PublicBatchNormalization(statistics="lot", statistics_gradient="full")
    model = masked_model(norm)
    x, y, public = words(ROWS), targets(), words(6, seed=3)
    trained = private(model, public_batch=public, l2_norm_clip=np.inf, noise_multiplier=0.0)
    trained.compile("sgd", LOSS)
    embedding, head = model.layers[1], model.layers[-1]
    norm.gamma.assign([0.5, 1.0, 1.5, 2.0])

    def logits_of(i):
        z, of_public = (tf.gather(embedding.embeddings, t) for t in (x, public))
        mean, variance = tf.nn.moments(tf.concat([z, of_public], 0), [0, 1])
        normal = (z[i] - mean) / tf.sqrt(variance + norm.epsilon) * norm.gamma + norm.beta
        return normal @ head.kernel + head.bias

    expected = sum_of_valid_steps(model, y, np.inf, logits_of)
    lot = one_lot(x, y, WEIGHTS, padding=PADDING)
    found = step_sum(trained)(lot)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


WEIGHTS_OF_STEPS = np.random.default_rng(5).uniform(0, 3, (ROWS, STEPS)).astype(np.float32)


def test_weights_of_steps(private, one_lot, step_sum):
    """Also of views, each of which has the weights of its example."""
    model, x, y = masked_model(LAYERS.Dense(3, "tanh")), words(ROWS), targets()
    twice = {"augmentation_multiplicity": 2, "augmentation": [lambda x: x, lambda x: x + 0]}
    trained = private(model, l2_norm_clip=0.1, **twice)
    trained.compile("sgd", LOSS)
    expected = sum_of_valid_steps(
        model, y, 0.1, lambda i: model(x[i : i + 1], training=True)[0], WEIGHTS_OF_STEPS
    )
    lot = one_lot(x, y, WEIGHTS_OF_STEPS, padding=PADDING)
    found = step_sum(trained)(lot)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_weights_of_other_steps_are_rejected_before_the_ledger(private):
    model = masked_model(LAYERS.Dense(3, "tanh"))
    trained = private(model, num_examples=ROWS, expected_batch_size=2)
    trained.compile("sgd", LOSS)
    with pytest.raises(ValueError, match="^Expected weights"):
        trained.fit(words(ROWS), targets(), sample_weight=np.ones([ROWS, 2]), verbose=0)
    assert trained.ledger.updates == 0
