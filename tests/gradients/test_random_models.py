"""Book-keeping on random functional models, against a Python loop over single examples.

In float64: in float32 the noise of the reference itself exceeds the tolerance in deep networks.
"""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tensorflow import keras

from tests.gradients.looped_reference import assert_equals_the_loop, double_precision
from tfdpnorm.keras_compat.variables import KERAS_3
from tfdpnorm.layers import ScaleNorm

layers = keras.layers


@pytest.fixture(autouse=True)
def in_float64():
    with double_precision():
        yield


# Steps: functions of (draw, x) that return the next tensor. x is [rows, *sizes, channels].


def one_of(draw, *values):
    return draw(st.sampled_from(values))


def activation(draw):
    return one_of(draw, "tanh", "relu", "linear")


def sequence(x):
    """x with a single axis of positions."""
    return layers.Reshape((math.prod(x.shape[1:-1]), x.shape[-1]))(x)


def dense(draw, x):
    return layers.Dense(one_of(draw, 2, 3), activation(draw), use_bias=draw(st.booleans()))(x)


def bottleneck(draw, x):
    """A residual block whose layer may be taken twice."""
    layer = layers.Dense(x.shape[-1], activation(draw))
    y = layer(x)
    if draw(st.booleans()):
        y = layer(y)
    return ScaleNorm(groups=1)([x, y]) if draw(st.booleans()) else layers.Add()([x, y])


def several_consumers(draw, x):
    return layers.Concatenate()([x, dense(draw, x), layers.Activation("tanh")(x)])


def layer_normalization(draw, x):
    axes = [-1] if draw(st.booleans()) else list(range(1, len(x.shape)))
    return layers.LayerNormalization(axes, scale=draw(st.booleans()))(x)


def group_normalization(draw, x):
    x = layers.Reshape(x.shape[1:])(x)  # without its mask, which Keras cannot broadcast there
    return layers.GroupNormalization(one_of(draw, 1, -1), scale=draw(st.booleans()))(x)


def prelu(draw, x):
    shared = draw(st.sets(st.integers(1, len(x.shape) - 1)))
    return layers.PReLU(shared_axes=sorted(shared) or None)(x)


def einsum_dense(draw, x):
    given = "abcde"[: len(x.shape)]
    last, sizes, channels = given[-1], list(x.shape[1:-1]), x.shape[-1]
    form = one_of(draw, "dense", "transposed", "blocks", "elementwise", "outer")
    if form == "dense":
        return layers.EinsumDense(f"...{last},{last}z->...z", 3, bias_axes="z")(x)
    if form == "transposed":
        equation = f"{given},z{last}->{given[0]}z{given[1:-1]}"
        return layers.EinsumDense(equation, (2, *sizes), activation="tanh")(x)
    if form == "blocks" and sizes:
        block = given[-2]
        equation = f"{given},{last}{block}z->{given[:-1]}z"
        return layers.EinsumDense(equation, (*sizes, 3), bias_axes=block + "z")(x)
    if form == "outer" and len(sizes) < 3:
        return layers.EinsumDense(f"{given},zy{last}->{given[:-1]}yz", (*sizes, 2, 2))(x)
    return layers.EinsumDense(f"{given},{last}->{given}", (*sizes, channels), bias_axes=last)(x)


def geometry(draw, x, transposed=False):
    """Random kernel size, strides, dilation and padding that fit."""
    sizes = x.shape[1:-1]
    padding = one_of(draw, "valid", "same", *(["causal"] if len(sizes) == 1 else []))
    kernel_size = [draw(st.integers(1, min(3, size))) for size in sizes]
    stride = one_of(draw, 1, 2)
    dilation = 1
    if not transposed and stride == 1:
        fits = all((k - 1) * 2 < size for k, size in zip(kernel_size, sizes, strict=True))
        dilation = one_of(draw, 1, 2) if fits else 1
    return dict(kernel_size=kernel_size, strides=stride, dilation_rate=dilation, padding=padding)


def by_rank(x, *types):
    return types[len(x.shape) - 3]


def convolution(draw, x):
    groups = one_of(draw, 1, 1, x.shape[-1])
    conv = by_rank(x, layers.Conv1D, layers.Conv2D, layers.Conv3D)
    options = dict(geometry(draw, x), groups=groups, activation=activation(draw))
    return conv(groups * one_of(draw, 1, 2), **options)(x)


