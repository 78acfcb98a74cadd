"""ResNet-9, wide residual networks and ResNet-50: sizes, orders, and a block by hand."""

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm import models


@pytest.mark.slow_cases("resnet50-*", "wide_resnet-*", "wrn_16_4-options5*")
@pytest.mark.parametrize(
    "name, options, count",
    [
        ("resnet9", {}, 2_447_946),
        ("resnet9", {"scale_norm": True}, 2_448_714),
        ("resnet9", {"scale_norm": True, "order": "conv_act_norm", "groups": -1}, 2_448_714),
        ("resnet9", {"input_shape": (160, 160, 3)}, 2_447_946),
        ("wrn_16_4", {}, 2_752_506),
        ("wrn_16_4", {"scale_norm": True}, 2_752_506 + 1_792),
        # De et al. (2022) say 8.9 million of it.
        ("wide_resnet", {"depth": 40}, 8_959_994),
        # The usual count, whose batch normalisation has as many.
        ("resnet50", {"num_classes": 1000}, 25_557_032),
        ("resnet50", {"scale_norm": True}, 23_528_522 + 30_208),
    ],
)
def test_numbers_of_parameters(name, options, count):
    model = models.build(name, norm="group", **options)
    assert model.count_params() == count
    assert sum(int(np.prod(v.shape)) for v in model.trainable_variables) == count


def group_normalized(x, groups, gamma, beta, epsilon=1e-3):
    """In float64, row by row and group by group."""
    out = np.empty_like(x)
    size = x.shape[-1] // groups
    for row in range(len(x)):
        for first in range(0, x.shape[-1], size):
            part = x[row, ..., first : first + size]
            out[row, ..., first : first + size] = (part - part.mean()) / np.sqrt(
                part.var() + epsilon
            )
    return out * gamma + beta


def convolved(x, kernel):
    """3x3, one position at a time, zeros around."""
    height, width = x.shape[1:3]
    padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
    out = np.zeros((*x.shape[:3], kernel.shape[-1]))
    for i in range(height):
        for j in range(width):
            out[:, i, j] = np.tensordot(padded[:, i : i + 3, j : j + 3], kernel, 3)
    return out


def mish(x):
    return x * np.tanh(np.log1p(np.exp(x)))


@pytest.mark.parametrize("order", ["conv_norm_act", "conv_act_norm"])
@pytest.mark.parametrize("scale_norm, groups", [(True, 32), (True, 16), (False, 32)])
def test_a_residual_block_by_hand(order, scale_norm, groups):
    """The first one of ResNet-9, of 128 channels, with weights drawn here."""
    model = models.build(
        "resnet9",
        norm="group",
        scale_norm=scale_norm,
        groups=groups,
        order=order,
        input_shape=(16, 16, 3),
    )
    rng = np.random.default_rng(0)
    for variable in model.trainable_variables:
        if "kernel" not in variable.name:
            variable.assign(rng.normal(1.0, 0.3, variable.shape))
    end = model.get_layer("residual1_scale_norm" if scale_norm else "residual1_add")
    begin = model.get_layer("conv2_pool").output
    x = rng.normal(size=(2, *begin.shape[1:]))
    found = keras.Model(begin, end.output)(x.astype(np.float32)).numpy()

    path = x
    for number in (1, 2):
        name = f"residual1_conv{number}"
        (kernel,) = model.get_layer(name).get_weights()
        gamma, beta = model.get_layer(f"{name}_norm").get_weights()
        path = convolved(path, kernel.astype(np.float64))
        if order == "conv_norm_act":
            path = mish(group_normalized(path, groups, gamma, beta))
        else:
            path = group_normalized(mish(path), groups, gamma, beta)
    expected = path + x
    if scale_norm:
        expected = group_normalized(expected, groups, *end.get_weights())
    np.testing.assert_allclose(found, expected, atol=2e-4)


def test_nothing_is_pooled_from_2x2():
    model = models.build("resnet9", input_shape=(16, 23, 1))
    last = [layer.name for layer in model.layers][-4:]
    assert last == ["residual2_add", "flatten", "logits", "predictions"]
    assert model.get_layer("residual2_add").output.shape[1:] == (2, 2, 256)


@pytest.mark.parametrize("size", [(17, 24), (31, 40)])
def test_the_last_pooling_takes_the_maxima_of_overlapping_halves(size):
    model = models.build("resnet9", norm="none", input_shape=(*size, 1))
    layer = model.get_layer("pool_to_2x2")
    x = np.random.default_rng(0).normal(size=(2, *layer.input.shape[1:])).astype(np.float32)
    found = layer(x).numpy()
    assert found.shape == (2, 2, 2, 256)
    parts = [[slice(0, -(-n // 2)), slice(n // 2, n)] for n in x.shape[1:3]]
    for i, rows in enumerate(parts[0]):
        for j, columns in enumerate(parts[1]):
            np.testing.assert_array_equal(found[:, i, j], x[:, rows, columns].max((1, 2)))


@pytest.mark.parametrize("norm", ["group", "layer", "public_batch", "batch", "none"])
def test_scale_norm_is_of_the_kind_of_the_network(norm):
    model = models.build("resnet9", norm=norm, scale_norm=True, statistics_gradient="stop")
    config = model.get_layer("residual2_scale_norm").get_config()
    assert config["normalization"] == (norm if norm in ("batch", "public_batch") else "group")
    assert config["groups"] == (1 if norm == "layer" else 32)
    assert config["statistics_gradient"] == "stop"


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("resnet9", {"input_shape": (15, 16, 3)}, "height and width at least 16"),
        ("resnet9", {"order": "act_conv_norm"}, "order to be one of 'conv_norm_act'"),
        ("resnet50", {"input_shape": (31, 32, 3)}, "height and width at least 32"),
        ("wide_resnet", {"depth": 17}, "depth to be 4 and a multiple of 6"),
        ("wide_resnet", {"depth": 4}, "depth to be an integer >= 10"),
        ("wide_resnet", {"width": 0}, "width to be an integer >= 1"),
        *(("resnet9", {"groups": groups}, f"got {groups}") for groups in (0, -2, 3, 7, 16.0)),
    ],
)
def test_networks_that_cannot_be_are_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        models.build(name, norm="group", **options)
