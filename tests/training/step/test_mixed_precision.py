"""Half precision: the sum is float32's to the format's own error, and never above the clip."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import models
from tfdpnorm.keras_compat.variables import trainable_variables

policies = pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])


def lenet5(norm):
    return models.build("lenet5", norm=norm, input_shape=(12, 12, 1), num_classes=3)


BUILDERS = {
    "lenet5, layer": lambda: lenet5("layer"),
    "lenet5, public_batch": lambda: lenet5("public_batch"),
    "mlp": lambda: models.build("mlp", input_shape=(6,), hidden_units=(8,), num_classes=3),
    "bilstm": lambda: models.build(
        "bilstm", input_shape=(5,), vocabulary_size=20, embedding_dim=4, units=3, num_classes=3
    ),
    "transformer": lambda: models.build("transformer", input_shape=(5,), num_classes=3),
    "resnet9": lambda: models.build("resnet9", input_shape=(16, 16, 1), num_classes=3),
    "wrn_16_4": lambda: models.build("wrn_16_4", input_shape=(8, 8, 1), num_classes=3),
}
SLOW = ("resnet9", "wrn_16_4", "transformer", "bilstm", "lenet5, layer")


def under(policy, build):
    keras.mixed_precision.set_global_policy(policy)
    keras.utils.set_random_seed(2)
    model = build()
    keras.mixed_precision.set_global_policy("float32")
    return model


def rows_for(model, count=6):
    rng = np.random.default_rng(3)
    shape = (count, *model.input_shape[1:])
    if tf.as_dtype(model.input.dtype).is_integer:
        x = rng.integers(1, 20, shape).astype(np.int32)
    else:
        x = rng.random(shape).astype(np.float32)
    return x, np.arange(count) % 3


@pytest.mark.slow_cases("mlp-mixed_bfloat16", "lenet5*")
@policies
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in BUILDERS]
)
def test_agrees_with_float32(policy, name, private, step_sum, one_lot, cross_entropy):
    """As near as an ordinary backward pass for each example comes, in the same precision."""
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
        trained = private(
            model, engine=engine, public_batch=public, l2_norm_clip=0.1, loss_scale=16.0
        )
        trained.compile("sgd", cross_entropy)
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


def test_a_row_that_overflows_float16_counts_as_zero(private, step_sum, one_lot, cross_entropy):
    model = under("mixed_float16", BUILDERS["mlp"])
    trained = private(model, l2_norm_clip=0.1)
    assert trained.loss_scale == 1024.0
    trained.compile("sgd", cross_entropy)
    run = step_sum(trained)
    x, y = rows_for(model)
    without = run(one_lot(x[1:], y[1:], padding=1))
    x[0] = 60_000.0  # a float16, whose products are none
    np.testing.assert_allclose(run(one_lot(x, y)), without, rtol=1e-3, atol=1e-6)
    assert run.nonfinite == 1


@pytest.mark.slow
def test_the_loss_scale_keeps_small_gradients(private, step_sum, one_lot):
    """1e-5 times 1e-3 is no number of float16; a thousand times that is one."""
    model = under(
        "mixed_float16",
        lambda: keras.Sequential(
            [
                keras.Input((2,)),
                keras.layers.Dense(2, use_bias=False, kernel_initializer="ones"),
                keras.layers.Dense(1, use_bias=False, kernel_initializer="ones"),
                keras.layers.Lambda(lambda z: 1e-4 * z),
                keras.layers.Activation("linear", dtype="float32"),
            ]
        ),
    )

    def loss(y, predictions):
        return 1e-4 * tf.reduce_sum(predictions, axis=1)

    norms = {}
    for scale in (1.0, 4096.0):
        trained = private(model, l2_norm_clip=1.0, loss_scale=scale)
        trained.compile("sgd", loss)
        x = np.ones((1, 2), np.float32)
        norms[scale] = np.linalg.norm(step_sum(trained)(one_lot(x, np.zeros((1, 1)))))
    # By x and by the first layer's outputs, which are 2: four of 1 and two of 2, times 1e-8.
    expected = np.sqrt(4 * 1 + 2 * 4) * 1e-8
    assert norms[4096.0] == pytest.approx(expected, rel=0.01)
    assert abs(norms[1.0] / expected - 1) > 0.05


@pytest.mark.quick_cases("mixed_float16")
@policies
def test_weights_and_noise_are_float32(policy, private, data, cross_entropy):
    model = under(policy, lambda: models.build("mlp", input_shape=(5,), num_classes=3))
    trained = private(model)
    trained.compile("sgd", cross_entropy)
    before = model.get_weights()
    trained.fit(*data, epochs=1, steps_per_epoch=1, verbose=0)
    assert {v.dtype for v in trainable_variables(model)} == {tf.float32}
    pairs = zip(before, model.get_weights(), strict=True)
    steps = np.concatenate([(a - b).ravel() for a, b in pairs])
    # Noise on a grid of 1/32 to 1/64 of its size takes some 200 values; in half precision, steps
    # of numbers near 1 would take a few.
    assert len(np.unique(steps)) > 100


@pytest.mark.parametrize("gpus", [[], ["/GPU:0"]])
def test_tensor_float_32_is_switched_off_on_gpus(gpus, build, private, monkeypatch, recwarn):
    switched = []
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind=None: gpus)
    monkeypatch.setattr(tf.config.experimental, "enable_tensor_float_32_execution", switched.append)
    private(build())
    assert switched == ([False] if gpus else [])
    assert any("TensorFloat-32" in str(w.message) for w in recwarn) == bool(gpus)
