"""ScaleNorm: the sum of two paths, normalised."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.layers import PublicStatistics, ScaleNorm, record_pass, use_pass


def group_normalized(values, groups, axis=-1, epsilon=1e-3):
    """Each row, each group of neighbouring channels: mean 0, variance 1; in float64."""
    values = np.moveaxis(np.asarray(values, np.float64), axis, -1)
    channels = values.shape[-1]
    size = channels if groups == 1 else 1 if groups == -1 else channels // groups
    out = np.empty_like(values)
    for row in range(len(values)):
        for start in range(0, channels, size):
            part = values[row, ..., start : start + size]
            centred = part - part.mean()
            out[row, ..., start : start + size] = centred / np.sqrt((centred**2).mean() + epsilon)
    return np.moveaxis(out, -1, axis)


def batch_normalized(values, of, epsilon=1e-3):
    values, of = np.asarray(values, np.float64), np.asarray(of, np.float64)
    axes = tuple(range(of.ndim - 1))
    return (values - of.mean(axes)) / np.sqrt(of.var(axes) + epsilon)


@each("groups", [1, 2, 3, -1])
@each("shape,axis", [((4, 5, 6), -1), ((6, 4, 5), 1), ((3, 6), -1)])
def test_group_norm_of_the_sum(groups, shape, axis, rng):
    path, skip = rng.normal(3.0, 2.0, (2, 3, *shape)).astype("float32")
    layer = ScaleNorm(groups=groups, axis=axis)
    outputs = layer([path, skip])
    expected = group_normalized(path + skip, groups, axis)
    np.testing.assert_allclose(outputs, expected, atol=2e-5, rtol=2e-5)
    np.testing.assert_allclose(layer(path + skip), expected, atol=2e-5, rtol=2e-5)
    np.testing.assert_allclose(layer((path, skip)), expected, atol=2e-5, rtol=2e-5)


def test_epsilon_and_parameters(rng):
    values = rng.normal(size=(3, 4, 4, 6)).astype("float32")
    layer = ScaleNorm(groups=2, epsilon=0.5)
    layer.build(values.shape)
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    gamma, beta = (weight.numpy() for weight in layer.trainable_weights)
    expected = group_normalized(values, 2, epsilon=0.5) * gamma + beta
    np.testing.assert_allclose(layer(values), expected, atol=2e-5, rtol=2e-5)


@each("statistics", ["public", "blend"])
def test_public_batch_norm_of_the_sum(statistics, rng):
    private = rng.normal(3.0, 2.0, (2, 4, 4, 4, 6)).astype("float32")
    public = rng.normal(1.0, 1.0, (2, 5, 4, 4, 6)).astype("float32")
    layer = ScaleNorm("public_batch", statistics=statistics)
    recorded = PublicStatistics()
    with record_pass(recorded):
        layer(list(public), training=True)
    assert len(recorded.moments) == 1
    with use_pass(recorded):
        outputs = layer(list(private), training=True)
    expected = batch_normalized(private.sum(0), public.sum(0))
    if statistics == "public":
        np.testing.assert_allclose(outputs, expected, atol=2e-5, rtol=2e-5)
    else:
        # A row blended with M public rows: all of them together.
        for i, row in enumerate(private.sum(0)):
            together = np.concatenate([row[np.newaxis], public.sum(0)])
            np.testing.assert_allclose(
                outputs[i], batch_normalized(row, together), atol=2e-5, rtol=2e-5
            )
    recorded.store()
    np.testing.assert_allclose(layer(list(private)), outputs, atol=1e-5)


@each("normalization", ["group", "batch", "public_batch"])
def test_mixed_precision_takes_moments_in_float32(normalization, rng, set_policy):
    half = "float16"
    set_policy(f"mixed_{half}")
    path, skip = (tf.cast(rng.normal(501.0, 2.0, (4, 5, 5, 4)), half) for _ in range(2))
    layer = ScaleNorm(normalization, groups=2)
    with record_pass(PublicStatistics()):
        outputs = layer([path, skip], training=True)
    assert outputs.dtype == half
    assert {tf.as_dtype(w.dtype) for w in layer.weights} == {tf.float32}
    total = tf.cast(path + skip, tf.float64).numpy()
    expected = (
        group_normalized(total, 2) if normalization == "group" else batch_normalized(total, total)
    )
    np.testing.assert_allclose(tf.cast(outputs, tf.float64), expected, atol=8e-3)


@each(
    "options,name",
    [
        ({"normalization": "layer"}, "normalization"),
        ({"groups": 0}, "groups"),
        ({"groups": -2}, "groups"),
        ({"groups": 2.0}, "groups"),
        ({"normalization": "public_batch", "statistics": "mine"}, "statistics"),
    ],
)
def test_rejected_arguments(options, name):
    with pytest.raises(ValueError, match=f"Expected {name} "):
        ScaleNorm(**options)


@each(
    "options,shapes,message",
    [
        ({}, [(None, 4, 4, 32), (None, 2, 2, 32)], "paths"),
        ({}, [(None, 4, 4, 32), (None, 4, 4, 1)], "paths"),
        ({}, (None, 4, 4, 16), "16 channels.*32 groups"),
        ({}, (None, 4, 4, None), "axis -1"),
        ({"groups": -1}, (None, 1, 1, 8), "constant"),
        ({"groups": 8}, (None, 8), "constant"),
        ({"normalization": "public_batch"}, (None, 4, None), "axis -1"),
    ],
)
def test_rejected_shapes(options, shapes, message):
    layer = ScaleNorm(name="block3", **options)
    one = isinstance(shapes, tuple)
    inputs = keras.Input(shapes[1:]) if one else [keras.Input(shape[1:]) for shape in shapes]
    with pytest.raises(ValueError, match=message) as caught:
        layer(inputs)
    assert "'block3'" in str(caught.value)
