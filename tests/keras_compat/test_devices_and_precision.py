"""Functions compiled where that works; half precision of devices, and XLA."""

import numpy as np
import tensorflow as tf

from tests.each import each
from tfdpnorm.keras_compat import devices_and_precision

X = np.linspace(-3, 3, 12).reshape(3, 4).astype(np.float32)


def shifted(x, by):
    return tf.exp(x) + by, tf.reduce_sum(x, axis=1)


@each("has_xla", [True, False])
def test_it_gives_what_the_function_gives_and_can_be_differentiated_twice(has_xla, monkeypatch):
    is_eager = []

    def noting(x, by):
        is_eager.append(tf.executing_eagerly())
        return shifted(x, by)

    x = tf.constant(X)
    with monkeypatch.context() as patch:
        if not has_xla:
            patch.setattr(devices_and_precision, "_has_xla_on_cpu", lambda: False)
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                found = devices_and_precision.compiled(noting)(x, 2.0)
            first = inner.gradient(found[0], x)
    assert is_eager[0] != has_xla
    for one, expected in zip(found, shifted(X, 2.0), strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(outer.gradient(first, x), np.exp(X), rtol=1e-6)


def test_it_stands_in_functions_that_are_compiled():
    whole = tf.function(
        lambda x: devices_and_precision.compiled(shifted)(x, 1.0)[0] * 2, jit_compile=True
    )
    np.testing.assert_allclose(whole(X), 2 * (np.exp(X) + 1), rtol=1e-6)


def test_a_missing_compiler_is_noticed(monkeypatch):
    def fails(*_, **__):
        raise tf.errors.UnimplementedError(None, None, "no compiler for this device")

    monkeypatch.setattr(tf, "function", lambda *_, **__: fails)
    devices_and_precision._has_xla_on_cpu.cache_clear()
    try:
        assert not devices_and_precision._has_xla_on_cpu()
    finally:
        devices_and_precision._has_xla_on_cpu.cache_clear()


@each(
    "text, emulates",
    [
        ("processor : 0\nflags\t\t: fma avx avx2\n", True),
        ("flags : avx2 avx512f avx512_bf16\n", False),
        ("flags : avx2 amx_bf16 amx_tile\n", False),
        ("flags :\n", False),
        ("Features : fp asimd bf16\n", False),
        (None, False),
    ],
)
def test_processors_that_compute_bfloat16_in_other_numbers(tmp_path, monkeypatch, text, emulates):
    file = tmp_path / ("cpuinfo" if text else "none")
    if text is not None:
        file.write_text(text)
    with monkeypatch.context() as patch:
        patch.setattr(devices_and_precision, "_CPUINFO", str(file))
        assert devices_and_precision.emulates_bfloat16() == emulates
        patch.setattr(devices_and_precision, "has_gpu", lambda: True)
        assert not devices_and_precision.emulates_bfloat16()


@each(
    "capability, policy",
    [(None, "mixed_bfloat16"), ((7, 5), "mixed_float16"), ((8, 0), "mixed_bfloat16"),
     ((), "mixed_float16")],
)  # fmt: skip
def test_half_precision_of_gpus(monkeypatch, capability, policy):
    with monkeypatch.context() as patch:
        if capability is not None:
            details = {"compute_capability": capability} if capability else {}
            patch.setattr(tf.config, "list_physical_devices", lambda kind: [kind])
            patch.setattr(tf.config.experimental, "get_device_details", lambda gpu: details)
        assert devices_and_precision.half_precision() == policy


def test_xla_is_noticed():
    seen = []

    def function(x):
        seen.append(devices_and_precision.in_xla())
        return x

    tf.function(function)(1.0)
    tf.function(function, jit_compile=True)(1.0)
    assert [bool(x) for x in seen] == [False, True]
