"""Every model of the project against the loop."""

import contextlib

import pytest
from tensorflow import keras

from tests.gradients.looped_reference import assert_equals_the_loop, double_precision
from tfdpnorm import models

# Small inputs and tables; the layers are those of the full size.
SIZES = {
    "mlp": {"input_shape": (6,), "hidden_units": (7, 5)},
    "lenet5": {"input_shape": (12, 12, 1)},
    "resnet9": {"input_shape": (16, 16, 1)},
    "wrn_16_4": {"input_shape": (8, 8, 1)},
    "bilstm": {"input_shape": (5,), "vocabulary_size": 15, "embedding_dim": 4, "units": 3},
    "transformer": {"input_shape": (5,)},
    "lenet_300_100": {"input_shape": (6,)},
    "tf_tutorial": {"input_shape": (25, 9, 1)},
    "small_cnn": {"input_shape": (8, 8, 1), "width": 4, "units": 5},
    "vgg": {"input_shape": (8, 8, 1), "width": 4},
    "resnet18": {"input_shape": (8, 8, 1), "width": 4},
    "resnet50": {"input_shape": (32, 32, 1), "width": 4},
    "wide_resnet": {"input_shape": (8, 8, 1), "depth": 10, "width": 1},
}
# So deep that the rounding of an ordinary float32 gradient exceeds the tolerance.
DEEP = ("resnet9", "resnet50", "wrn_16_4", "resnet18", "vgg", "wide_resnet")

# Gram matrices give norms that are larger by what rounding may have taken away.
BY_GRAMS = ("tf_tutorial", "transformer")
NORMS = {"bilstm": "none", "mlp": "public_batch", "transformer": "layer"}


def build(name):
    keras.utils.set_random_seed(5)
    norm = NORMS.get(name, "group")
    # Groups of one unit are refused.
    options = {"groups": 2} if norm == "group" and "width" in SIZES[name] else {}
    return models.build(name, norm=norm, num_classes=3, **SIZES[name], **options)


@pytest.mark.quick_cases("mlp", "transformer")
@pytest.mark.parametrize("name", SIZES)
def test_a_model_equals_the_loop(name):
    with double_precision() if name in DEEP else contextlib.nullcontext():
        model = build(name)
    tolerance = 1e-4 if name in BY_GRAMS else 1e-5
    assert_equals_the_loop(model, counts=(2,), clips=(0.05,), tolerance=tolerance)
