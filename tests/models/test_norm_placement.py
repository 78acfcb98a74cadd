"""After which trainable layers each family is normalised: sizes and order, worked out by hand."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm import models
from tfdpnorm.layers import PublicBatchNormalization
from tfdpnorm.models.normalization import Normalizer

NORMALIZATION_LAYERS = (
    keras.layers.BatchNormalization,
    keras.layers.GroupNormalization,
    keras.layers.LayerNormalization,
    PublicBatchNormalization,
)

# Of each trainable layer with ten classes: its name, the size of its kernel, its units or channels.
# The last is the logits, the last but one is what "-mod" leaves without a normalisation.
TRAINABLE = {
    "lenet5": [
        ("conv1", 25 * 1 * 6, 6),
        ("conv2", 25 * 6 * 16, 16),
        ("dense1", 400 * 120, 120),
        ("dense2", 120 * 84, 84),
        ("logits", 84 * 10, 10),
    ],
    "mlp": [("dense1", 784 * 1000, 1000), ("logits", 1000 * 10, 10)],
}
PLACEMENTS = models.PLACEMENTS


def normalised_layers(name, norm, placement):
    """[(name, units)] of the layers that a normalisation follows, in order."""
    last = {"all": 0, "hidden": 1, "mod": 2}[placement]
    layers = TRAINABLE[name]
    return [] if norm == "none" else [(n, units) for n, _, units in layers[: len(layers) - last]]


def expected_counts(name, norm, placement):
    """Numbers of trainable and of other weights."""
    followed = dict(normalised_layers(name, norm, placement))
    unbiased = followed if norm in ("batch", "public_batch") else {}
    kernels = sum(kernel for _, kernel, _ in TRAINABLE[name])
    biases = sum(units for n, _, units in TRAINABLE[name] if n not in unbiased)
    channels = sum(followed.values())
    # Public moments are those of what comes out and of what goes in, and two numbers of rows.
    going_in = sum(
        kernel // units // (25 if "conv" in n else 1)
        for n, kernel, units in TRAINABLE[name]
        if n in followed
    )
    public = 2 * (channels + going_in + len(followed))
    moments = {"batch": 2 * channels, "public_batch": public}
    return kernels + biases + 2 * channels, moments.get(norm, 0)


def count(weights):
    return sum(int(np.prod(weight.shape)) for weight in weights)


def counts(model):
    return count(model.trainable_weights), count(model.non_trainable_weights)


def normalizations(model):
    return [layer for layer in model.layers if isinstance(layer, NORMALIZATION_LAYERS)]


@each(
    "name, norm, placement",
    [
        *(("lenet5", norm, at) for norm in ("layer", "public_batch") for at in PLACEMENTS),
        ("lenet5", "none", "all"),
        ("lenet5", "batch", "all"),
        ("mlp", "none", "mod"),
    ],
)
def test_sizes_and_order(name, norm, placement):
    model = models.build(name, norm=norm, norm_placement=placement)
    assert counts(model) == expected_counts(name, norm, placement)
    followed = [n for n, _ in normalised_layers(name, norm, placement)]
    layers = normalizations(model)
    assert sorted(layer.name for layer in layers) == sorted(f"{n}_norm" for n in followed)
    for layer in layers:
        assert layer.input is model.get_layer(layer.name.removesuffix("_norm")).output
    names = {layer.name for layer in model.layers}
    for n, _, _ in TRAINABLE[name]:
        last = model.get_layer(f"{n}_norm" if n in followed else n).output
        activation = "predictions" if n == "logits" else f"{n}_activation"
        if activation in names:
            assert model.get_layer(activation).input is last


@each("placement", [None, ["all"]])
def test_a_placement_is_a_string(placement):
    with pytest.raises(ValueError, match="norm_placement"):
        Normalizer("layer", placement)


@each(
    ("norm", "options", "message"),
    [
        ("group", {"num_classes": 4, "norm_placement": "all"}, "4 units .*logits_"),
        ("layer", {"num_classes": 1, "norm_placement": "all"}, "1 units .*logits_"),
        ("group", {"hidden_units": (16,)}, "16 units .*dense1_norm"),
    ],
)
def test_normalising_single_units_is_rejected(norm, options, message):
    """The deviation of one number from its own mean is 0, whatever the network has seen."""
    with pytest.raises(ValueError, match=message):
        models.build("mlp", norm, input_shape=(5,), **options)


@each("norm", ["none", "layer"])
def test_logits_are_float32(norm, set_policy):
    set_policy("mixed_float16")
    model = models.build("lenet_300_100", norm, 3, norm_placement="all", input_shape=(6,))
    logits = model(np.ones((2, 6), "float32"))
    assert logits.shape == (2, 3) and logits.dtype == tf.float32
    assert np.isfinite(logits).all()
    assert model.get_layer("logits").compute_dtype == "float16"
    assert all(weight.dtype == tf.float32 for weight in model.weights)
