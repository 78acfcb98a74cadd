"""The clipped sum of hostile rows: finite, never above rows * C, and each row's share at most C."""

import warnings

import numpy as np
import pytest
from hypothesis import strategies as st
from tensorflow import keras

from tests.fuzz.linear import lot_of, vector
from tests.fuzz.targets import fuzz
from tests.private_of import private_of
from tfdpnorm.gradients.engines.registry import available_engines
from tfdpnorm.layers import PublicBatchNormalization

ENGINES = ["book_keeping"] * 4 + [engine.name for engine in available_engines()]
# Powers of ten at which squares and products of float32 leave its range, and ordinary ones.
SCALES = (0.0, 1e-45, 1e-38, 1e-30, 1e-23, 1e-19, 1e-10, 1e-3, 1.0, 1e3, 1e10, 1e18, 1e19, 1e30)
SIGNS = st.sampled_from(["random", "ones", "alternating", "one hot", "one column"])
layers = keras.layers

MODELS = {
    # Of rows [..., 12]; each ends in two numbers.
    "linear": ((12,), lambda: [layers.Dense(2, use_bias=False)]),
    "wide": ((400,), lambda: [layers.Dense(2, use_bias=False)]),
    "two layers": ((12,), lambda: [layers.Dense(3, "tanh"), layers.Dense(2)]),
    "positions": ((6, 12), lambda: [layers.Dense(9, use_bias=False), layers.Flatten(),
                                    layers.Dense(2)]),
    "few positions": ((2, 12), lambda: [layers.Dense(30, use_bias=False), layers.Flatten(),
                                        layers.Dense(2)]),
    "convolution": ((6, 6, 2), lambda: [layers.Conv2D(3, 3, use_bias=False), layers.Flatten(),
                                        layers.Dense(2)]),
    "large kernel": ((3, 3, 8), lambda: [layers.Conv2D(9, 3, padding="same", use_bias=False),
                                         layers.Flatten(), layers.Dense(2)]),
    "layer": ((12,), lambda: [layers.Dense(4), layers.LayerNormalization(), layers.Dense(2)]),
    "group": ((6, 4), lambda: [layers.GroupNormalization(2), layers.Flatten(), layers.Dense(2)]),
    "public": ((12,), lambda: [layers.Dense(4), PublicBatchNormalization(), layers.Dense(2)]),
    "exp": ((12,), lambda: [layers.Dense(4), layers.Activation("exponential"), layers.Dense(2)]),
    "root": ((12,), lambda: [layers.Dense(4), layers.Lambda(lambda x: x**0.5), layers.Dense(2)]),
    "inverse": ((12,), lambda: [layers.Dense(4), layers.Lambda(lambda x: 1 / x), layers.Dense(2)]),
    "recurrent": ((3, 4), lambda: [layers.GRU(3), layers.Dense(2)]),
}  # fmt: skip
LOSSES = {
    "mse": "mse",
    "mae": "mae",
    "cross entropy": keras.losses.CategoricalCrossentropy(from_logits=True),
    "poisson": "poisson",
}


def pattern(kind, shape, rng):
    size = int(np.prod(shape))
    flat = {
        "random": lambda: rng.normal(size=size),
        "ones": lambda: np.ones(size),
        "alternating": lambda: np.where(np.arange(size) % 2, 1.0, -1.0),
        "one hot": lambda: np.eye(1, size, rng.integers(size))[0],
        "one column": lambda: np.where(np.arange(size) % shape[-1], 0.0, 1.0),
    }[kind]()
    return flat.reshape(shape)


@st.composite
def arrays_of(draw, shape, size, rng):
    """[*shape] float32: a pattern of numbers of one size, perhaps with some of another one."""
    array = size * pattern(draw(SIGNS), shape, rng)
    if draw(st.integers(0, 3)) == 0:
        elsewhere = rng.random(shape) < 0.3
        array = np.where(elsewhere, draw(st.sampled_from(SCALES)) * rng.normal(size=shape), array)
    with np.errstate(over="ignore"):
        return np.nan_to_num(array.astype(np.float32))


@st.composite
def rows_of(draw, shape, rng):
    """Inputs and targets of one row; often small ones beside large ones, whose product is not."""
    size, other = draw(st.sampled_from(SCALES)), draw(st.sampled_from(SCALES))
    if draw(st.booleans()) and size:
        other = draw(st.sampled_from([0.1, 1.0])) / max(size, 1e-30)
        size, other = (size, other) if draw(st.integers(0, 3)) else (other, size)
    return draw(arrays_of(shape, size, rng)), draw(arrays_of((2,), other, rng))


@pytest.mark.slow
@fuzz(
    data=st.data(),
    name=st.sampled_from(sorted(MODELS)),
    loss=st.sampled_from(["mse", "mse", *LOSSES]),
    engine=st.sampled_from(ENGINES),
    clip=st.sampled_from([1e-6, 1e-3, 1.0, 1e3]),
    clipping=st.sampled_from(["flat", "per_layer"]),
    clip_function=st.sampled_from(["abadi", "automatic"]),
    factor=st.sampled_from([1.0, 1.0, 0.0, 1e-10, 1e-19, 1e5, 1e18]),
    loss_scale=st.sampled_from([None, None, 1e-6, 1e6]),
    seed=st.integers(0, 999),
    quick=5,
    share=0.4,
)
def test_clipped_sum(
    data, name, loss, engine, clip, clipping, clip_function, factor, loss_scale, seed
):
    rng = np.random.default_rng(seed)
    shape, build = MODELS[name]
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.Input(shape), *build()])
    model.set_weights([w * np.float32(factor) for w in model.get_weights()])
    if name == "recurrent" and engine == "tfp_model":
        engine = "per_example"  # Keras's loop over time cannot be in theirs.
    if engine.startswith("tfp_"):
        clipping, clip_function = "flat", "abadi"
    public = rng.normal(size=(6, *shape)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        private = private_of(
            model, num_examples=5, expected_batch_size=5, steps=1, noise_multiplier=1.0, delta=1e-3,
            l2_norm_clip=clip, engine=engine, clipping=clipping, clip_function=clip_function,
            loss_scale=loss_scale, public_batch=public if name == "public" else None,
        )  # fmt: skip
    private.compile("sgd", LOSSES[loss], run_eagerly=True)
    count = data.draw(st.integers(1, 3))
    drawn = [data.draw(rows_of(shape, rng)) for _ in range(count)]
    x, y = (np.stack(arrays) for arrays in zip(*drawn, strict=True))

    def clipped(*rows):
        total = vector(private.clipped_sum(lot_of(x[list(rows)], y[list(rows)])))
        assert np.isfinite(total).all()
        return total

    whole = clipped(*range(count))
    each = [clipped(row) for row in range(count)]
    norms = [np.linalg.norm(part) for part in each]
    assert max(norms) <= clip * (1 + 1e-4), norms
    assert np.linalg.norm(whole) <= count * clip * (1 + 1e-4)
    # What is too small for full precision may be taken for 0, or not, as kernels like.
    small = abs(np.concatenate([x.ravel(), y.ravel()]))
    if count > 1 and not np.any((small > 0) & (small < 1e-30)):
        without = clipped(*range(count - 1))
        # Rounding in a sum is in proportion to what is summed.
        assert np.linalg.norm(whole - without) <= clip * (1 + 1e-4 * count)
        # No row has a say in what another one adds.
        np.testing.assert_allclose(whole, sum(each), atol=1e-3 * clip * count)
    return "all zero" if not np.any(whole) else "clipped"
