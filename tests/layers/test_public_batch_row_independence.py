"""What one row can change: itself alone, unless the rows share their moments."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.gradients import per_example
from tfdpnorm.layers import (
    PublicBatchNormalization,
    PublicStatistics,
    joint_pass,
    record_pass,
    use_pass,
)

HOSTILE = [0.5, 1e6, -1e30, np.inf, np.nan]


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


def outputs_and_gradients(model, x, public=None):
    """Outputs and the gradient of each row's loss by that row, of use (public) or joint passes."""
    x = tf.constant(x)
    statistics = PublicStatistics()
    if public is not None:
        with record_pass(statistics):
            model(public)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with joint_pass() if public is None else use_pass(statistics):
            outputs = model(x)
        # Rows do not mix in a use pass: the sum's gradient by row i is that of row i's loss.
        loss = tf.reduce_sum(tf.sin(outputs[:1] if public is None else outputs))
    return outputs.numpy(), tape.gradient(loss, x).numpy()


@each("mode", ["public", "blend"])
@each("value", HOSTILE)
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


@each("value", HOSTILE)
def test_joint_pass_mixes_rows(value, rng):
    model = network("lot")
    x = rng.normal(size=(5, 4, 4, 2)).astype("float32")
    outputs, gradients = outputs_and_gradients(model, x)
    x[1] = value
    changed_outputs, changed_gradients = outputs_and_gradients(model, x)
    # Row 0 is another's, and feels it (not finite counts as a change).
    for before, after in ((outputs, changed_outputs), (gradients, changed_gradients)):
        with np.errstate(invalid="ignore"):
            change = np.abs(before[0] - after[0]).max()
        assert not change <= 1e-3


@each("mode", ["public", "blend"])
def test_gradients_by_the_weights_keep_rows_apart(mode, rng):
    model = network(mode)
    x = rng.normal(size=(2, 4, 4, 2)).astype("float32")
    public = rng.normal(0.5, 2.0, (6, 4, 4, 2)).astype("float32")
    statistics = PublicStatistics()
    with record_pass(statistics):
        model(public)

    def loss_fn(x, y, sample_weight):
        with use_pass(statistics):
            predictions = model(x, training=True)
        return tf.reduce_sum(tf.sin(predictions - y), -1) * sample_weight, predictions

    @tf.function
    def clipped(x, mask):
        rows = (x, tf.zeros([2, 2]), tf.ones([2]), mask)
        return per_example(loss_fn, rows, model.trainable_variables, 1.0)

    alone = clipped(tf.constant(x), tf.constant([1.0, 0.0]))
    for value in (1.0, 1e6, np.nan):
        x[1] = value
        other = clipped(tf.constant(x), tf.constant([1.0, 0.0]))
        for one, two in zip(alone.gradients, other.gradients, strict=True):
            np.testing.assert_array_equal(one, two)
        # In the lot, the hostile row moves the sum by C at most.
        both = clipped(tf.constant(x), tf.constant([1.0, 1.0]))
        moved = sum(
            float(tf.reduce_sum(tf.square(b - a)))
            for a, b in zip(alone.gradients, both.gradients, strict=True)
        )
        assert np.sqrt(moved) <= 1.0 + 1e-5
        assert int(both.nonfinite) == (1 if np.isnan(value) else 0)


@each("mode", ["public", "blend", "example", "lot"])
def test_private_rows_change_no_weight(mode, rng):
    model = network(mode)
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
