"""Shapes, dtypes and values given to fit: rejected in clear words, or the update that they ask for.

An update that is made is the noise and the sum of what each row alone gives, over the lot size.
"""

import warnings

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st
from tensorflow import keras

from tests.fuzz.linear import lot_of, vector
from tests.fuzz.targets import Refusal, attempt, fuzz
from tests.private_of import private_of
from tfdpnorm.data import poisson_batches
from tfdpnorm.layers import PublicBatchNormalization
from tfdpnorm.noise.gaussian import GaussianNoise
from tfdpnorm.noise.grid import grid_width

N, OUTPUTS, RATE, SEED = 8, 8, 0.1, 3
KINDS = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", ">f4", ">i8")
NO_KINDS = ("O", "S3", "U3", "M8[s]", "m8[s]", "c8", "c16")
RESTS = ((), (1,), (3,), (2, 2), (2, 1, 3), (2, 1, 2, 1), (0,), (OUTPUTS,), (N,))
TARGETS = (
    *[(OUTPUTS,)] * 4, (), (1,), (2,), (0,), (OUTPUTS, 1), (1, OUTPUTS), (OUTPUTS, OUTPUTS),
)  # fmt: skip
HOSTILE = (np.nan, np.inf, -np.inf, 1e300, 65504.0, 1e38, -0.0)


@st.composite
def arrays_of(draw, rests, role):
    """An array [N, ...] for a role, or something else in its place."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    rows = draw(st.sampled_from([N] * 40 + [N - 1, N + 1, 0, 1]))
    shape = (rows, *draw(st.sampled_from(rests)))
    kinds = KINDS if draw(st.integers(0, 11)) else NO_KINDS
    kinds = ("f4",) if draw(st.booleans()) else kinds
    kind = draw(st.sampled_from(kinds))
    lowest = 0 if role == "sample_weight" or kind[0] in "u?Mm" else -3
    array = rng.integers(lowest, 4, size=shape)
    array = (array.astype(bool) if kind == "?" else array).astype(kind)
    if array.dtype.kind == "f" and array.size and draw(st.integers(0, 5)) == 0:
        with np.errstate(over="ignore"):
            array.flat[draw(st.integers(0, array.size - 1))] = draw(st.sampled_from(HOSTILE))
    if draw(st.integers(0, 19)) == 0:
        others = [
            array.tolist(), [array, array], [[1.0], [1.0, 2.0]], np.float32(3), 3, "text", {}, (),
            array[..., np.newaxis], np.asfortranarray(array), array[::-1], tf.constant(1.0), None,
        ]  # fmt: skip
        if role != "x":  # Whether a model takes several inputs is between it and Keras.
            others += [tuple(array), {"a": array}, (array, array)]
        return draw(st.sampled_from(others))
    return array


def model_with(norm):
    hidden = [keras.layers.Dense(3), PublicBatchNormalization()] if norm else []
    return keras.Sequential([keras.layers.Flatten(), *hidden, keras.layers.Dense(OUTPUTS)])


LOSSES = {
    "mse": lambda: "mse",
    "mae": lambda: "mae",
    "labels": lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True),
}


@pytest.mark.slow
@fuzz(
    x=arrays_of(RESTS, "x"),
    y=arrays_of(TARGETS, "y"),
    sample_weight=st.one_of(st.none(), arrays_of([(), (), (), (), (1,)], "sample_weight")),
    public_batch=st.one_of(st.none(), st.none(), arrays_of(RESTS, "public_batch")),
    loss=st.sampled_from(["mse", "mse", *LOSSES]),
    engine=st.sampled_from(["book_keeping", "book_keeping", "per_example"]),
    rows=st.sampled_from([None, 2, 3]),
    quick=15,
    share=0.3,
)
def test_fit_data(x, y, sample_weight, public_batch, loss, engine, rows):
    keras.utils.set_random_seed(0)
    if loss == "labels" and isinstance(y, np.ndarray) and y.dtype.kind in "if":
        with np.errstate(invalid="ignore"):
            y = abs(y) % OUTPUTS  # Of labels out of range TensorFlow speaks, on a CPU.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        private = attempt(
            lambda: private_of(
                model_with(public_batch is not None), num_examples=N, expected_batch_size=5,
                steps=2, l2_norm_clip=1.0, noise_multiplier=0.5, delta=1e-3, engine=engine,
                physical_batch_size=rows, public_batch=public_batch, insecure_seed=SEED,
            )
        )  # fmt: skip
        if isinstance(private, Refusal):
            assert public_batch is not None
            return "refused"
        private.compile(keras.optimizers.SGD(RATE), LOSSES[loss](), run_eagerly=True)
        start = []
        keep = keras.callbacks.LambdaCallback(
            on_train_begin=lambda logs: start.append(private.model.get_weights())
        )
        options = dict(sample_weight=sample_weight, epochs=1, steps_per_epoch=1, verbose=0)
        done = attempt(lambda: private.fit(x, y, callbacks=[keep], **options))
    if isinstance(done, Refusal):
        # What does not fit the loss shows in the first update, which is counted before it is made.
        assert private.ledger.updates <= 1
        assert int(private.update_count) == private.ledger.state.position
        if start:
            assert np.array_equal(vector(start[0]), vector(private.model.get_weights()))
        return "refused by fit"
    assert private.ledger.updates == 1
    assert "the batches were not Poisson-sampled" not in private.privacy_statement()
    end = private.model.get_weights()
    assert np.isfinite(vector(end)).all()
    batches = poisson_batches(x, y, sample_weight=sample_weight, expected_batch_size=5)
    lot = next(iter(batches.as_dataset(private.slots, insecure_seed=SEED)))
    private.model.set_weights(start[0])
    clipped = private.clipped_sum(lot)
    check_rows(private, batches, lot, vector(clipped))
    if public_batch is None:
        released = GaussianNoise(SEED).noised(clipped, 0.5, 0)
        expected = vector(start[0]) - RATE * vector(released) / 5
        # Where two ways to compute the sum round otherwise, a number may be rounded to the next.
        step = RATE * grid_width(0.5) / 5
        np.testing.assert_allclose(vector(end), expected, rtol=1e-5, atol=1e-5 + step)
    return "trained"


def check_rows(private, batches, lot, total):
    """The sum of a lot is that of its rows, each by itself, and those of weight 0 add nothing."""
    flat = tf.nest.map_structure(
        lambda t: tf.reshape(t, [-1, *t.shape[2:]]).numpy(), (lot.x, lot.y, lot.sample_weight)
    )
    each = []
    for row in np.flatnonzero(tf.reshape(lot.mask, [-1])):
        x, y, weight = tf.nest.map_structure(lambda a, row=row: a[row : row + 1], flat)
        each.append(vector(private.clipped_sum(lot_of_structure(x, y, weight))))
        assert np.linalg.norm(each[-1]) <= 1 + 1e-4
        assert weight[0] or not each[-1].any()
    np.testing.assert_allclose(total, np.sum([np.zeros_like(total), *each], 0), atol=1e-4)
    assert len(each) <= batches.num_examples


def lot_of_structure(x, y, weight):
    one = lot_of(weight, weight, weight)
    add = lambda array: tf.constant(array)[tf.newaxis]  # noqa: E731
    return one._replace(x=tf.nest.map_structure(add, x), y=tf.nest.map_structure(add, y))
