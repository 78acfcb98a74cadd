"""ResNet-18: where it halves, where it projects, what a block adds."""

import numpy as np
import pytest
from tensorflow import keras

from tests.each import each
from tfdpnorm import models


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    return models.build("resnet18", norm="none", input_shape=(12, 9, 2), width=4)


def test_skip_paths_are_projected_where_shapes_change(model):
    names = [layer.name for layer in model.layers if "projection" in layer.name]
    assert sorted(names) == [f"stage{stage}_block1_projection" for stage in (2, 3, 4)]
    assert {model.get_layer(name).kernel.shape[:2] for name in names} == {(1, 1)}


def output_of(model, name, x):
    return keras.Model(model.input, model.get_layer(name).output)(x).numpy()


@each(
    "block,before",
    [
        ("stage1_block1", "conv1_activation"),
        ("stage4_block2", "stage4_block1_activation"),
    ],
)
def test_a_block_adds_to_its_input(model, block, before):
    """A block whose path gives 0 is the identity, since its input has been through a ReLU."""
    last = model.get_layer(f"{block}_conv2")
    weights = last.get_weights()
    x = np.random.default_rng(0).normal(size=(2, 12, 9, 2)).astype("float32")

    expected = output_of(model, before, x)
    assert np.abs(output_of(model, f"{block}_activation", x) - expected).max() > 1e-3
    last.set_weights([np.zeros_like(weight) for weight in weights])
    try:
        np.testing.assert_array_equal(output_of(model, f"{block}_activation", x), expected)
    finally:
        last.set_weights(weights)


def test_a_block_ends_in_a_relu_of_the_sum(model):
    x = np.random.default_rng(0).normal(size=(2, 12, 9, 2)).astype("float32")
    path = output_of(model, "stage2_block1_conv2", x)
    skip = output_of(model, "stage2_block1_projection", x)
    assert (path + skip).min() < 0
    actual = output_of(model, "stage2_block1_activation", x)
    np.testing.assert_allclose(actual, np.maximum(path + skip, 0), rtol=1e-5, atol=1e-6)


def test_second_norm_is_added_without_activation():
    model = models.build("resnet18", "layer", input_shape=(8, 8, 1), width=4)
    for stage in (1, 2, 3, 4):
        block = f"stage{stage}_block1"
        added = model.get_layer(f"{block}_add").input
        skip = "conv1_activation" if stage == 1 else f"{block}_projection_norm"
        assert added[0] is model.get_layer(f"{block}_conv2_norm").output
        assert added[1] is model.get_layer(skip).output
