"""ResNet-9, wide residual networks and ResNet-50: sizes, orders, and a block by hand."""

import numpy as np
import pytest
from tensorflow import keras

from tests.each import each
from tfdpnorm import models


@pytest.mark.quick_cases("resnet9-*")
@pytest.mark.parametrize(
    "name, options, count",
    [
        ("resnet9", {"input_shape": (160, 160, 3)}, 2_447_946),
        # Kernels, group normalisation and logits of the width w: 594 w^2 + 27 w, 46 w, 160 w + 10.
        ("resnet9", {"width": 16}, 594 * 16**2 + 233 * 16 + 10),
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


def convolved(x, kernel, stride=1):
    """Square images of an even size, one position at a time; zeros around, more at the end."""
    size, positions = len(kernel), x.shape[1] // stride
    around = (positions - 1) * stride + size - x.shape[1]
    around = (max(around, 0) // 2, max(around, 0) - max(around, 0) // 2)
    padded = np.pad(x, [(0, 0), around, around, (0, 0)])
    out = np.zeros((len(x), positions, positions, kernel.shape[-1]))
    for i in range(positions):
        for j in range(positions):
            window = padded[:, stride * i :, stride * j :][:, :size, :size]
            out[:, i, j] = np.tensordot(window, kernel, 3)
    return out


def mish(x):
    return x * np.tanh(np.log1p(np.exp(x)))


@pytest.mark.slow
@each(
    "order, scale_norm, groups",
    [("conv_norm_act", True, 16), ("conv_act_norm", False, 32)],
)
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
    drawn(model, rng)
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


def drawn(model, rng):
    """The model, with gains and biases unlike those that it begins with."""
    for variable in model.trainable_variables:
        if "kernel" not in variable.name:
            variable.assign(rng.normal(1.0, 0.3, variable.shape))
    return model


def relu(x):
    return np.maximum(x, 0)


@each("scale_norm", [True, False])
def test_a_wide_block_by_hand(scale_norm):
    """The first one of the second group, which halves the positions."""
    rng = np.random.default_rng(0)
    shape = dict(groups=4, depth=10, width=1, input_shape=(8, 8, 3))
    model = drawn(models.build("wide_resnet", norm="group", scale_norm=scale_norm, **shape), rng)
    last = "scale_norm" if scale_norm else "add"
    begin, end = (model.get_layer(f"group{g}_block1_{last}") for g in (1, 2))
    x = rng.normal(size=(2, *begin.output.shape[1:]))
    found = keras.Model(begin.output, end.output)(x.astype(np.float32)).numpy()

    def activated(x, name):
        return relu(group_normalized(x, 4, *model.get_layer(f"{name}_norm").get_weights()))

    def standardized(x, name, stride=1):
        weights = {
            v.name.split("/")[-1].split(":")[0]: v.numpy() for v in model.get_layer(name).weights
        }
        kernel = weights["kernel"].astype(np.float64)
        size = np.prod(kernel.shape[:3])
        kernel = (kernel - kernel.mean((0, 1, 2))) / np.sqrt(kernel.var((0, 1, 2)) * size)
        return convolved(x, kernel * weights["gain"], stride) + weights["bias"]

    name = "group2_block1"
    path = standardized(activated(x, f"{name}_1"), f"{name}_conv1", 2)
    path = standardized(activated(path, f"{name}_2"), f"{name}_conv2")
    (kernel,) = model.get_layer(f"{name}_skip").get_weights()
    expected = path + convolved(x, kernel, 2)
    if scale_norm:
        expected = group_normalized(expected, 4, *end.get_weights())
    np.testing.assert_allclose(found, expected, atol=2e-4)
    sizes = [model.get_layer(f"group{g}_block1_{last}").output.shape[1:] for g in (1, 2, 3)]
    assert sizes == [(8, 8, 16), (4, 4, 32), (2, 2, 64)]
    assert model.get_layer("last_relu").input is model.get_layer("last_norm").output


@pytest.mark.slow
def test_a_bottleneck_by_hand():
    """The first one of ResNet-50's second stage, which halves the positions."""
    rng = np.random.default_rng(0)
    shape = dict(groups=4, width=4, input_shape=(64, 64, 3))
    model = drawn(models.build("resnet50", norm="group", scale_norm=True, **shape), rng)
    begin, end = (model.get_layer(f"{name}_relu") for name in ("stage1_block3", "stage2_block1"))
    x = rng.normal(size=(2, *begin.output.shape[1:]))
    found = keras.Model(begin.output, end.output)(x.astype(np.float32)).numpy()

    def normalized(x, part, stride=1):
        (kernel,) = model.get_layer(f"stage2_block1_{part}").get_weights()
        weights = model.get_layer(f"stage2_block1_{part}_norm").get_weights()
        return group_normalized(convolved(x, kernel.astype(np.float64), stride), 4, *weights)

    path = relu(normalized(relu(normalized(x, "conv1")), "conv2", 2))
    expected = normalized(path, "conv3") + normalized(x, "projection", 2)
    weights = model.get_layer("stage2_block1_scale_norm").get_weights()
    expected = group_normalized(expected, 4, *weights)
    np.testing.assert_allclose(found, relu(expected), atol=2e-4)
    sizes = [
        model.get_layer(f"stage{stage}_block{blocks}_relu").output.shape[1:]
        for stage, blocks in enumerate((3, 4, 6, 3), start=1)
    ]
    assert sizes == [(16, 16, 16), (8, 8, 32), (4, 4, 64), (2, 2, 128)]


@each("size", [(17, 24), (31, 40)])
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


@each("norm", ["group", "layer", "public_batch", "batch", "none"])
def test_scale_norm_is_of_the_kind_of_the_network(norm):
    model = models.build("resnet9", norm=norm, scale_norm=True, statistics_gradient="stop")
    config = model.get_layer("residual2_scale_norm").get_config()
    assert config["normalization"] == (norm if norm in ("batch", "public_batch") else "group")
    assert config["groups"] == (1 if norm == "layer" else 32)
    assert config["statistics_gradient"] == "stop"


@each(
    "name, options, message",
    [
        ("resnet9", {"input_shape": (15, 16, 3)}, "at least 16"),
        ("resnet9", {"order": "act_conv_norm"}, "order"),
        ("resnet50", {"input_shape": (31, 32, 3)}, "at least 32"),
        ("wide_resnet", {"depth": 17}, "depth"),
        ("wide_resnet", {"depth": 4}, "depth"),
        ("wide_resnet", {"width": 0}, "width"),
        *(("resnet9", {"groups": groups}, f"got {groups}") for groups in (0, -2, 3, 16.0)),
    ],
)
def test_networks_that_cannot_be_are_rejected(name, options, message):
    with pytest.raises(ValueError, match=message):
        models.build(name, norm="group", **options)
