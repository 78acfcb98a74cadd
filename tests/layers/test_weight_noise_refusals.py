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
from tfdpnorm.layers import PublicCentering, WeightNoise
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
        ("no attribute", "attributes.*kernel:0"),
        ("closure", "read of the mean.*kernel:0"),
        ("list of weights", "read of the mean.*kernel:0"),
        ("late", "bias:0|cannot add new elements"),
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
        keras.layers.UnitNormalization,
        PublicCentering,
        functools.partial(keras.layers.SpectralNormalization, keras.layers.Dense(2)),
    ],
)
def test_normalisation_is_rejected(make):
    with pytest.raises(ValueError, match="gamma and beta"):
        WeightNoise(make(name="mine"), 0.1)


def test_every_normalisation_of_the_library_is_known_as_one():
    named = [name for name in layers.__all__ if "Norm" in name]
    assert named
    assert all(issubclass(getattr(layers, name), NORMALIZATIONS) for name in named)


def test_a_layer_without_weights_is_rejected(rng):
    only_normalisation = keras.layers.TimeDistributed(keras.layers.LayerNormalization())
    for layer, stddev in ((keras.layers.Flatten(), 0.0), (only_normalisation, 0.1)):
        with pytest.raises(ValueError, match="no weights"):
            WeightNoise(layer, stddev)(normal(rng, 2, 4, 5))


@each("layer", [keras.layers.Dense, None])
def test_only_layers_are_wrapped(layer):
    with pytest.raises(ValueError, match="Expected a Keras layer"):
        WeightNoise(layer, 0.1)


@each("stddev", [-1e-9, float("nan"), 1e39, 10**400, True, np.True_, "0.1", None], ids=repr)
def test_rejected_stddev(stddev):
    with pytest.raises(ValueError, match="stddev"):
        WeightNoise(keras.layers.Dense(2), stddev)


@each("seed", [-1, 2**63, 1.0, True], ids=repr)
def test_invalid_seeds_are_rejected(seed):
    with pytest.raises(ValueError, match="seed"):
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

    with pytest.raises(ValueError, match="phase:0"):
        WeightNoise(Complex(), 0.1)(tf.ones([1, 2]))
