"""Networks in two parts: the convolutions alone, and the dense layers on top of them."""

import numpy as np
import pytest
from tensorflow import keras

from tests.each import each
from tfdpnorm import models

# Small images or few channels, and the number of features that come of them.
FAMILIES = {
    "tf_tutorial": ({"input_shape": (12, 9, 2)}, (12, 9, 2), 3 * 2 * 64),
    "vgg": ({"input_shape": (12, 9, 2), "width": 4}, (12, 9, 2), 4 * 4),
    "small_cnn": ({"input_shape": (12, 9, 2), "width": 4, "units": 5}, (12, 9, 2), 5),
}


def layers_with_weights(model):
    return {layer.name: layer for layer in model.layers if layer.weights}


def whole_and_parts(name, norm, placement):
    """The three networks, with random weights (and moments) of the whole handed to its parts."""
    options, _, units = FAMILIES[name]
    options = {**options, "norm": norm, "norm_placement": placement}
    whole = models.build(name, num_classes=5, **options)
    features = models.build(name, num_classes=5, part="features", **options)
    options["input_shape"] = (units,)
    head = models.build(name, num_classes=5, part="head", **options)
    rng = np.random.default_rng(0)
    for weight in whole.weights:
        spread = rng.uniform(0.5, 1.5, weight.shape) * (weight.shape.rank or 1)
        weight.assign(spread if weight.shape.rank < 2 else spread * rng.normal(size=weight.shape))
    for part in (features, head):
        for layer_name, layer in layers_with_weights(part).items():
            layer.set_weights(whole.get_layer(layer_name).get_weights())
    return whole, features, head


@each(
    "name,norm,placement",
    [
        ("tf_tutorial", "batch", "hidden"),
        ("small_cnn", "none", "hidden"),
        ("vgg", "group", "all"),
    ],
)
def test_the_whole_is_its_parts(name, norm, placement):
    whole, features, head = whole_and_parts(name, norm, placement)
    x = np.random.default_rng(1).normal(size=(3, *FAMILIES[name][1])).astype("float32")
    expected = whole(x).numpy()
    assert expected.std() > 0
    np.testing.assert_allclose(head(features(x)), expected, rtol=1e-5, atol=1e-5 * expected.std())
    lower, upper = layers_with_weights(features), layers_with_weights(head)
    assert not set(lower) & set(upper)
    assert set(lower) | set(upper) == set(layers_with_weights(whole))


@each(
    ("options", "message"),
    [
        ({"part": "tail"}, "part "),
        ({"part": "head"}, "input_shape"),
        ({"part": "head", "input_shape": (None,)}, "input_shape"),
        ({"part": "features", "input_shape": (256,)}, "input_shape"),
        ({"part": "features", "input_shape": (7, 9, 1)}, "at least 8"),
    ],
)
def test_parts_that_a_model_lacks_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        models.build("vgg", **options)


class TestCrop:
    """tf_tutorial sees the middle 24x24 pixels."""

    def test_it_is_the_middle(self):
        keras.utils.set_random_seed(0)
        large = models.build("tf_tutorial", part="features", input_shape=(32, 29, 1))
        small = models.build("tf_tutorial", part="features", input_shape=(24, 24, 1))
        small.set_weights(large.get_weights())
        x = np.random.default_rng(0).normal(size=(2, 32, 29, 1)).astype("float32")
        expected = small(x[:, 4:28, 2:26])
        np.testing.assert_allclose(large(x), expected, rtol=1e-5, atol=1e-6)
        edges = x.copy()
        edges[:, :4] = edges[:, 28:] = edges[:, :, :2] = edges[:, :, 26:] = np.nan
        np.testing.assert_array_equal(large(edges), large(x))
