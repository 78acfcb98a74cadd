"""Proof that book-keeping sees each example apart, for one model, loss and physical batch.

Book-keeping takes the gradient of example i from row i of what each layer's rule watched (z), of
the gradient b of the sum of all losses by it, and of what the rule remembered. If all of these and
the losses are of rows, in the engine's order, then what the rule computes for example i depends on
example i and on what is free: no other example changes its gradient, its norm or its clip factor.
That a rule computes row i of its contributions from row i of these tensors is the library's own
part, and is not verified here.
"""

from __future__ import annotations

import types
from dataclasses import replace
from typing import TYPE_CHECKING

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.gradients import Clipping, book_keeping
from tfdpnorm.gradients.refusals import refusal_of_engine
from tfdpnorm.independence.broadcast import (
    computed_alike,
    is_broadcast,
    operations_until,
)
from tfdpnorm.independence.outputs import (
    check_specs,
    forward_verdicts,
    question_of,
    traced_function,
)
from tfdpnorm.independence.verification.claims import Asked, verify
from tfdpnorm.independence.verification.verdicts import FREE
from tfdpnorm.keras_compat.variables import raw, trainable_variables

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tfdpnorm.independence.verification.claims import Proof


# Free, or without tensors.
_NOT_LOOKED_INTO = (tf.Variable, keras.layers.Layer, type, types.FunctionType, types.MethodType)
_NOT_LOOKED_INTO += (types.BuiltinFunctionType, types.ModuleType, tf.DType, tf.TensorShape)


def prove_training(
    model: keras.Model,
    loss: Any,
    x: Any,
    y: Any,
    *,
    make_forward: Callable | None = None,
    **options: Any,
) -> Proof:
    """Verifies per-example independence of a model's training by book-keeping.

    Args:
        model: A built Keras model.
        loss: Name of a Keras loss, a `keras.losses.Loss`, or a function of (y, predictions) that
            gives one value for each row, or several that are averaged.
        x: Structure of `tf.TensorSpec` [P, ...] of known shapes, as the model is trained with.
        y: Structure of `tf.TensorSpec` [P, ...].
        make_forward: Function of (x, mask) that gives the function from x to the predictions in
            training; None for a call of the model. It is run in the graph that is traced, before
            any layer is watched: the place for a public pass. Tensors that it captures are assumed
            to be public.
        **options: As in `prove_book_keeping`. With `rows_per_example`, x has so many rows for each
            example.

    Returns:
        See `prove_book_keeping`.
    """
    loss = keras.losses.get(loss)
    unreduced = loss.call if isinstance(loss, keras.losses.Loss) else loss

    def make_loss_fn(x, mask):
        forward = None if make_forward is None else make_forward(x, mask)

        def loss_fn(x, y, sample_weight):
            predictions = model(x, training=True) if forward is None else forward(x)
            losses = unreduced(y, predictions)
            if losses.shape.rank != 1:
                losses = tf.reduce_mean(losses, axis=list(range(1, losses.shape.rank)))
            return losses * tf.cast(sample_weight, losses.dtype), predictions

        return loss_fn

    return prove_book_keeping(model, make_loss_fn, x, y, **options)


def prove_book_keeping(
    model,
    make_loss_fn,
    x,
    y,
    *,
    variables=None,
    rows_per_example=1,
    loss_scale=1.0,
):
    """Proves that the tensors that book-keeping works with keep the examples apart.

    A layer whose output reads no example and is broadcast to all, as that of an embedding of
    positions is, is given to the engine as such (see `tfdpnorm.gradients.book_keeping`).

    Args:
        make_loss_fn: Function from (x, mask) to the loss_fn of `tfdpnorm.gradients.book_keeping`.
            It is run in the graph that is traced, so that what it computes is part of the proof.
        x, y: Structures of `tf.TensorSpec` [P, ...] of known shapes: what the loss_fn takes.
        variables: The variables to differentiate by; None for all that are trainable.
        rows_per_example: How many consecutive rows the loss_fn runs the model on for each row.
        loss_scale: What the losses are multiplied by before the backward pass.

    Returns:
        `Proof`: its claims are of the losses, of each z that a rule watched, of its gradient,
        and of what the rule remembered. A z that no example changes has to have a gradient of
        rows: such are the copies of a weight, one for each row, that a rule makes. Otherwise its
        layer reads no example, as one of positions, and no row is the gradient of one.
    """
    examples = tf.nest.flatten(x)[0].shape[0]
    check_specs((x, y), examples)
    vector = tf.TensorSpec([examples], tf.float32)
    variables = trainable_variables(model) if variables is None else raw(list(variables))
    clipping = Clipping(1.0, loss_scale=loss_scale)

    def traced(broadcast, observe):
        def clipped_sum(x, y, sample_weight, mask):
            return book_keeping(
                model,
                make_loss_fn(x, mask),
                (x, y, sample_weight, mask),
                variables,
                clipping,
                rows_per_example=rows_per_example,
                broadcast=broadcast,
                observe=observe,
            )

        return traced_function(clipped_sum, (x, y, vector, vector))

    return prove_traced(traced, examples)[0]


