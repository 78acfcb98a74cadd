"""The layer at which the rows of a model begin to mix."""

import contextlib
import functools

import tensorflow as tf

from tfdpnorm.audit.row_independence.probe import moved, splits
from tfdpnorm.audit.row_independence.synthetic import chosen
from tfdpnorm.audit.row_independence.traced import Traced
from tfdpnorm.keras_compat.walk import sublayers

_CLEARLY = 1e-4


def first_mixing_layer(model, forward, rows):
    """Returns the name of the first layer inside `model` whose outputs mix rows, or None.

    Args:
        model: A Keras model.
        forward: From a structure of tensors [n, ...] to the model's outputs.
        rows: `ProbeRows`.

    Returns:
        A name; None where no layer's outputs show it, as in a model that mixes rows in its own
        `call`.
    """
    seen = []

    def outputs(x):
        del seen[:]
        forward(x)
        graph = tf.compat.v1.get_default_graph()
        # What is inside of a loop cannot be had from outside; not every layer gives rows.
        seen[:] = [
            (name, t)
            for name, value in seen
            for t in tf.nest.flatten(value)
            if isinstance(t, tf.Tensor) and t.graph is graph
            if t.shape.rank and t.shape[0] and t.shape[0] % rows.count == 0
        ]
        return [t for _, t in seen]

    with _listening(model, seen):
        traced = Traced(outputs, rows.base)
    names = [name for name, _ in seen]

    def run(x):
        try:
            return traced.run(x, [1.0] * rows.count, fresh=True).values
        finally:
            traced.state.restore()

    before = run(rows.base)
    first = len(names)
    for mask in splits(rows.count):
        for others in (rows.other, rows.outlier):
            after = run(chosen(mask, rows.base, others))
            for index in range(first):
                a, b = (v[index].reshape(rows.count, -1)[mask] for v in (before, after))
                if moved(a, b) > _CLEARLY:
                    first = index
                    break
    return names[first] if first < len(names) else None


@contextlib.contextmanager
def _listening(model, seen):
    """Has all layers inside `model` append (name, outputs) to the list `seen` when called."""
    layers = [layer for layer in sublayers(model) if "call" not in vars(layer)]

    def listener(layer):
        call = layer.call

        @functools.wraps(call)
        def heard(*args, **kwargs):
            outputs = call(*args, **kwargs)
            seen.append((layer.name, outputs))
            return outputs

        return heard

    try:
        for layer in layers:
            object.__setattr__(layer, "call", listener(layer))
        yield
    finally:
        for layer in layers:
            vars(layer).pop("call", None)
