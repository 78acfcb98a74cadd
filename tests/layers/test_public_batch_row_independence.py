"""What one row can change: itself alone."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.layers import (
    PublicBatchNormalization,
    PublicStatistics,
    joint_pass,
    record_pass,
    use_pass,
)


def network(mode):
    return keras.Sequential(
        [
            keras.Input((4, 4, 2)),
            keras.layers.Conv2D(3, 2, use_bias=False),
            PublicBatchNormalization(statistics=mode),
            keras.layers.Activation("tanh"),
            keras.layers.Flatten(),
            keras.layers.Dense(4),
            PublicBatchNormalization(statistics=mode),
            keras.layers.Dense(2),
        ]
    )


def outputs_and_gradients(model, x, public):
    """Outputs, and the gradient of the loss's sum by the rows: by row i, that of row i's loss."""
    x = tf.constant(x)
    statistics = PublicStatistics()
    with record_pass(statistics):
        model(public)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with use_pass(statistics):
            outputs = model(x)
        loss = tf.reduce_sum(tf.sin(outputs))
    return outputs.numpy(), tape.gradient(loss, x).numpy()


@each("mode", ["public", "blend"])
@each("value", [1e6, np.nan])
def test_use_pass_keeps_rows_apart(mode, value, rng):
    model = network(mode)
    x = rng.normal(size=(3, 4, 4, 2)).astype("float32")
    public = rng.normal(0.5, 2.0, (6, 4, 4, 2)).astype("float32")
    outputs, gradients = outputs_and_gradients(model, x, public)
    x[1] = value
    changed_outputs, changed_gradients = outputs_and_gradients(model, x, public)
    for before, after in ((outputs, changed_outputs), (gradients, changed_gradients)):
        np.testing.assert_array_equal(before[[0, 2]], after[[0, 2]])
        assert not np.array_equal(before[1], after[1])


def test_private_rows_change_no_weight(rng):
    model = network("blend")
    x = rng.normal(size=(3, 4, 4, 2)).astype("float32")
    before = model.get_weights()
    statistics = PublicStatistics()
    with record_pass(statistics):
        model(x, training=True)
    with use_pass(statistics):
        model(x, training=True)
    with joint_pass():
        model(x, training=True)
    model.predict(x, verbose=0)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    statistics.store()
    changed = [not np.array_equal(o, n) for o, n in zip(before, model.get_weights(), strict=True)]
    names = [w.name.split("/")[-1].split(":")[0] for w in model.weights]
    stored = {name for name, is_changed in zip(names, changed, strict=True) if is_changed}
    assert stored == {"public_mean", "public_variance", "public_rows"}
