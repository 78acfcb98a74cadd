"""The audit finds rows that break the bound, and no more than the bound where it holds."""

import types

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.private_of import private_of
from tfdpnorm.audit.neighbours import frames, unusual_rows
from tfdpnorm.audit.sensitivity import ClippedSums, measure_sensitivity
from tfdpnorm.layers import PublicBatchNormalization

FEATURES, CLASSES, ROWS, CLIP = 5, 3, 12, 0.5


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    return rng.normal(size=(ROWS, FEATURES)).astype(np.float32), rng.integers(CLASSES, size=ROWS)


def compiled(model, loss=None, **settings):
    private = private_of(
        model,
        num_examples=ROWS,
        expected_batch_size=ROWS,
        steps=1,
        l2_norm_clip=CLIP,
        **settings,
    )
    loss = loss or keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    private.compile("sgd", loss)
    return private


def dense_model(statistics=None, dropout=0.0):
    model = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(8)])
    if statistics:
        model.add(PublicBatchNormalization(statistics=statistics))
    model.add(keras.layers.Activation("tanh"))
    if dropout:
        model.add(keras.layers.Dropout(dropout))
    model.add(keras.layers.Dense(CLASSES))
    return model


def public_rows():
    return np.random.default_rng(2).normal(size=(8, FEATURES)).astype(np.float32)


@pytest.mark.quick_cases("automatic")
@pytest.mark.parametrize(
    "settings",
    [
        {"clipping": "per_layer"},
        {"clip_function": "automatic"},
        {
            "augmentation_multiplicity": 2,
            "augmentation": lambda x: x + tf.random.normal(tf.shape(x)),
            "physical_batch_size": 4,
        },
    ],
    ids=["per layer", "automatic", "views"],
)
def test_every_way_of_clipping_keeps_the_bound(settings, data):
    found = measure_sensitivity(compiled(dense_model(dropout=0.5), **settings), *data)
    assert found.holds and 0.9 < found.add_or_remove_one


def test_the_lots_own_statistics_break_it(data):
    private = compiled(dense_model("lot"), public_batch=public_rows())
    found = measure_sensitivity(private, *data)
    assert not found.holds and found.add_or_remove_one > 5 and found.replace > 5
    # The pair of lots it names has that change.
    lots = [found.frame.lot(row) for row in (found.row, None)]
    change = np.linalg.norm(np.subtract(*map(found.sums, lots), dtype=np.float64))
    assert change / CLIP == pytest.approx(found.add_or_remove_one, rel=1e-6)


def test_random_numbers_are_the_same_every_time(data):
    noisy = compiled(dense_model(dropout=0.5), augmentation=keras.layers.GaussianNoise(1.0))
    sums = ClippedSums(noisy)
    lot = frames(*data)[0].lot()
    first = sums(lot)
    np.testing.assert_array_equal(first, sums(lot))
    other = ClippedSums(sums.private, seed=1)
    assert np.linalg.norm(other(lot) - first) > 0.01, "nothing was random"


def test_random_numbers_that_cannot_be_repeated_are_rejected(data):
    def views(x):
        drawn = tf.numpy_function(lambda: np.random.random(), [], tf.double)
        return x + tf.cast(tf.ensure_shape(drawn, []), x.dtype)

    sums = ClippedSums(compiled(dense_model(), augmentation=views, validate=False))
    with pytest.raises(ValueError, match="cannot be repeated"):
        sums(frames(*data)[0].lot())


def test_word_ids_and_structures(data):
    words = np.random.default_rng(3).integers(1, 20, (ROWS, 6)).astype(np.int32)
    inputs = {
        "words": keras.Input((6,), dtype="int32", name="words"),
        "extra": keras.Input((FEATURES,), name="extra"),
    }
    embedded = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(20, 4)(inputs["words"]))
    joined = keras.layers.Concatenate()([embedded, inputs["extra"]])
    model = keras.Model(inputs, keras.layers.Dense(CLASSES)(joined))
    x = {"words": words, "extra": data[0]}
    assert {"one id", "random ids", "x 1000"} <= {
        row.name for row in unusual_rows(x, data[1], np.random.default_rng(0))
    }
    found = measure_sensitivity(compiled(model), x, data[1], ascent_steps=2)
    assert found.holds and found.add_or_remove_one > 0.99


