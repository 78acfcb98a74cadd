"""The forms that gradients take on GPUs, run here: the same sums, by other operations."""

import types

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from benchmarks.keras_engines import build_model
from benchmarks.workloads import WORKLOADS
from tests.each import each
from tests.gradients.looped_reference import (
    assert_equals_the_loop,
    example_rows,
    loss_function,
)
from tests.gradients.test_convolution_forms import convolutions, model_of, wide_model
from tests.gradients.test_project_models import build
from tfdpnorm import make_plan, make_private
from tfdpnorm.gradients import Clipping, book_keeping
from tfdpnorm.gradients.contributions.convolution_sum import ConvolutionSum
from tfdpnorm.gradients.contributions.sums_on_gpu import SumsOnGpu, sums_on_gpu
from tfdpnorm.keras_compat import devices_and_precision
from tfdpnorm.keras_compat.devices_and_precision import forms_for, takes_forms_of_gpus
from tfdpnorm.keras_compat.functions import leaf_operations
from tfdpnorm.keras_compat.graphs import traced
from tfdpnorm.privacy.slots import slots_of_plan
from tfdpnorm.training.engine_choice import lot_specs, rehearsed_update

SUMS = SumsOnGpu(4, 1)


@pytest.fixture
def for_gpus():
    with forms_for("GPU"):
        yield


@pytest.fixture
def no_loops(for_gpus, monkeypatch):
    """Neither place by place nor row by row, in norms or in sums."""

    def refuse(*_):
        raise AssertionError("small kernels one after the other")

    for name in ("_place_by_place", "_over_places", "_row_by_row"):
        monkeypatch.setattr(ConvolutionSum, name, refuse)


def test_a_gpu_decides_unless_told(monkeypatch):
    assert not takes_forms_of_gpus()  # there is none where these tests run
    monkeypatch.setattr(devices_and_precision, "has_gpu", lambda: True)
    assert takes_forms_of_gpus()
    with forms_for("CPU"):
        assert not takes_forms_of_gpus()
        with pytest.raises(KeyError), forms_for("GPU"):
            assert takes_forms_of_gpus()
            raise KeyError
        assert not takes_forms_of_gpus()
    assert takes_forms_of_gpus()


# --- which form ---


@each("gram", [False, True])
def test_convolutions_equal_the_loop(no_loops, monkeypatch, gram):
    with monkeypatch.context() as patch:
        if gram:
            patch.setattr(ConvolutionSum, "_gram_is_cheaper", lambda self: True)
        assert_equals_the_loop(convolutions(), counts=(0, 1, 7), tolerance=1e-4, sums=SUMS)


def test_a_layer_that_is_called_twice_equals_the_loop(no_loops):
    layer = keras.layers.Conv2D(3, 3, padding="same", activation="tanh")
    assert_equals_the_loop(model_of((4, 5, 3), layer, layer), counts=(2, 7), sums=SUMS)


@pytest.mark.parametrize("name", ["lenet5", "transformer"])
def test_a_model_equals_the_loop(no_loops, name):
    model = build(name)
    assert_equals_the_loop(model, counts=(3,), tolerance=1e-4, sums=SUMS)


# --- bfloat16 ---


def test_patches_in_bfloat16_stay_within_the_clip(no_loops):
    model, layer = wide_model("mixed_bfloat16")
    for seed in range(4):
        rows, clipping = example_rows(model, 1, seed), Clipping(0.01, sums=SUMS)
        (total,) = book_keeping(
            model, loss_function(model), rows, [layer.kernel], clipping
        ).gradients
        norm = np.linalg.norm(total.numpy().astype(np.float64))
        assert total.dtype == tf.float32 and norm <= 0.01 * (1 + 1e-6)
        assert norm == pytest.approx(0.01, rel=1e-4)


# --- float64 ---

PRODUCTS = {"MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "Conv2D"}
PRODUCTS |= {"Conv2DBackpropFilter", "Conv2DBackpropInput", "Conv3D", "Conv3DBackpropFilterV2"}
PRODUCTS |= {"_FusedConv2D", "_FusedMatMul", "XlaDotV2"}


def private_of(name, lot):
    plan = make_plan(
        num_examples=100_000, expected_batch_size=lot, steps=1_000, l2_norm_clip=1.0,
        noise_multiplier=1.0, delta=1e-6,
    )  # fmt: skip
    model = build_model(name, WORKLOADS[name].private_norm)
    return make_private(model, plan, physical_batch_size=32), model


def products_in_float64(name, lot):
    """Of a training step up to the clipped sum."""
    private, model = private_of(name, lot)
    update = private._update
    parts = types.SimpleNamespace(
        streams=private.streams, views=update.views, engine=update.engine, clipping=update.clipping
    )
    step = rehearsed_update(model, parts, private.plan, lambda proof, count: False)
    function = traced(lambda lot: step.clipped(lot).sums, (lot_specs(model, 32),))
    leaves = [leaf.op for leaf in leaf_operations(function.graph.get_operations())]
    products = [op for op in leaves if op.type in PRODUCTS]
    assert products
    return [op.name for op in products if any(t.dtype == tf.float64 for t in op.inputs)]


@pytest.mark.parametrize(("name", "lot"), [("lenet5", 64), ("lenet5", 4_096), ("bilstm", 4_096)])
def test_products_are_not_in_float64(for_gpus, name, lot):
    """Neither for small batches nor for such as a processor adds up in float64."""
    assert not products_in_float64(name, lot)


def test_a_processor_has_products_in_float64():
    """So that the test before it can fail."""
    assert products_in_float64("lenet5", 4_096)


def test_the_noise_pays_for_the_sums_of_gpus(for_gpus):
    for lot in (64, 4_096):
        private, _ = private_of("mlp", lot)
        sums, more = sums_on_gpu(slots_of_plan(private.plan).rows)
        assert private._update.clipping.sums == sums
        assert private.ledger.settings["sum_rounding"] == more
        found = private._update._sum_rounding
        assert found == more and f"{more:.2g}"[:3] in private.privacy_statement()
