"""Every model of the project, with every private normalisation, against the loop."""

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
SCALED = ("resnet9", "resnet50", "wrn_16_4")
DEEP = (*SCALED, "resnet18", "vgg", "wide_resnet")
# Gram matrices give norms that are larger by what rounding may have taken away.
BY_GRAMS = ("tf_tutorial", "transformer")
NORMS = [norm for norm in models.NORMS if norm != "batch"]
VARIANTS = [(name, norm, {}) for name in SIZES for norm in NORMS] + [
    (name, "group", {"scale_norm": True}) for name in SCALED
]


def build(name, norm, options):
    keras.utils.set_random_seed(5)
    if norm == "group" and "width" in SIZES[name]:
        options = {"groups": 2, **options}  # groups of one unit are refused
    return models.build(name, norm=norm, num_classes=3, **SIZES[name], **options)


def check(name, norm, options, counts, clips):
    if name in DEEP:
        with double_precision():
            model = build(name, norm, options)
    else:
        model = build(name, norm, options)
    tolerance = 1e-4 if name in BY_GRAMS else 1e-5
    assert_equals_the_loop(model, counts=counts, clips=clips, tolerance=tolerance)


@pytest.mark.quick_cases("mlp", "transformer")
@pytest.mark.parametrize("name", SIZES)
def test_a_model_equals_the_loop(name):
    norm = {"bilstm": "none", "mlp": "public_batch", "transformer": "layer"}.get(name, "group")
    check(name, norm, {}, counts=(2,), clips=(0.05,))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "norm", "options"), VARIANTS)
def test_every_model_with_every_norm_equals_the_loop(name, norm, options):
    check(name, norm, options, counts=(0, 1, 2, 7), clips=(0.05, 1e6))
