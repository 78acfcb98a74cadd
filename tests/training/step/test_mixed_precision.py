"""Half precision: the sum is float32's to the format's own error, and never above the clip."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import models


def lenet5(norm):
    return models.build("lenet5", norm=norm, input_shape=(12, 12, 1), num_classes=3)


BUILDERS = {
    "lenet5, public_batch": lambda: lenet5("public_batch"),
    "mlp": lambda: models.build("mlp", input_shape=(6,), hidden_units=(8,), num_classes=3),
}


def under(policy, build):
    keras.mixed_precision.set_global_policy(policy)
    keras.utils.set_random_seed(2)
    model = build()
    keras.mixed_precision.set_global_policy("float32")
    return model


def rows_for(model, count=6):
    shape = (count, *model.input_shape[1:])
    x = np.random.default_rng(3).random(shape).astype(np.float32)
    return x, np.arange(count) % 3


@pytest.mark.quick_cases("mlp")
@pytest.mark.parametrize("name", BUILDERS)
def test_agrees_with_float32(compiled, name, step_sum, one_lot):
    """As near as an ordinary backward pass for each example comes, in the same precision."""
    policy = "mixed_float16"
    sums = {}
    for each, engine in (
        ("float32", "book_keeping"),
        (policy, "per_example"),
        (policy, "book_keeping"),
    ):
        model = under(each, BUILDERS[name])
        x, y = rows_for(model)
        public = rows_for(model, 9)[0][6:] if "public" in name else None
        # 16: with the default of 1024 the ordinary backward pass, which adds up positions in half
        # precision, overflows.
        trained = compiled(
            model, engine=engine, public_batch=public, l2_norm_clip=0.1, loss_scale=16.0
        )
        run = step_sum(trained)
        sums[each, engine] = run(one_lot(x, y, padding=1))
        assert run.nonfinite == 0
        one = run(one_lot(x[:1], y[:1]))
        assert one.dtype == np.float32
        assert np.linalg.norm(one.astype(np.float64)) <= 0.1 * (1 + 1e-6)
    exact = sums["float32", "book_keeping"]
    usual, ours = (
        np.linalg.norm(sums[policy, engine] - exact) / np.linalg.norm(exact)
        for engine in ("per_example", "book_keeping")
    )
    assert 0 < ours < 1.5 * usual + 1e-3


@pytest.mark.parametrize("gpus", [[], ["/GPU:0"]])
def test_tensor_float_32_is_switched_off_on_gpus(gpus, build, private, monkeypatch, recwarn):
    switched = []
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind=None: gpus)
    monkeypatch.setattr(tf.config.experimental, "enable_tensor_float_32_execution", switched.append)
    private(build())
    assert switched == ([False] if gpus else [])
    assert any("TensorFloat-32" in str(w.message) for w in recwarn) == bool(gpus)
