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
MOMENTS_OF = {
    "public": lambda z, public, i: public,
    "example": lambda z, public, i: tf.concat([z[i : i + 1], public], 0),
    "lot": lambda z, public, i: tf.concat([z, public], 0),
}

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


@pytest.mark.slow_cases("*-0.1", "public-inf", "example-inf")
@pytest.mark.parametrize("clip", [0.1, np.inf])
@pytest.mark.parametrize("mode", ["public", "example", "lot"])
def test_masks_with_statistics(mode, clip, private, one_lot, step_sum):
    """Against the layer's formula, written out; the moments are those of all steps."""
    norm = PublicBatchNormalization(statistics=mode, statistics_gradient="full")
    if mode == "public":
        norm.statistics_gradient = "stop"
    model = masked_model(norm)
    x, y, public = words(ROWS), targets(), words(6, seed=3)
    settings = {"noise_multiplier": 0.0} if np.isinf(clip) else {}
    trained = private(model, public_batch=public, l2_norm_clip=clip, **settings)
    trained.compile("sgd", LOSS)
    embedding, head = model.layers[1], model.layers[-1]
    norm.gamma.assign([0.5, 1.0, 1.5, 2.0])

    def logits_of(i):
        z, of_public = (tf.gather(embedding.embeddings, t) for t in (x, public))
        mean, variance = tf.nn.moments(MOMENTS_OF[mode](z, of_public, i), [0, 1])
        if mode == "public":
            mean, variance = tf.stop_gradient(mean), tf.stop_gradient(variance)
        normal = (z[i] - mean) / tf.sqrt(variance + norm.epsilon) * norm.gamma + norm.beta
        return normal @ head.kernel + head.bias

    expected = sum_of_valid_steps(model, y, clip, logits_of)
    lot = one_lot(x, y, WEIGHTS, padding=PADDING)
    found = step_sum(trained)(lot)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["book_keeping", "per_example", "tfp_vectorized", "tfp_model"])
@pytest.mark.parametrize("kind", ["dense", "lstm"])
def test_masks_with_engines(kind, engine, private, one_lot, step_sum):
    layer = {"dense": LAYERS.Dense(3, "tanh"), "lstm": LAYERS.LSTM(3, return_sequences=True)}[kind]
    model, x, y = masked_model(layer), words(ROWS), targets()
    trained = private(model, engine=engine, l2_norm_clip=0.1)
    trained.compile("sgd", LOSS)
    run, lot = step_sum(trained), one_lot(x, y, WEIGHTS, padding=PADDING)
    if (kind, engine) == ("lstm", "tfp_model"):
        with pytest.raises(ValueError, match='Expected operations .*engine="per_example"'):
            run(lot)
        return
    expected = sum_of_valid_steps(model, y, 0.1, lambda i: model(x[i : i + 1], training=True)[0])
    np.testing.assert_allclose(run(lot), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.needs_tensorflow_privacy
def test_unvectorizable_models_are_rejected_before_the_ledger(private, capfd):
    model = masked_model(LAYERS.LSTM(3, return_sequences=True))
    trained = private(model, num_examples=ROWS, expected_batch_size=2, engine="tfp_model")
    trained.compile("sgd", LOSS)
    with pytest.raises(ValueError, match="^Expected operations that TensorFlow can vec") as caught:
        trained.fit(words(ROWS), targets(), verbose=0)
    assert "\n" not in str(caught.value)
    assert trained.ledger.updates == 0
    assert "pfor" not in capfd.readouterr().err


WEIGHTS_OF_STEPS = np.random.default_rng(5).uniform(0, 3, (ROWS, STEPS)).astype(np.float32)


@pytest.mark.slow_cases("*-views", "per_example-*")
@pytest.mark.parametrize("views", [False, True], ids=["rows", "views"])
@pytest.mark.parametrize("engine", ["book_keeping", "per_example"])
def test_weights_of_steps(engine, views, private, one_lot, step_sum):
    """Also of views, each of which has the weights of its example."""
    model, x, y = masked_model(LAYERS.Dense(3, "tanh")), words(ROWS), targets()
    twice = {"augmentation_multiplicity": 2, "augmentation": [lambda x: x, lambda x: x + 0]}
    trained = private(model, engine=engine, l2_norm_clip=0.1, **(twice if views else {}))
    trained.compile("sgd", LOSS)
    expected = sum_of_valid_steps(
        model, y, 0.1, lambda i: model(x[i : i + 1], training=True)[0], WEIGHTS_OF_STEPS
    )
    lot = one_lot(x, y, WEIGHTS_OF_STEPS, padding=PADDING)
    found = step_sum(trained)(lot)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_row_with_weights_of_steps_moves_the_sum_by_the_clip(private, one_lot):
    model, x, y = masked_model(LAYERS.Dense(3, "tanh")), words(ROWS), targets()
    trained = private(model, l2_norm_clip=0.01)
    trained.compile("sgd", LOSS)
    huge = WEIGHTS_OF_STEPS * np.array([1, 1e6, 1, 1, 1], np.float32)[:, np.newaxis]

    def total(rows):
        sums = trained.clipped_sum(one_lot(x[rows], y[rows], huge[rows], rows=8))
        return np.concatenate([s.numpy().ravel() for s in sums])

    every = np.arange(ROWS)
    for i in range(ROWS):
        moved = np.linalg.norm(total(every) - total(np.delete(every, i)))
        assert 0.99 * 0.01 < moved <= 0.01 * (1 + 1e-5)


def test_weights_of_other_steps_are_rejected_before_the_ledger(private):
    model = masked_model(LAYERS.Dense(3, "tanh"))
    trained = private(model, num_examples=ROWS, expected_batch_size=2)
    trained.compile("sgd", LOSS)
    with pytest.raises(ValueError, match="^Expected weights with the first axes of the loss"):
        trained.fit(words(ROWS), targets(), sample_weight=np.ones([ROWS, 2]), verbose=0)
    assert trained.ledger.updates == 0


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("mask_zero", [False, True])
def test_metrics_with_weights_of_steps(mask_zero, jit_compile, private):
    """As Keras' `evaluate` on the same weights, with rows of padding in the lot."""
    model = masked_model(LAYERS.Dense(3, "tanh"))
    model.layers[1].mask_zero = mask_zero
    x, y = words(ROWS), targets()
    generator = "philox" if jit_compile else "openssl"
    plan = dict(num_examples=ROWS, expected_batch_size=ROWS, steps=1)
    trained = private(model, noise_generator=generator, **plan)
    trained.compile(
        keras.optimizers.SGD(0.0), LOSS, weighted_metrics=["accuracy"], jit_compile=jit_compile
    )
    found = trained.fit(x, y, sample_weight=WEIGHTS_OF_STEPS, verbose=0).history["accuracy"][0]
    valid = (np.arange(STEPS) < np.array(LENGTHS)[:, np.newaxis]) if mask_zero else np.ones_like(x)
    weights = WEIGHTS_OF_STEPS * valid
    right = model(x).numpy().argmax(-1) == y
    assert found == pytest.approx((right * weights).sum() / weights.sum(), rel=1e-5)
