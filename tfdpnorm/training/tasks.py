"""Models that preprocess raw rows themselves, as the tasks of KerasHub do.

Such a task tokenises texts, say, in its own `fit` and `predict`, and is a graph of layers beside
that. The graph is trained. Rows are preprocessed one at a time and before any is sampled, so that
what a row becomes depends on no other.
"""

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.models import is_functional

# What a task has in place of methods of `keras.Model`.
_OF_TASKS = {"compile", "fit", "evaluate", "predict"}


def is_task(model, own_methods):
    """Whether a model is a graph of layers beside what it does with raw rows.

    `own_methods` are the names of the methods of `keras.Model` that its class replaces.
    """
    preprocesses = callable(getattr(model, "preprocess_samples", None))
    return preprocesses and is_functional(model) and set(own_methods) <= _OF_TASKS


def graph_of(task):
    """Returns the Keras model of a task's graph: the same layers, without preprocessing."""
    return keras.Model(task.inputs, task.output, name=task.name)


def preprocessed(task, x, y=None, sample_weight=None):
    """Returns the triple as the graph of a task takes it.

    Without a task, or with an `x` that is no array, it is the same.
    """
    if task is None or not isinstance(x, (list, tuple, dict, np.ndarray, tf.Tensor)):
        return x, y, sample_weight
    return _in_rows(task.preprocess_samples, (x, y, sample_weight))


def preprocessed_for_fit(task, x, y, arguments):
    """Returns x, y and the other arguments of `fit`, validation data among them, preprocessed."""
    x, y, weight = preprocessed(task, x, y, arguments.get("sample_weight"))
    if weight is not None:
        arguments = {**arguments, "sample_weight": weight}
    held_out = arguments.get("validation_data")
    if isinstance(held_out, tuple):
        arguments = {**arguments, "validation_data": preprocessed(task, *held_out)}
    return x, y, arguments


def _in_rows(preprocess, given):
    """Preprocesses each row of (x, y, sample_weight), those of which may be None, by itself."""
    names = ("x", "y", "sample_weight")
    known = {name: part for name, part in zip(names, given, strict=True) if part is not None}
    rows = tf.data.Dataset.from_tensor_slices(known)
    try:
        made = _in_graph(preprocess, rows)
    except Exception:  # code that does not run in a graph raises whatever it runs into
        made = _one_by_one(preprocess, rows)
    return keras.utils.unpack_x_y_sample_weight(made)


def _in_graph(preprocess, rows):
    """What becomes of the rows of a dataset, each a call of one graph: arrays [rows, ...]."""

    @tf.function
    def of_row(row):
        return preprocess(**tf.nest.map_structure(lambda t: t[tf.newaxis], row))

    of_row = of_row.get_concrete_function(rows.element_spec)
    specs = tf.nest.map_structure(
        lambda t: tf.TensorSpec(t.shape, t.dtype), of_row.structured_outputs
    )
    every = rows.batch(len(rows)).get_single_element()
    made = tf.function(lambda x: tf.map_fn(of_row, x, fn_output_signature=specs))(every)
    return tf.nest.map_structure(lambda t: np.concatenate(t.numpy()), made)


def _one_by_one(preprocess, rows):
    rows = [preprocess(**row) for row in rows.batch(1)]
    shapes = {tuple(np.asarray(t).shape[1:] for t in tf.nest.flatten(row)) for row in rows}
    if len(shapes) > 1:
        raise ValueError(
            f"The preprocessor gives rows of different sizes, such as {sorted(shapes)[:2]}. Set "
            "its sequence_length, so that all rows are padded to one length."
        )
    return tf.nest.map_structure(lambda *parts: np.concatenate(parts), *rows)
