"""The first layer of a model without per-example independence."""

import contextlib
import functools

import tensorflow as tf

from tfdpnorm.audit.row_independence.compare import moved, of_rows
from tfdpnorm.audit.row_independence.rows import chosen, splits
from tfdpnorm.audit.row_independence.traced import Traced
from tfdpnorm.keras_compat.exchange import exchanged_method
from tfdpnorm.keras_compat.graphs import current_graph
from tfdpnorm.keras_compat.models import sublayers

_CLEARLY = 1e-4


def first_dependent_layer(model, forward, rows):
    """Returns the name of the first layer inside `model` whose outputs depend on other rows.

    Args:
        model: A Keras model.
        forward: From a structure of tensors [n, ...] to the model's outputs.
        rows: `ProbeRows`.

    Returns:
        A name; None where no layer's outputs show it, for example if the fault is in the model's
        own `call`.
    """
    seen = []

    def outputs(x):
        del seen[:]
        forward(x)
        graph = current_graph()
        # Tensors inside of a loop cannot leave it, and not every layer gives rows.
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
                if moved(*(of_rows(mask, v[index]) for v in (before, after))) > _CLEARLY:
                    first = index
                    break
    return names[first] if first < len(names) else None


@contextlib.contextmanager
def _listening(model, seen):
    """Context in which all layers inside `model` append (name, outputs) to `seen` when called."""

    def listener(layer):
        call = layer.call

        @functools.wraps(call)
        def heard(*args, **kwargs):
            outputs = call(*args, **kwargs)
            seen.append((layer.name, outputs))
            return outputs

        return heard

    with contextlib.ExitStack() as stack:
        for layer in sublayers(model):
            stack.enter_context(exchanged_method(layer, "call", listener(layer)))
        yield
