"""Proof that book-keeping sees each example apart, for one model, loss and physical batch.

Book-keeping takes the gradient of example i from row i of what each layer's rule watched (z), of
the gradient b of the sum of all losses by it, and of what the rule remembered. If all of these and
the losses are of rows, in the engine's order, then what the rule computes for example i depends on
example i and on what is free: no other example changes its gradient, its norm or its clip factor.
That a rule computes row i of its contributions from row i of these tensors is the library's own
part, and is not proved here.
"""

import types
from dataclasses import replace
from typing import NamedTuple

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.audit.row_independence.proof.proof import (
    Claim,
    Proof,
    check_specs,
    traced_graph,
    verdicts_of,
)
from tfdpnorm.gradients.engines.per_example import check_connected
from tfdpnorm.gradients.taps import Taps
from tfdpnorm.keras_compat.graphs import as_written
from tfdpnorm.keras_compat.walk import own_weights

# Free, or without tensors.
_NOT_LOOKED_INTO = (tf.Variable, tf.Module, type, types.FunctionType, types.MethodType)
_NOT_LOOKED_INTO += (types.BuiltinFunctionType, types.ModuleType, tf.DType, tf.TensorShape)


class Traced(NamedTuple):
    """A tensor of the traced pass that a claim is made of.

    Attributes:
        what: What it is, in words.
        tensor: The tensor.
        per_example: How many entries of its first axis belong to one example.
        gradient: Number of the gradient by it, among all that are claimed of; None for others.
    """

    what: str
    tensor: tf.Tensor
    per_example: int
    gradient: int | None = None


def prove_training(
    model, loss, x, y, *, make_forward=None, variables=None, rows_per_example=1, loss_scale=1.0
):
    """Proves per-example independence of a model's training by book-keeping.

    Args:
        model: A built Keras model.
        loss: Name of a Keras loss, a `keras.losses.Loss`, or a function of (y, predictions) that
            gives one value for each row, or several that are averaged.
        x: Structure of `tf.TensorSpec` [P, ...] of known shapes, as the model is trained with.
        y: Structure of `tf.TensorSpec` [P, ...].
        make_forward: Function of (x, mask) that gives the function from x to the predictions in
            training; None for a call of the model. It is run in the graph that is traced, before
            any layer is watched: the place for a public pass. What it captures is taken for public.
        variables: See `prove_book_keeping`.
        rows_per_example: See `prove_book_keeping`. x then has so many rows for each example.
        loss_scale: See `prove_book_keeping`.

    Returns:
        See `prove_book_keeping`.
    """
    unreduced = _unreduced(loss)

    def make_loss_fn(x, mask):
        forward = None if make_forward is None else make_forward(x, mask)

        def loss_fn(x, y, sample_weight):
            predictions = model(x, training=True) if forward is None else forward(x)
            losses = unreduced(y, predictions)
            if losses.shape.rank != 1:
                losses = tf.reduce_mean(losses, axis=list(range(1, losses.shape.rank)))
            return losses * tf.cast(sample_weight, losses.dtype), predictions

        return loss_fn

    return prove_book_keeping(
        model,
        make_loss_fn,
        x,
        y,
        variables=variables,
        rows_per_example=rows_per_example,
        loss_scale=loss_scale,
    )


def prove_book_keeping(
    model, make_loss_fn, x, y, *, variables=None, rows_per_example=1, loss_scale=1.0
):
    """Proves that the tensors that book-keeping works with keep the examples apart.

    Args:
        model: The Keras model.
        make_loss_fn: Function from (x, mask) to the loss_fn of `tfdpnorm.gradients.book_keeping`.
            It is run in the graph that is traced, so that what it computes is part of the proof.
        x: Structure of `tf.TensorSpec` [P, ...] of known shapes: what the loss_fn takes.
        y: As `x`.
        variables: The variables to differentiate by; None for all that are trainable.
        rows_per_example: How many consecutive rows the loss_fn runs the model on for each row.
        loss_scale: What the losses are multiplied by before the backward pass.

    Returns:
        `Proof`: its claims are of the losses, of each z that a rule watched, of the gradient by it,
        and of what the rule remembered. A z that no example changes has to have a gradient of
        rows: such are the copies of a weight, one for each row, that a rule makes. Otherwise its
        layer reads no example, as one of positions, and no row is the gradient of one.

    Raises:
        ValueError: for specs of other or unknown shapes, and as `tfdpnorm.gradients.book_keeping`.
    """
    examples = tf.nest.flatten(x)[0].shape[0]
    check_specs((x, y), examples)
    vector = tf.TensorSpec([examples], tf.float32)
    variables = model.trainable_variables if variables is None else variables
    seen = []

    # AutoGraph converts this function, as it does a step of training, for the sake of the model and
    # the loss; what it would make of loops of ours is nobody's concern, so that it has none.
    def tensors(x, y, sample_weight, mask):
        loss_fn = make_loss_fn(x, mask)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            with Taps(model, variables, rows_per_example).attached(tape) as taps:
                losses, _ = loss_fn(x, y, sample_weight)
            counted = tf.where(mask > 0, losses, tf.zeros_like(losses))
            scaled = counted * tf.cast(loss_scale, losses.dtype)
        seen[:] = _found(losses, taps.calls, variables, tape, scaled)
        return _outputs(seen)

    graph = traced_graph(tensors, (x, y, vector, vector))
    verdicts, faults = verdicts_of(graph, examples)
    claims = [Claim(t.what, t.per_example, v) for t, v in zip(seen, verdicts, strict=True)]
    for i, each in enumerate(seen):
        if each.gradient is not None and not claims[each.gradient].holds:
            claims[i] = replace(claims[i], may_be_free=False)
    claims[0] = replace(claims[0], may_be_free=False)
    return Proof(tuple(claims), faults, len(graph.get_operations()))


@as_written
def _outputs(seen):
    # An output that is an input, or comes twice, would get lost.
    return [tf.identity(tf.convert_to_tensor(each.tensor)) for each in seen]


@as_written
def _found(losses, calls, variables, tape, scaled):
    """What claims are made of, a list of `Traced`, after the forward pass of book-keeping."""
    watched = [z for tap in calls for z in tap.watched]
    gradients = iter(tape.gradient(scaled, watched))
    found, reached = [Traced("the losses", losses, 1)], {}
    for tap in calls:
        layer = f"layer {tap.layer.name!r} ({type(tap.layer).__name__})"
        rows = tap.rows_per_example
        for z in tap.watched:
            b = next(gradients)
            if b is None:
                continue  # this call does not reach the loss
            reached.update((v.ref(), b) for v in own_weights(tap.layer))
            found.append(Traced(f"what {layer} gives", z, rows, len(found) + 1))
            found.append(Traced(f"the gradient by what {layer} gives", b, rows))
        what = f"what the rule of {layer} remembers"
        found += [Traced(what, value, rows) for value in remembered_tensors(tap.remembered)]
    check_connected([reached.get(v.ref()) for v in variables], variables)
    return found


def remembered_tensors(remembered):
    """Returns the tensors in what a rule remembered: in structures and in the fields of objects.

    Not in layers and variables, which are free; and not in what a function closes over: the rule of
    layers without a rule remembers the layer's own `call`, and runs it on one row at a time.
    """
    found, waiting, visited = [], [remembered], []
    while waiting:
        value = waiting.pop()
        if any(value is other for other in visited):
            continue
        visited.append(value)
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


def _unreduced(loss):
    """The function `(y, predictions) -> values` of a loss, without its reduction."""
    loss = keras.losses.get(loss)
    return loss.call if isinstance(loss, keras.losses.Loss) else loss
