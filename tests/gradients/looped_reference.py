"""The clipped sum as its definition says it: one plain tape for each example."""

import contextlib

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.gradients import Clipping, book_keeping
from tfdpnorm.gradients.contributions.row_sums import IN_BLOCKS
from tfdpnorm.keras_compat.models import sublayers
from tfdpnorm.keras_compat.variables import raw
from tfdpnorm.layers import PublicBatchNormalization, PublicStatistics, record_pass, use_pass


@contextlib.contextmanager
def double_precision():
    """Context in which Keras builds inputs and layers in float64."""
    keras.backend.set_floatx("float64")
    # A policy that some test has set is not the one that follows floatx any more.
    keras.mixed_precision.set_global_policy("float64")
    try:
        yield
    finally:
        keras.backend.set_floatx("float32")
        keras.mixed_precision.set_global_policy("float32")


def example_rows(model, count, seed=0):
    """Random rows (x, y, sample_weight, mask) for a model, the last one padding if there are 3."""
    rng = np.random.default_rng(seed)
    x = [tf.cast(3 * abs(rng.normal(size=(count, *i.shape[1:]))), i.dtype) for i in model.inputs]
    x = x[0] if len(x) == 1 else x
    outputs = model.output_shape[1:]
    y = tf.constant(rng.normal(size=(count, *outputs)), tf.float32)
    weight = tf.constant(rng.uniform(0.5, 2.0, size=count), tf.float32)
    mask = np.ones(count, np.float32)
    mask[2:3] = 0.0
    return x, y, weight, tf.constant(mask)


def loss_function(model, seed=1):
    layers = [x for x in sublayers(model) if isinstance(x, PublicBatchNormalization)]
    statistics = PublicStatistics()
    if layers:
        public = np.random.default_rng(seed).normal(size=(6, *model.input_shape[1:]))
        if tf.as_dtype(model.inputs[0].dtype).is_integer:
            public = 3 * abs(public)
        with record_pass(statistics):
            model(tf.cast(public, model.inputs[0].dtype), training=True)

    def loss_fn(x, y, sample_weight):
        with use_pass(statistics):
            predictions = model(x, training=True)
        axes = list(range(1, predictions.shape.rank))
        y, sample_weight = tf.cast(y, predictions.dtype), tf.cast(sample_weight, predictions.dtype)
        losses = tf.reduce_sum(tf.square(predictions - y), axes) * sample_weight
        return losses, predictions

    return loss_fn


def gradients_of_examples(loss_fn, rows, variables):
    """[unmasked examples] of lists of float64 arrays: each example's gradient, by a plain tape."""
    x, y, weight, mask = rows
    found = []
    for i in np.flatnonzero(mask):
        row = tf.nest.map_structure(lambda t, i=i: t[i : i + 1], (x, y, weight))
        with tf.GradientTape() as tape:
            tape.watch(raw(variables))
            loss = loss_fn(*row)[0][0]
        gradients = [tf.convert_to_tensor(g).numpy() for g in tape.gradient(loss, raw(variables))]
        found.append([g.astype(np.float64) for g in gradients])
    return found


def clipped_sum(gradients, variables, clip):
    """The sum of the examples' gradients, each one of them clipped."""
    total = [np.zeros(v.shape, np.float64) for v in variables]
    for gradient in gradients:
        norm = np.sqrt(sum(np.square(g).sum() for g in gradient))
        factor = min(1.0, clip / norm) if norm > 0 else 1.0
        total = [t + factor * g for t, g in zip(total, gradient, strict=True)]
    return total


def looped_sum(loss_fn, rows, variables, clip):
    """The clipped sum from one plain tape per example."""
    return clipped_sum(gradients_of_examples(loss_fn, rows, variables), variables, clip)


def relative_error(actual, expected):
    gap = np.sqrt(sum(np.square(a - e).sum() for a, e in zip(actual, expected, strict=True)))
    size = np.sqrt(sum(np.square(e).sum() for e in expected))
    return gap / size if size else gap


def assert_equals_the_loop(
    model, counts=(0, 1, 4), clips=(0.05, 1e6), tolerance=1e-5, sums=IN_BLOCKS
):
    """Book-keeping on `model` gives the looped sum, losses and shapes, for batches of `counts`.

    The batches are the first rows of the largest one, whose examples are differentiated once.
    """
    loss_fn = loss_function(model)
    variables = model.trainable_variables
    assert variables
    all_rows = example_rows(model, max(counts))
    examples = gradients_of_examples(loss_fn, all_rows, variables)
    for count in counts:
        rows = tf.nest.map_structure(lambda t, count=count: t[:count], all_rows)
        losses = loss_fn(*rows[:3])[0].numpy() if count else np.zeros(0)
        kept = examples[: np.count_nonzero(rows[3])]
        for clip in clips:
            clipping = Clipping(clip, sums=sums)
            result = book_keeping(model, loss_fn, rows, variables, clipping)
            expected = clipped_sum(kept, variables, clip)
            found = [g.numpy() for g in result.gradients]
            gaps = [np.linalg.norm(f - e) for f, e in zip(found, expected, strict=True)]
            worst = variables[int(np.argmax(gaps))].name
            assert relative_error(found, expected) < tolerance, f"most of it by {worst}"
            assert [g.shape for g in result.gradients] == [v.shape for v in variables]
            assert result.losses.shape[0] == count
            np.testing.assert_allclose(result.losses, losses, rtol=1e-5, atol=1e-6)


def assert_graph_equals_the_loop(model, count=3, clip=0.5, tolerance=1e-5):
    """Book-keeping in a graph gives the looped sum, whatever is verified."""
    rows = example_rows(model, count)
    loss_fn, variables = loss_function(model), model.trainable_variables
    found = tf.function(
        lambda *rows: book_keeping(model, loss_fn, rows, variables, clip).gradients,
        autograph=False,
    )(*rows)
    expected = looped_sum(loss_fn, rows, variables, clip)
    assert relative_error([g.numpy() for g in found], expected) < tolerance
