"""The sum over the physical batches of a lot, for functions that were traced and others."""

import itertools

import numpy as np
import tensorflow as tf

from tests.each import each
from tfdpnorm.data import Lot
from tfdpnorm.gradients import ClippedSum
from tfdpnorm.keras_compat.graphs import traced
from tfdpnorm.training.update import sum_over_batch

ROWS = 3


def physical_sum(x, y, sample_weight, mask):
    """A sum of rows, their losses, and how many of them are padding."""
    del y
    losses = tf.reduce_sum(x, axis=1) * sample_weight
    total = tf.reduce_sum(x * mask[:, tf.newaxis], axis=0)
    padding = tf.reduce_sum(tf.cast(mask == 0, tf.int32))
    return ClippedSum([total, 2.0 * total], losses, {"a": x}, padding)


@each("form, count", itertools.product(("eager", "in a graph", "traced"), (1, 2, 5)))
def test_each_physical_batch_is_added_once(form, count):
    rng = np.random.default_rng(count)
    x = rng.normal(size=(count, ROWS, 4)).astype(np.float32)
    mask = rng.integers(0, 2, (count, ROWS)).astype(np.float32)
    lot = Lot(*map(tf.constant, (x, np.zeros((count, ROWS), np.float32), mask + 1, mask)))
    # The number of physical batches is not known beforehand, as on several devices.
    specs = tf.nest.map_structure(lambda t: tf.TensorSpec([None, *t.shape[1:]], t.dtype), lot)
    of_one = physical_sum
    if form == "traced":
        rows = tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape[1:], t.dtype), tuple(lot))
        of_one = traced(physical_sum, rows)
    if form == "eager":
        found = sum_over_batch(of_one, lot)
    else:
        found = tf.function(lambda lot: sum_over_batch(of_one, lot), input_signature=[specs])(lot)
    total = np.sum(x.astype(np.float64) * mask[..., np.newaxis], axis=(0, 1))
    np.testing.assert_allclose(found.gradients[0], total, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.gradients[1], 2 * total, rtol=1e-6, atol=1e-6)
    assert found.gradients[0].dtype == tf.float32
    np.testing.assert_array_equal(found.predictions["a"], x.reshape(-1, 4))
    assert found.losses.shape == [count * ROWS]
    assert int(found.nonfinite) == np.sum(mask == 0)


def test_a_traced_function_is_not_copied_to_where_it_is_called():
    lot = Lot(*(tf.TensorSpec([None, ROWS, *inner]) for inner in ([4], [], [], [])))
    rows = [tf.TensorSpec(spec.shape[1:], spec.dtype) for spec in lot]
    of_one = traced(physical_sum, rows)
    step = tf.function(lambda lot: sum_over_batch(of_one, lot)).get_concrete_function(lot)
    named = f'name: "{of_one.name.decode()}"'
    assert str(step.graph.as_graph_def()).count(named) == 2  # Its definition and a call in a loop.
    assert of_one.function_def.attr["_noinline"].b
