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


def test_without_noise_nothing_is_wrapped():
    model = models.build("mlp", **SMALL["mlp"])
    assert with_weight_noise(model, 0.0) is model
    assert with_weight_noise(model, 0, seed=3) is model
    again = models.build("mlp", weight_noise_stddev=0.0, weight_noise_seed=3, **SMALL["mlp"])
    assert not wrappers(again)


def functional():
    inputs = keras.Input((4,), name="first")
    shared = keras.layers.Dense(4, name="shared")
    nested = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(4, name="inner"), keras.layers.Dropout(0.5)],
        name="nested",
    )
    x = keras.layers.BatchNormalization(name="norm")(shared(shared(inputs)))
    frozen = keras.layers.Dense(2, name="frozen", trainable=False)
    return keras.Model(inputs, [frozen(nested(x)) + 1.0, x], name="whole")


def test_trained_layers_are_wrapped_and_others_copied():
    model = functional()
    rng = np.random.default_rng(2)
    model.set_weights([rng.random(w.shape) for w in model.weights])
    noisy = with_weight_noise(model, 1e-9, seed=1)
    assert noisy.name == "whole" and noisy is not model
    assert {x.name for x in wrappers(noisy)} == {"shared", "inner", "frozen"}
    assert isinstance(noisy.get_layer("shared"), WeightNoise)
    assert isinstance(noisy.get_layer("nested").get_layer("inner"), WeightNoise)
    assert isinstance(noisy.get_layer("norm"), keras.layers.BatchNormalization)
    assert not noisy.get_layer("frozen").trainable_weights
    for copied, own in zip(noisy.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(copied, own)
    x = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
    for copied, own in zip(noisy(x), model(x), strict=True):
        np.testing.assert_allclose(copied, own, atol=1e-5)
    # Weights of its own.
    noisy.get_layer("shared").layer.kernel.assign(np.zeros([4, 4]))
    assert np.abs(model.get_layer("shared").kernel).max() > 0
    assert not wrappers(model)


def test_partly_frozen_layers_stay_partly_frozen():
    inputs = keras.Input((3, 4))
    recurrent = keras.layers.Bidirectional(keras.layers.SimpleRNN(4), name="recurrent")
    model = keras.Model(inputs, keras.layers.Dense(2)(recurrent(inputs)))
    recurrent.forward_layer.trainable = False
    noisy = with_weight_noise(model, 1e-9)
    inner = noisy.get_layer("recurrent").layer
    assert not inner.forward_layer.trainable_weights and inner.backward_layer.trainable_weights
    assert len(noisy.trainable_weights) == len(model.trainable_weights) == 5
    for own, copied in (
        (recurrent.forward_layer, inner.forward_layer),
        (recurrent.backward_layer, inner.backward_layer),
    ):
        np.testing.assert_array_equal(own.cell.kernel, copied.cell.kernel)
    model.trainable = False
    assert not with_weight_noise(model, 0.1).trainable_weights


def test_a_sequential_model_stays_one():
    model = keras.Sequential([keras.layers.Dense(3, input_shape=(4,)), keras.layers.ReLU()])
    noisy = with_weight_noise(model, 0.5)
    assert type(noisy) is keras.Sequential and noisy.input_shape == (None, 4)
    assert len(wrappers(noisy)) == 1


def draws(seed):
    model = models.build("mlp", hidden_units=(6, 6), input_shape=(6,), num_classes=6)
    for weight in model.weights:
        weight.assign(np.zeros(weight.shape))
    noisy = with_weight_noise(model, 1.0, seed)
    return [np.asarray(layer(np.eye(6, dtype="float32"))) for layer in wrappers(noisy)]


@each("seed", [7, None])
def test_a_seed_makes_draws_repeatable(seed):
    keras.utils.set_random_seed(1)
    once = draws(seed)
    keras.utils.set_random_seed(1)
    again = draws(seed)
    np.testing.assert_array_equal(once, again)
    for i, one in enumerate(once):
        for other in once[:i]:
            assert np.abs(one - other).min() > 0  # each layer has a seed of its own
    assert np.abs(np.array(draws(8)) - once).min() > 0


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
