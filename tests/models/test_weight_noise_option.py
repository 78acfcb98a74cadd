"""Whole networks whose weights are drawn: with_weight_noise, and the option of models.build."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.tied import share_kernel
from tfdpnorm import models
from tfdpnorm.keras_compat.models import sublayers
from tfdpnorm.layers import WeightNoise, with_weight_noise
from tfdpnorm.layers.weight_noise import NORMALIZATIONS

# Small networks, and how many of their layers have weights to draw.
SMALL = {
    "lenet5": {"input_shape": (12, 12, 1)},
    "mlp": {"input_shape": (7,), "hidden_units": (5, 4)},
    "transformer": {
        "input_shape": (6,),
        "vocabulary_size": 20,
        "width": 8,
        "heads": 2,
        "hidden_units": 8,
    },
}
DRAWN = {"lenet5": 5, "mlp": 3, "transformer": 5}


def rows_for(model, rows=3):
    rng = np.random.default_rng(1)
    if tf.as_dtype(model.input.dtype).is_integer:
        return rng.integers(0, 20, (rows, *model.input_shape[1:])).astype("int32")
    return rng.normal(size=(rows, *model.input_shape[1:])).astype("float32")


def wrappers(model):
    return [x for x in sublayers(model) if isinstance(x, WeightNoise)]


@pytest.mark.slow_cases("transformer-*")
@pytest.mark.parametrize(
    "name,norm", [("mlp", "batch"), ("lenet5", "public_batch"), ("transformer", "layer")]
)
def test_every_family_draws_all_but_its_normalisation(name, norm):
    options = {"norm": norm, "num_classes": 3, **SMALL[name]}
    plain = models.build(name, **options)
    noisy = models.build(name, weight_noise_stddev=0.1, weight_noise_seed=1, **options)
    assert not wrappers(plain) and len(wrappers(noisy)) == DRAWN[name]
    assert [w.shape for w in noisy.weights] == [w.shape for w in plain.weights]
    for one, other in zip(noisy.weights, plain.weights, strict=True):
        assert one.name.split("/")[-1] == other.name.split("/")[-1]
    assert noisy.name == plain.name
    for layer in plain.layers:
        if layer.trainable_weights:
            twin = noisy.get_layer(layer.name)
            assert isinstance(twin, WeightNoise) != isinstance(layer, NORMALIZATIONS)
            assert len(twin.trainable_weights) == len(layer.trainable_weights)
    x = rows_for(noisy)
    one, other = noisy(x).numpy(), noisy(x).numpy()
    assert one.shape == (3, 3) and np.isfinite(one).all()
    assert np.abs(one - other).max() > 0
    noisy.set_weights(plain.get_weights())
    almost = with_weight_noise(plain, 1e-9)
    np.testing.assert_allclose(almost(x), plain(x), atol=1e-4)


class Subclassed(keras.Model):
    def call(self, inputs):
        return inputs


def inside(layer):
    inputs = keras.Input((4,))
    return keras.Model(inputs, layer(inputs))


def tied():
    first, second = keras.layers.Dense(4), keras.layers.Dense(4)
    first.build((None, 4))
    second.build((None, 4))
    share_kernel(first, second)
    return keras.Sequential([keras.Input((4,)), first, second])


@each(
    "make,message",
    [
        (Subclassed, "Subclassed"),
        (lambda: inside(Subclassed()), "Subclassed"),
        (lambda: keras.layers.Dense(3), "got Dense"),
        (lambda: keras.Sequential([keras.layers.Dense(3)]), "no weights"),
        (lambda: inside(WeightNoise(keras.layers.Dense(3), 0.1)), "WeightNoise"),
        (tied, "share weights"),
    ],
)
def test_rejected_models(make, message):
    with pytest.raises(ValueError, match=message):
        with_weight_noise(make(), 0.1)


@each("options", [{"weight_noise_stddev": -0.1}, {"weight_noise_seed": -1}])
def test_rejected_options(options):
    with pytest.raises(ValueError, match="Expected (stddev|seed)"):
        models.build("mlp", **options, **SMALL["mlp"])
