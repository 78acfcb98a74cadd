"""Which rows go into which input of a model: by its name in a dict, else by its place, as in Keras.

`tf.nest` sorts the keys of a dict, while a functional model has its inputs in an order of its own.
"""

import tensorflow as tf

from tfdpnorm.keras_compat.models import symbolic_inputs


def input_names(model):
    """Returns the names that a dict of rows goes by, in the order of the inputs; None if unknown.

    They are the keys of a model that takes a dict, and else the names of its input layers.
    """
    inputs = symbolic_inputs(model)
    if inputs is None:
        return None
    if isinstance(inputs, dict):
        return sorted(inputs)
    return [tensor.name for tensor in tf.nest.flatten(inputs)]


def rows_by_input(model, rows):
    """Returns rows as a list in the order of a model's inputs, without what else a dict holds."""
    names = input_names(model)
    if isinstance(rows, dict) and names is not None and set(names) <= set(rows):
        rows = [rows[name] for name in names]
    return tf.nest.flatten(rows)


def packed_for(model, parts):
    """Returns what a model takes of a list in the order of its inputs; of one, that one.

    For a model whose inputs are unknown they must be one.
    """
    inputs = symbolic_inputs(model)
    if tf.nest.is_nested(inputs):
        return tf.nest.pack_sequence_as(inputs, parts)
    (part,) = parts
    return part


def rows_in_structure_of(model, rows, others):
    """Returns rows of a model as `others` are, arrays or specs: in a dict, or by their places."""
    if isinstance(rows, dict) == isinstance(others, dict):
        return rows
    parts = rows_by_input(model, rows)
    if not isinstance(others, dict):
        return tuple(parts) if tf.nest.is_nested(others) else parts[0]
    names = input_names(model) or []
    return dict(zip(names, parts, strict=True)) if len(names) == len(parts) else rows
