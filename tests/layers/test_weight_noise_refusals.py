"""WeightNoise puts everything back, and rejects what would be silently without noise."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.layers.noisy_layers import STDDEV, Pieces, normal
from tfdpnorm import layers
from tfdpnorm.keras_compat.models import modules_inside
from tfdpnorm.layers import PublicBatchNormalization, PublicCentering, ScaleNorm, WeightNoise
from tfdpnorm.layers.weight_noise import NORMALIZATIONS

# --- what is put back, what is refused ---


class Failing(Pieces):
    fails = False

    def call(self, inputs):
        if self.fails:
            raise RuntimeError("halfway")
        return super().call(inputs)


def attributes(layer):
    modules = [layer, *modules_inside(layer)]
    return [{k: id(v) for k, v in vars(m).items() if k != "_thread_local"} for m in modules]


@each("fails", [False, True])
def test_everything_is_put_back(fails, rng):
    wrapper = WeightNoise(Failing(), STDDEV)
    wrapper(normal(rng, 2, 5))
    weights = [id(w) for w in wrapper.weights]
    wrapper.layer.fails = fails
    before = attributes(wrapper.layer)
    if fails:
        with pytest.raises(RuntimeError, match="halfway"):
            wrapper(normal(rng, 2, 5))
        with pytest.raises(RuntimeError, match="halfway"):
            tf.function(wrapper)(normal(rng, 2, 5))
    else:
        wrapper(normal(rng, 2, 5))
        tf.function(wrapper)(normal(rng, 2, 5))
    assert attributes(wrapper.layer) == before
    assert [id(w) for w in wrapper.weights] == weights
    wrapper.layer.fails = False
    wrapper(normal(rng, 2, 5))


class Hidden(keras.layers.Layer):
    """Reads a weight past its attributes, or before there is one."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def build(self, input_shape):
        kernel = self.add_weight(name="kernel", shape=(5, 3))
        if self.how != "no attribute":
            self.kernel = kernel
        self.read = lambda: kernel

    def call(self, inputs):
        if self.how == "late":
            if not hasattr(self, "bias"):
                self.bias = self.add_weight(name="bias", shape=(3,))
            return inputs @ self.kernel + self.bias
        if self.how == "list of weights":
            return inputs @ self.kernel + self.trainable_weights[0][0]
        return inputs @ self.read()


@each(
    "how,message",
    [
        ("no attribute", r"does not hold these weights in attributes: \['.*kernel:0"),
        ("closure", r"got a read of the mean of \['.*kernel:0'\]. Make the weights in"),
        ("list of weights", r"got a read of the mean of \['.*kernel:0'\]"),
        (
            "late",
            r"got a call that made \['.*bias:0'\]. Make the weights|cannot add new elements",
        ),
    ],
)
def test_weights_that_would_get_no_noise_are_rejected(how, message, rng):
    with pytest.raises(ValueError, match=message):
        WeightNoise(Hidden(how), STDDEV, name="weight_noise")(normal(rng, 4, 5))
    with pytest.raises(ValueError, match=message):
        WeightNoise(Hidden(how), STDDEV, name="weight_noise")(keras.Input((5,)))
    if how != "late":
        wrapper = WeightNoise(Hidden(how), STDDEV, name="weight_noise")
        for _ in range(2):
            with pytest.raises(ValueError, match=message):
                wrapper(normal(rng, 4, 5))


@each(
    "make",
    [
        keras.layers.BatchNormalization,
        keras.layers.LayerNormalization,
        keras.layers.GroupNormalization,
        keras.layers.UnitNormalization,
        PublicBatchNormalization,
        PublicCentering,
        ScaleNorm,
    ],
    ids=lambda make: make.__name__,
)
def test_normalisation_is_rejected(make):
    with pytest.raises(ValueError, match=f"does not normalise, got {make.__name__} 'mine'. Use it"):
        WeightNoise(make(name="mine"), 0.1)
    spectral = keras.layers.SpectralNormalization(keras.layers.Dense(2))
    with pytest.raises(ValueError, match="does not normalise, got SpectralNormalization"):
        WeightNoise(spectral, 0.1)


def test_every_normalisation_of_the_library_is_known_as_one():
    named = [name for name in layers.__all__ if "Norm" in name]
    assert named
    assert all(issubclass(getattr(layers, name), NORMALIZATIONS) for name in named)


@pytest.mark.parametrize("stddev", [0.0, 0.1])
@pytest.mark.parametrize(
    "make",
    [
        functools.partial(keras.layers.Dropout, 0.5),
        keras.layers.Flatten,
        functools.partial(keras.layers.TimeDistributed, keras.layers.LayerNormalization()),
    ],
    ids=["dropout", "flatten", "only_normalisation_inside"],
)
def test_a_layer_without_weights_is_rejected(make, stddev, rng):
    with pytest.raises(ValueError, match="has no weights to draw"):
        WeightNoise(make(), stddev)(normal(rng, 2, 4, 5))


def test_noise_on_noise_is_rejected():
    inner = WeightNoise(keras.layers.Dense(2), 0.1)
    for layer in (inner, keras.Sequential([inner]), keras.layers.TimeDistributed(inner)):
        with pytest.raises(ValueError, match="draws its weights already"):
            WeightNoise(layer, 0.1)


@pytest.mark.parametrize("layer", [keras.layers.Dense, 3, None], ids=["class", "number", "none"])
def test_only_layers_are_wrapped(layer):
    with pytest.raises(ValueError, match="Expected a Keras layer, got .* Pass an instance"):
        WeightNoise(layer, 0.1)


@each(
    "stddev",
    [-1e-9, float("nan"), float("inf"), 1e39, 10**400, True, np.True_, "0.1", None, 1j, [0.1]],
    ids=repr,
)
def test_rejected_stddev(stddev):
    with pytest.raises(
        ValueError, match="Expected stddev to be a finite float32 number >= 0.* got"
    ):
        WeightNoise(keras.layers.Dense(2), stddev)


@each("seed", [-1, 2**63, 1.0, True, "1", (1, 2)], ids=repr)
def test_invalid_seeds_are_rejected(seed):
    with pytest.raises(ValueError, match="Expected seed to be None or an int from 0 to"):
        WeightNoise(keras.layers.Dense(2), 0.1, seed=seed)


def test_weights_that_are_no_real_numbers_are_rejected():
    class Complex(keras.layers.Layer):
        def build(self, input_shape):
            def ones(shape, dtype=None):
                return tf.ones(shape, tf.complex64)

            self.phase = self.add_weight(
                name="phase", shape=(2,), dtype="complex64", initializer=ones
            )

        def call(self, inputs):
            return inputs * tf.math.real(self.phase)

    with pytest.raises(ValueError, match="Expected floating-point weights, got '.*phase:0' of"):
        WeightNoise(Complex(), 0.1)(tf.ones([1, 2]))