def depthwise(draw, x):
    options = geometry(draw, x)
    options["padding"] = options["padding"].replace("causal", "same")
    options["activation"] = activation(draw)
    conv = by_rank(x, layers.DepthwiseConv1D, layers.DepthwiseConv2D)
    return conv(depth_multiplier=one_of(draw, 1, 2), **options)(x)


def separable(draw, x):
    conv = by_rank(x, layers.SeparableConv1D, layers.SeparableConv2D)
    options = dict(geometry(draw, x), depth_multiplier=one_of(draw, 1, 2))
    if KERAS_3:  # which has no such padding here
        options["padding"] = options["padding"].replace("causal", "same")
    return conv(3, activation=activation(draw), **options)(x)


def transposed(draw, x):
    options = geometry(draw, x, transposed=True)
    options["padding"] = options["padding"].replace("causal", "same")
    conv = by_rank(x, layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose)
    return conv(2, activation=activation(draw), **options)(x)


def pooling(draw, x):
    if len(x.shape) == 5:  # TensorFlow does not pool float64 in three dimensions
        return layers.UpSampling3D((1, 2, 1))(x)
    maximum = (layers.MaxPooling1D, layers.MaxPooling2D)
    average = (layers.AveragePooling1D, layers.AveragePooling2D)
    return by_rank(x, *one_of(draw, maximum, average))(2, padding="same")(x)


def attention(draw, x):
    x = sequence(x)
    kind = one_of(draw, "heads", "cross", "additive")
    if kind == "heads":
        heads = layers.MultiHeadAttention(2, 2, use_bias=draw(st.booleans()))
        return heads(x, x, use_causal_mask=draw(st.booleans()))
    if kind == "cross":
        return layers.MultiHeadAttention(1, 2, value_dim=3)(x, layers.Dense(2)(x))
    return layers.AdditiveAttention()([x, layers.Dense(x.shape[-1])(x)])


def recurrent(draw, x):
    x = sequence(x)
    kind = one_of(draw, layers.LSTM, layers.GRU)
    steps = x.shape[1]
    layer = kind(2, return_sequences=draw(st.booleans()))
    x = layers.Bidirectional(layer)(x) if draw(st.booleans()) else layer(x)
    # With a mask Keras forgets the number of steps.
    return layers.Reshape((steps, x.shape[-1]))(x) if len(x.shape) == 3 else x


def flattened(draw, x):
    return one_of(draw, layers.Flatten(), sequence)(x)


ANYWHERE = [dense, bottleneck, several_consumers, layer_normalization, prelu, einsum_dense]
WITH_POSITIONS = [
    convolution,
    transposed,
    group_normalization,
    pooling,
    attention,
    recurrent,
    flattened,
]
STEPS = {
    2: ANYWHERE,
    3: [*ANYWHERE, *WITH_POSITIONS, depthwise, separable],
    4: [*ANYWHERE, *WITH_POSITIONS, depthwise, separable],
    5: [*ANYWHERE, *WITH_POSITIONS],
}
_MOST_NUMBERS = 200  # of an activation: the loop takes them example by example


@st.composite
def random_models(draw):
    shape = one_of(draw, (4,), (6, 3), (4, 5, 2), (5, 4, 2), (3, 4, 3, 2), None)
    if shape is None:
        x = inputs = keras.Input((5,), dtype="int32")
        x = layers.Embedding(20, 3, mask_zero=draw(st.booleans()))(x)
    else:
        x = inputs = keras.Input(shape)
    for _ in range(draw(st.integers(1, 5))):
        if math.prod(x.shape[1:]) < _MOST_NUMBERS:
            x = one_of(draw, *STEPS[len(x.shape)])(draw, x)
    return keras.Model(inputs, layers.Dense(2)(layers.Flatten()(x)))


def check(model):
    steps = [(type(x).__name__, x.get_config()) for x in model.layers]
    note("\n".join(f"{name} {config}" for name, config in steps))
    # Zeros of a new layer hide errors, and its random numbers are others at each run.
    rng = np.random.default_rng(3)
    model.set_weights([rng.uniform(-0.7, 0.7, size=w.shape) for w in model.get_weights()])
    assert_equals_the_loop(model, tolerance=1e-9)


SETTINGS = dict(
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.mark.slow_cases("150")
@pytest.mark.parametrize("count", [4, 150])
def test_random_models_equal_the_loop(count):
    settings(max_examples=count, **SETTINGS)(given(random_models())(check))()
