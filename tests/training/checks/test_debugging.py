"""What `tf.debugging` adds to every operation is off while a private model trains."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras


class Doubles(keras.layers.Layer):
    """Not of Keras, so that its step is traced by `make_private` already."""

    def call(self, x):
        return 2 * x


def network():
    return keras.Sequential([keras.Input((5,)), Doubles(), keras.layers.Dense(3)])


@pytest.fixture
def numbers_checked():
    tf.debugging.enable_check_numerics()
    yield
    tf.debugging.disable_check_numerics()


def test_checks_of_numbers_stop_no_training(compiled, numbers_checked, data):
    x, y = data
    x = np.where(np.arange(len(x))[:, None] == 3, np.float32(3e38), x)  # twice that is infinite
    trained = compiled(network())
    with pytest.warns(UserWarning, match="enable_check_numerics.* are off while fit"):
        trained.fit(x, y, verbose=0)
    assert trained.ledger.updates == 8 and trained.ledger.guarantee_holds
    assert all(np.isfinite(w).all() for w in trained.get_weights())
    with pytest.raises(tf.errors.InvalidArgumentError):  # They are back.
        tf.math.log(tf.constant(-1.0))


def test_rows_are_not_written_down(compiled, data, tmp_path):
    x, y = data
    trained = compiled(network())
    writer = tf.debugging.experimental.enable_dump_debug_info(
        str(tmp_path), tensor_debug_mode="FULL_TENSOR", circular_buffer_size=-1
    )
    try:
        marker = tf.constant(x[0]) + 0.0
        with pytest.warns(UserWarning, match="are off while fit"):
            trained.fit(x, y, verbose=0)
    finally:
        writer.FlushNonExecutionFiles()
        writer.FlushExecutionFiles()
        tf.debugging.experimental.disable_dump_debug_info()
    written = b"".join(f.read_bytes() for f in pathlib.Path(tmp_path).rglob("*") if f.is_file())
    assert marker.numpy().tobytes() in written  # It would be seen.
    assert not any(row.tobytes() in written for row in x[1:])
