"""LeNet-5 with each normalisation."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm import models
from tfdpnorm.layers import PublicBatchNormalization

BIASES = 6 + 16 + 120 + 84
PER_CHANNEL = 2 * BIASES  # gamma and beta
CENTRED = 2 * (1 + 6 + 16 * 25 + 120)  # public moments of what goes into each normalised layer
# By hand: 61,706 of LeNet-5; batch moments cancel the biases before them.
COUNTS = {
    "none": (61_706, 0),
    "layer": (61_706 + PER_CHANNEL, 0),
    "group": (61_706 + PER_CHANNEL, 0),
    "batch": (61_706 - BIASES + PER_CHANNEL, PER_CHANNEL),
    "public_batch": (61_706 - BIASES + PER_CHANNEL, PER_CHANNEL + CENTRED + 8),
    "noised_batch": (61_706 - BIASES + PER_CHANNEL, PER_CHANNEL),
}


def count(weights):
    return sum(int(tf.size(weight)) for weight in weights)


@each("norm", models.NORMS)
def test_parameter_count(norm):
    model = models.build("lenet5", norm=norm)
    assert (count(model.trainable_weights), count(model.non_trainable_weights)) == COUNTS[norm]


def test_logits_are_unbounded():
    """No softmax at the end: the losses take logits."""
    model = models.build("lenet5")
    model.get_layer("logits").bias.assign(tf.range(-50.0, 50.0, 10.0))
    logits = model(np.zeros((1, 28, 28, 1), "float32"))
    np.testing.assert_allclose(logits[0], np.arange(-50.0, 50.0, 10.0), atol=1e-4)


@each("norm", ["none", "group", "public_batch"])
def test_normalised_logits(norm):
    plain = models.build("lenet5", norm=norm)
    normalised = models.build("lenet5", norm=norm, norm_placement="all")
    more = {"none": 0, "group": 20, "public_batch": 20 - 10}[norm]
    assert count(normalised.trainable_weights) == count(plain.trainable_weights) + more


def test_options_reach_the_layers():
    model = models.build("lenet5", norm="public_batch", statistics="blend")
    norms = [layer for layer in model.layers if isinstance(layer, PublicBatchNormalization)]
    assert len(norms) == 4 and {layer.statistics for layer in norms} == {"blend"}
    assert {layer.statistics_gradient for layer in norms} == {"full"}
    model = models.build("lenet5", norm="public_batch", statistics_gradient="stop")
    norms = [layer for layer in model.layers if isinstance(layer, PublicBatchNormalization)]
    assert {layer.statistics_gradient for layer in norms} == {"stop"}
    model = models.build("lenet5", norm="group", groups=8)
    groups = [x.groups for x in model.layers if isinstance(x, keras.layers.GroupNormalization)]
    assert groups == [2, 8, 8, 4]  # gcd(8, channels) of 6, 16, 120, 84
    model = models.build("lenet5", pooling="average", activation="tanh")
    assert isinstance(model.get_layer("conv2_pool"), keras.layers.AveragePooling2D)
    assert model.get_layer("dense1_activation").activation is keras.activations.tanh
    assert isinstance(models.build("lenet5").get_layer("conv2_pool"), keras.layers.MaxPooling2D)


@each("norm,named", [("none", None), ("public_batch", "he_normal")])
def test_all_kernels_start_as_the_initializer_has_it(norm, named):
    keras.utils.set_random_seed(0)
    options = {} if named is None else {"kernel_initializer": named}
    model = models.build("lenet5", norm=norm, **options)
    kernels = [weight.numpy() for weight in model.weights if "kernel" in weight.name]
    assert len(kernels) == 5
    for kernel in kernels:
        fan_in = np.prod(kernel.shape[:-1])
        fan_out = kernel.size / np.prod(kernel.shape[-2:-1]) if kernel.ndim == 4 else len(kernel.T)
        # Of K normal numbers: the deviation is known to one in sqrt(2 K), or better.
        variance = 2 / fan_in if named == "he_normal" else 2 / (fan_in + fan_out)
        assert np.std(kernel) == pytest.approx(np.sqrt(variance), rel=5 / np.sqrt(2 * kernel.size))


@each("norm", ["layer", "group"])
def test_layer_and_group_norm_keep_rows_apart(norm):
    model = models.build("lenet5", norm=norm, input_shape=(12, 12, 1))
    x = np.random.default_rng(0).normal(size=(3, 12, 12, 1)).astype("float32")
    before = model(x, training=True).numpy()
    x[1] = 1e6
    np.testing.assert_array_equal(model(x, training=True).numpy()[[0, 2]], before[[0, 2]])


def test_layer_norm_is_over_all_units_of_an_example():
    """Davody et al. (2020), Equation 3: not over the channels of each position."""
    layer = models.normalization_layer("layer", channels=3, rank=4)
    x = np.random.default_rng(0).normal(2.0, 3.0, (2, 4, 4, 3)).astype("float32")
    axes = (1, 2, 3)
    centred = x - x.mean(axes, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + layer.epsilon)
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)
    assert isinstance(
        models.normalization_layer("layer", channels=3), keras.layers.LayerNormalization
    )


@each(
    "options,message",
    [
        ({"input_shape": (11, 28, 1)}, "at least 12"),
        ({"input_shape": (28, 28)}, "input_shape"),
        ({"input_shape": (None, None, 1)}, "at least 12"),
        ({"norm": "instance"}, "norm "),
        ({"pooling": "min"}, "pooling"),
        ({"norm": "public_batch", "statistics": "mine"}, "statistics"),
        ({"kernel_initializer": "he"}, "nitializer"),
    ],
)
def test_settings_out_of_range_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        models.build("lenet5", **options)