def prove_traced(trace, examples, public=()):
    """Proves a pass of book-keeping; traces it once more if layers turn out to read no example.

    `trace` takes `(broadcast, observe)` and returns the `ConcreteFunction` of the pass, a function
    of (x, y, sample_weight, mask), each [P, ...]. `examples` is P; `public` as in `question_of`.
    Returns the `Proof` of the last trace, that trace, and the tuple of layers that it gives a copy
    of their output to each example for.
    """
    broadcast, first = (), None
    while True:
        kept = []
        try:
            function = trace(broadcast, kept.append)
        except ValueError:
            # Layers on other rows than those of the examples are refused, even if all examples
            # read the same of them.
            found = _broadcast_of_other_rows(kept[0], examples) if len(kept) == 1 else ()
            if not found:
                raise
        else:
            proof = prove_pass(function.graph, kept[1], examples, public)
            found = tuple(layer for layer in proof.broadcast_layers if layer not in broadcast)
            if not found:
                if not computed_alike(first or kept[0], kept[0], broadcast):
                    names = [layer.name for layer in broadcast]
                    raise refusal_of_engine(
                        f"The model reads numbers from the shape of the output of {names}, so that "
                        "one output for all examples and a copy for each do not give the same "
                        "result",
                        'Do not read that shape, or use engine="per_example".',
                    )
                return replace(proof, broadcast_layers=broadcast), function, broadcast
        first = first or kept[0]
        broadcast += found


def prove_pass(graph, kept, examples, public=()):
    """Verifies a traced pass of book-keeping; returns the `Proof` that `prove_book_keeping` does.

    `graph` is the `FuncGraph` of a function of (x, y, sample_weight, mask), each [P, ...], and
    `kept` the `BookKept` of the pass; `public` as in `question_of`.
    """
    asked, taps = _asked(kept)
    proof = verify(question_of(graph, examples, asked, public))
    watched = [(tap, asked[i].tensor, proof.claims[i].reads_no_example) for i, tap in taps.items()]
    return replace(proof, broadcast_layers=_broadcast_layers(watched, kept.losses, examples))


def _broadcast_of_other_rows(kept, examples):
    """As `_broadcast_layers`, after the forward pass in a graph that did not come to its end."""
    watched = [(tap, z) for tap in kept.calls for z in tap.watched]
    verdicts = forward_verdicts(kept.losses.graph, examples, [z for _, z in watched])
    watched = [
        (tap, z, verdict == FREE and z.shape[0] != examples * tap.rows_per_example)
        for (tap, z), verdict in zip(watched, verdicts, strict=True)
    ]
    found = _broadcast_layers(watched, kept.losses, examples)
    return found if all(tap.layer in found for tap, _, wrong in watched if wrong) else ()


def _broadcast_layers(watched, losses, examples):
    """The layers that read no example in any call, and whose output is broadcast to all.

    `watched` has triples: a `Tap`, what it watched, and whether that reads no example. The forward
    pass ends with `losses`.
    """
    found, others = {}, set()
    forward = operations_until(losses)
    for tap, z, reads_no_example in watched:
        if reads_no_example and is_broadcast(z, examples * tap.rows_per_example, forward):
            found[id(tap.layer)] = tap.layer
        else:
            others.add(id(tap.layer))
    return tuple(layer for key, layer in found.items() if key not in others)


def _asked(kept):
    """The list of `Asked`, of TensorFlow's tensors, and the `Tap`s that watched some, by number."""
    gradients = iter(kept.gradients)
    found, taps = [Asked("the losses", kept.losses, may_be_free=False)], {}
    for tap in kept.calls:
        layer = f"layer {tap.layer.name!r} ({type(tap.layer).__name__})"
        rows = tap.rows_per_example
        reached = False
        for z in tap.watched:
            b = next(gradients)
            if b is None:
                continue  # what this call gives here does not reach the loss
            reached = True
            taps[len(found)] = tap
            found.append(Asked(f"the output of {layer}", z, rows, gradient=len(found) + 1))
            found.append(Asked(f"the gradient with respect to the output of {layer}", b, rows))
        if reached:
            what = f"the tensors that the rule of {layer} caches"
            found += [Asked(what, value, rows) for value in remembered_tensors(tap.remembered)]
    return found, taps


def remembered_tensors(remembered):
    """Returns the tensors in what a rule remembered: in structures and in the fields of objects.

    Not in layers and variables, which are free; and not in what a function closes over: the rule of
    layers without a rule remembers the layer's own `call`, and runs it on one row at a time.
    """
    found, waiting, visited = [], [remembered], {}
    while waiting:
        value = waiting.pop()
        if id(value) in visited:
            continue
        visited[id(value)] = value  # which keeps it, and so the number is its own
        if isinstance(value, tf.Tensor):
            found.append(value)
        elif isinstance(value, tf.RaggedTensor | tf.SparseTensor | tf.IndexedSlices):
            waiting += tf.nest.flatten(value, expand_composites=True)
        elif isinstance(value, list | tuple | set):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
        elif not isinstance(value, _NOT_LOOKED_INTO) and hasattr(value, "__dict__"):
            waiting += vars(value).values()
    return found