def test_targets_far_out(data):
    model = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(1)])
    y = data[0][:, :1] * 2
    names = {row.name for row in unusual_rows(data[0], y, np.random.default_rng(0))}
    assert {"typical, target x -1", "typical, target x 1e+06"} <= names
    found = measure_sensitivity(compiled(model, "mse"), data[0], y)
    assert found.holds and found.replace == pytest.approx(2, abs=1e-3)


# --- what a broken engine would look like ---


def broken(contribution):
    """A stand-in for a private model whose sum is that of `contribution(x, y, place)`, [5]."""

    def clipped_sum(lot):
        flat = lambda t: tf.reshape(t, tf.concat([[-1], tf.shape(t)[2:]], 0))  # noqa: E731
        x, y, mask = flat(lot.x), flat(lot.y), flat(lot.mask)
        return [tf.reduce_sum(contribution(x, y, mask) * mask[:, None], 0)]

    return types.SimpleNamespace(
        model=types.SimpleNamespace(trainable_variables=[]),
        plan=types.SimpleNamespace(l2_norm_clip=CLIP, drawn_per_person=None),
        physical_batch_size=None,
        clipped_sum=clipped_sum,
    )


def unit(x):
    return CLIP * x * tf.math.rsqrt(tf.reduce_sum(x * x, 1, keepdims=True) + 1e-20)


def times(factor, where):
    return tf.where(where[:, None], factor, 1.0)


PLANTED = {
    "a clip one in a thousand too long": (lambda x, y, m: 1.001 * unit(x), ""),
    "the last row": (
        lambda x, y, m: unit(x) * times(2.0, tf.range(ROWS) == ROWS - 1),
        "last place",
    ),
    "one label": (lambda x, y, m: unit(x) * times(2.0, y == CLASSES - 1), ""),
    "very large rows": (
        lambda x, y, m: unit(x) * times(2.0, tf.reduce_max(tf.abs(x), 1) > 1e5),
        "1e+06",
    ),
    "one large entry": (
        lambda x, y, m: (
            unit(x) * times(2.0, tf.reduce_max(tf.abs(x), 1) > 100 * tf.sort(tf.abs(x), 1)[:, -2])
        ),
        "one entry",
    ),
    "rows that are there twice": (
        lambda x, y, m: (
            unit(x)
            * times(
                1.5,
                tf.reduce_sum(tf.cast(tf.reduce_all(x[:, None] == x[None], 2), tf.float32) * m, 1)
                > 1,
            )
        ),
        "",
    ),
    "the mean instead of the sum": (
        lambda x, y, m: unit(x) * tf.cast(ROWS, tf.float32) / tf.reduce_sum(m),
        "equal rows",
    ),
}


@each("fault", PLANTED)
def test_planted_faults_are_found(fault, data):
    contribution, case = PLANTED[fault]
    found = measure_sensitivity(broken(contribution), *data)
    assert not found.holds and case in found.add_or_remove_one_case, found[:4]


def test_ascent_finds_what_no_example_shows(data):
    """The bound is broken around one point, within the data's range and far from its rows."""
    point = 0.8 * data[0].min() * np.array([1, -1, 1, -1, 1], np.float32)

    def contribution(x, y, mask):
        apart = tf.reduce_sum(tf.square(x - point), 1, keepdims=True)
        return unit(x) * (0.5 + 2 * tf.exp(-apart / 20))

    without = measure_sensitivity(broken(contribution), *data)
    found = measure_sensitivity(broken(contribution), *data, ascent_steps=20)
    assert found.add_or_remove_one > 2 > without.add_or_remove_one
    assert "ascent" in found.add_or_remove_one_case


@each("value", [np.nan, np.inf])
def test_a_sum_that_is_not_finite_is_a_change_without_bound(value, data):
    def contribution(x, y, mask):
        return unit(x) + tf.where(tf.abs(x) > 1e5, value, 0.0)

    found = measure_sensitivity(broken(contribution), *data)
    assert (
        found.add_or_remove_one == np.inf
        and not found.holds
        and "1e+06" in found.add_or_remove_one_case
    )


# --- lots ---
