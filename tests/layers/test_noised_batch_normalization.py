"""`NoisedBatchNormalization`: what it computes, and how far one row can move its statistics."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.layers import NoisedBatchNormalization
from tfdpnorm.layers.batch_normalization import record_row_moments

CLIP = 1.5


def built(channels=3, rng=None, **settings):
    """A layer with averages, gamma and beta that are not what they begin with."""
    layer = NoisedBatchNormalization(**{"activation_clip": CLIP, **settings})
    layer.build((None, channels))
    if rng is not None:
        mean = rng.uniform(-0.5, 0.5, channels)
        layer.running_mean.assign(mean)
        layer.running_second_moment.assign(mean**2 + rng.uniform(0.1, 0.9, channels))
        for weight in layer.trainable_weights:
            weight.assign(rng.normal(size=channels))
    return layer


def expected_outputs(layer, x):
    """The formula, in NumPy and float64."""
    mean, second = (w.numpy().astype(np.float64) for w in layer.non_trainable_weights)
    variance = np.maximum(second - mean**2, 0) + layer.epsilon
    normalized = (np.clip(x.astype(np.float64), -CLIP, CLIP) - mean) / np.sqrt(variance)
    gamma = layer.gamma.numpy() if layer.scale else 1
    return normalized * gamma + (layer.beta.numpy() if layer.center else 0)


# What it computes


@each("shape", [(4, 3), (4, 5, 2, 3)])
@each(("center", "scale"), [(True, True), (False, True), (True, False)])
def test_rows_are_normalised_by_the_running_averages(shape, center, scale, rng):
    layer = built(rng=rng, center=center, scale=scale)
    x = rng.normal(scale=2, size=shape).astype(np.float32)
    before = [w.numpy() for w in layer.weights]
    for training in (True, False, None):
        np.testing.assert_allclose(
            layer(x, training=training), expected_outputs(layer, x), rtol=1e-4, atol=1e-5
        )
    for weight, value in zip(layer.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)


def test_a_row_depends_on_no_other(rng):
    layer = built(rng=rng)
    x = rng.normal(size=(6, 4, 3)).astype(np.float32)
    changed = np.concatenate([x[:3], np.full((3, 4, 3), np.nan, np.float32)])
    together = layer(changed, training=True)[:3]
    np.testing.assert_array_equal(together, layer(x, training=True)[:3])
    np.testing.assert_allclose(together, layer(x[:3], training=True), rtol=1e-6)


def test_truncated_inputs_have_no_gradient(rng):
    layer = built(rng=rng)
    x = tf.constant([[0.5, 2 * CLIP, -3 * CLIP]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(layer(x))
    gradient = tape.gradient(total, x)[0].numpy()
    assert gradient[0] != 0
    np.testing.assert_array_equal(gradient[1:], 0)


def test_averages_move_by_momentum_and_stay_in_range():
    layer = built(1, momentum=0.75)
    layer.update_averages([1.0], [2.0])
    np.testing.assert_allclose(layer.running_mean, [0.25])
    np.testing.assert_allclose(layer.running_second_moment, [0.75 * 1 + 0.25 * 2])
    for noise in (1e30, -1e30, np.inf, -np.inf):
        layer.update_averages([noise], [noise])
        assert abs(layer.running_mean.numpy()[0]) <= CLIP
        assert 0 <= layer.running_second_moment.numpy()[0] <= CLIP**2
        assert np.isfinite(layer(np.ones((2, 1), np.float32))).all()


def test_a_negative_variance_is_held_above_zero():
    layer = built(1)
    layer.running_mean.assign([1.0])
    layer.running_second_moment.assign([0.2])
    outputs = layer(np.array([[1.5]], np.float32)).numpy()
    np.testing.assert_allclose(outputs, 0.5 / np.sqrt(layer.epsilon), rtol=1e-5)


@each("policy", ["mixed_float16", "float64"])
def test_averages_keep_their_precision_under_any_policy(policy, set_policy, rng):
    set_policy(policy)
    layer = built(rng=rng)
    x = rng.normal(size=(4, 3))
    wide = "float64" if policy == "float64" else "float32"
    assert {tf.as_dtype(w.dtype).name for w in layer.weights} == {wide}
    assert layer(x).dtype.name == layer.compute_dtype
    with record_row_moments() as recorded:
        layer(tf.constant(x))
    assert {m.dtype.name for m in recorded[0][1:]} == {wide}
    np.testing.assert_allclose(layer(x), expected_outputs(layer, x), rtol=0.05, atol=0.05)


def test_it_survives_saving(tmp_path, rng):
    model = keras.Sequential([keras.Input((5, 3)), built(rng=rng, epsilon=0.01, center=False)])
    model.layers[0].update_averages([0.1, 0.2, -5.0], [0.3, 0.4, 9.0])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    x = rng.normal(size=(2, 5, 3)).astype(np.float32)
    np.testing.assert_array_equal(loaded(x), model(x))
    assert loaded.layers[0].get_config() == model.layers[0].get_config()


@each(
    ("name", "value"),
    [
        ("activation_clip", 0),
        ("activation_clip", float("inf")),
        ("activation_clip", True),
        ("momentum", 1.0),
        ("epsilon", 0.0),
        ("epsilon", float("nan")),
    ],
)
def test_settings_out_of_range_are_rejected(name, value):
    with pytest.raises(ValueError, match=name):
        NoisedBatchNormalization(**{name: value})


@each("shape", [(None,), (None, 4, None)])
def test_inputs_without_channels_are_rejected(shape):
    with pytest.raises(ValueError, match="channels"):
        NoisedBatchNormalization().build(shape)


# What a row adds to the statistics


def test_row_moments_are_means_over_positions(rng):
    layer = built()
    x = rng.normal(scale=2, size=(4, 5, 6, 3)).astype(np.float32)
    truncated = np.clip(x, -CLIP, CLIP)
    mean, second = layer.row_moments(x)
    np.testing.assert_allclose(mean, truncated.mean((1, 2)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(second, (truncated**2).mean((1, 2)), rtol=1e-5)


@each("shape", [(3, 4, 2), (3, 4, 5, 2)])
def test_masked_positions_are_left_out(shape, rng):
    layer = built(2)
    x = rng.normal(size=shape).astype(np.float32)
    lengths = [4, 1, 0]
    mask = np.arange(4) < np.array(lengths)[:, np.newaxis]
    x[~mask] = np.nan
    for found, power in zip(layer.row_moments(x, tf.constant(mask)), (1, 2), strict=True):
        for row, length in enumerate(lengths):
            kept = np.clip(x[row, :length], -CLIP, CLIP).reshape(-1, 2) ** power
            wanted = kept.mean(0) if length else [0, 0]
            np.testing.assert_allclose(found[row], wanted, rtol=1e-5)


def test_a_mask_reaches_the_layer_from_an_embedding():
    layer = built(2)
    model = keras.Sequential(
        [keras.Input((4,), dtype="int32"), keras.layers.Embedding(5, 2, mask_zero=True), layer]
    )
    ids = np.array([[1, 2, 0, 0]])
    with record_row_moments() as recorded:
        model(ids)
    short = model.layers[0](ids[:, :2])
    np.testing.assert_allclose(recorded[0].mean, layer.row_moments(short)[0], rtol=1e-6)


HOSTILE = (0.0, 1e-45, 1.0, CLIP, 1e38, -1e38, np.inf, -np.inf, np.nan)


def test_moments_of_rows_stay_within_the_bounds(rng):
    """Of hostile activations, and of many positions whose mean is rounded."""
    layer = built(len(HOSTILE))
    rows = np.array(list(itertools.product(HOSTILE, repeat=2)), np.float32)
    x = np.stack([rows] * len(HOSTILE), -1)  # [81, 2 positions, channels]
    ends = np.float32(CLIP) * np.ones((2, 10_001, len(HOSTILE)), np.float32) * [[[1]], [[-1]]]
    for inputs in (x, ends.astype(np.float32), np.zeros((2, 0, len(HOSTILE)), np.float32)):
        mean, second = (m.numpy() for m in layer.row_moments(inputs))
        assert (np.abs(mean) <= CLIP).all()
        assert ((second >= 0) & (second <= CLIP**2)).all()
    mean, second = built(1).row_moments(np.array([[1e9], [-1e9]], np.float32))
    np.testing.assert_array_equal(mean, [[CLIP], [-CLIP]])
    np.testing.assert_array_equal(second, [[CLIP**2], [CLIP**2]])


# Where recording cannot be right


def test_a_call_inside_a_loop_is_rejected():
    layer = built(2)

    @tf.function
    def run(x):
        with record_row_moments():
            return tf.map_fn(lambda row: layer(row[tf.newaxis])[0], x)

    with pytest.raises(ValueError, match="loop"):
        run(tf.zeros([3, 2]))


def test_recording_ends_with_the_context():
    layer = built(2)
    with record_row_moments() as recorded:
        layer(np.ones((3, 2), np.float32))
    layer(np.ones((3, 2), np.float32))
    assert [m.layer for m in recorded] == [layer]
    assert recorded[0].mean.shape == (3, 2)
