"""LeNet-5 with each normalisation."""

import numpy as np
import pytest
from tensorflow import keras

from tests.each import each
from tfdpnorm import models
from tfdpnorm.layers import PublicBatchNormalization


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
