"""Models whose dense layers and convolutions are exchanged for variational ones."""

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm.layers import (
    VariationalDropoutConv2D,
    VariationalDropoutDense,
    with_variational_dropout,
)


class OwnDense(keras.layers.Dense):
    pass


def network():
    return keras.Sequential(
        [
            keras.Input((6, 6, 1)),
            keras.layers.Conv2D(2, 3, activation="relu", name="conv"),
            keras.layers.Flatten(),
            keras.layers.Dense(5, use_bias=False, name="hidden"),
            keras.layers.Dense(4, trainable=False, name="frozen"),
            OwnDense(4, name="own"),
            keras.layers.Dense(3, name="logits"),
        ]
    )


def test_it_is_the_same_network_with_noise_in_training(rng):
    model = network()
    for weight in model.weights:
        weight.assign(rng.normal(size=weight.shape))
    noisy = with_variational_dropout(model, noise="public", num_examples=100, kl_weight=0.5)
    assert isinstance(noisy.get_layer("conv"), VariationalDropoutConv2D)
    for name in ("hidden", "logits"):
        layer = noisy.get_layer(name)
        assert isinstance(layer, VariationalDropoutDense)
        assert (layer.noise, layer.num_examples, layer.kl_weight) == ("public", 100, 0.5)
        layer.noise_stddev.assign(0.3)
    assert type(noisy.get_layer("frozen")) is keras.layers.Dense
    assert not noisy.get_layer("frozen").trainable
    assert type(noisy.get_layer("own")) is OwnDense
    names = [w.name for w in model.trainable_weights]
    assert [w.name for w in noisy.trainable_weights] == names
    x = rng.normal(size=(2, 6, 6, 1)).astype(np.float32)
    np.testing.assert_allclose(noisy(x), model(x), rtol=1e-5)
    assert np.abs(noisy(x, training=True) - model(x)).min() > 0


def test_there_must_be_something_to_exchange():
    model = keras.Sequential([keras.Input([3]), keras.layers.ReLU()])
    with pytest.raises(ValueError, match="has no trainable Dense or Conv2D layer"):
        with_variational_dropout(model)
