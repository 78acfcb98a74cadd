"""The rule of layers that have none: from the operations of their call, or a gradient per row."""

import warnings

import tensorflow as tf

from tfdpnorm.gradients.contributions.contribution import Instantiated
from tfdpnorm.gradients.map_rows import map_rows
from tfdpnorm.gradients.refusals import is_of_engine, refusal_of_engine
from tfdpnorm.gradients.rules.operations import Joins, joins_of_call
from tfdpnorm.gradients.rules.registry import Rule
from tfdpnorm.keras_compat.graphs import (
    as_written,
    computed_from_arguments,
    operation_count,
    read_since,
)
from tfdpnorm.keras_compat.layers import as_called, context_of_call, keras_mask, with_keras_mask
from tfdpnorm.keras_compat.models import own_weights, sublayers
from tfdpnorm.layers import PublicMomentsLayer


class FallbackRule(Rule):
    """Takes the gradients from the operations of the call, where `joins_of_call` knows them all.

    Otherwise it runs the layer once more for each row, and back from the gradient of its output.
    That works for any layer with per-example independence, at the cost of rows x weights numbers,
    and is warned of. Of the arguments each row gets its own part of those that are computed from
    the examples, and the whole of all others: a table may have as many entries as there are rows. A
    layer that draws random numbers draws them again; the gradient is then that of the second draw,
    clipped by its own norm.
    """

    runs_own_call = True

    def applies(self, layer):
        return not any(isinstance(x, PublicMomentsLayer) for x in sublayers(layer))

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        # Those that arguments carry, of which an attention inside would leave nothing.
        masks = [keras_mask(x) for x in tf.nest.flatten((inputs, args, kwargs))]
        first = operation_count()
        outputs = call(inputs, *args, **kwargs)
        joined = joins_of_call(_trained(layer), first, (inputs, args, kwargs), outputs)
        if joined is not None:
            for join in joined.joins:
                watch(join.z)
            return outputs, joined
        _check_reads(layer, first, (inputs, args, kwargs), masks)
        _warn_of_a_gradient_per_row(layer)
        # Copies: of two outputs, one may be computed from the other, and its gradient would
        # come back through both.
        given_on = {id(z): watch(with_keras_mask(z, keras_mask(z))) for z in _distinct(outputs)}
        outputs = tf.nest.map_structure(lambda z: given_on.get(id(z), z), outputs)
        return outputs, (call, (inputs, args, kwargs), masks, context_of_call())

    def contributions(self, layer, remembered, gradients):
        if isinstance(remembered, Joins):
            return remembered.contributions(gradients)
        call, arguments, masks, context = remembered
        variables = _trained(layer)
        count = gradients[0].shape[0]
        flat = tf.nest.flatten(arguments)
        in_rows = [bool(tf.is_tensor(x) and x.shape.rank and x.shape[0] == count) for x in flat]
        of_examples = computed_from_arguments(flat)
        if not any(of_examples):  # they are eager, or all from outside of the graph
            first = len(tf.nest.flatten(arguments[0]))
            of_examples = [i < first for i in range(len(flat))]
            if first > 1 or any(in_rows[first:]):
                raise refusal_of_engine(
                    f"Layer {layer.name!r} has no gradient rule and several arguments of {count} "
                    "entries. It was called in eager mode, where it is unknown which of them "
                    "belong to the examples",
                    'Use tf.function or run_eagerly=False, or engine="per_example".',
                )
        pairs = list(zip(flat, of_examples, in_rows, strict=True))
        whole = [tuple(x.shape) for x, of_rows, split in pairs if of_rows and not split]
        if count is None or whole:
            # An input that is not split would let every row see all the others.
            raise refusal_of_engine(
                f"Expected layer {layer.name!r} to take and return {count} rows, got inputs of "
                f"shapes {whole or 'unknown'}"
            )

        def one(row):
            given, given_masks = iter(row[0]), iter(row[1])
            rebuilt = [
                tf.expand_dims(next(given), 0) if split else x
                for x, split in zip(flat, of_examples, strict=True)
            ]
            for i, (mask, split) in enumerate(zip(masks, of_examples, strict=True)):
                if mask is not None:
                    mask = tf.expand_dims(next(given_masks), 0) if split else mask
                    rebuilt[i] = with_keras_mask(rebuilt[i], mask)
            inputs, args, kwargs = tf.nest.pack_sequence_as(arguments, rebuilt)
            with (
                as_called(layer, inputs, context),
                tf.GradientTape(watch_accessed_variables=False) as tape,
            ):
                tape.watch(variables)
                outputs = _distinct(_called_again(layer, call, inputs, args, kwargs))
            _check_one_row(layer, outputs, gradients)
            found = tape.gradient(
                outputs,
                variables,
                output_gradients=[tf.expand_dims(b, 0) for b in row[2]],
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )
            return [tf.convert_to_tensor(g) for g in found]

        split = [x for x, is_split in zip(flat, of_examples, strict=True) if is_split]
        split_masks = [
            mask
            for mask, of_rows in zip(masks, of_examples, strict=True)
            if of_rows and mask is not None
        ]
        per_row = map_rows(one, (split, split_masks, list(gradients), tf.zeros([count])))
        return [(v, Instantiated(g)) for v, g in zip(variables, per_row, strict=True)]


def _trained(layer):
    return [v for v in own_weights(layer) if v.trainable]


def _check_reads(layer, first, arguments, masks):
    """Rejects a layer that reads tensors that are not its arguments.

    They may be the rows of all examples, in an attribute that another layer has set, and the layer
    may cut them to as many as it has of its input: then each example would get the first one's.
    """
    read = read_since(first, (arguments, masks, context_of_call()))
    if read:
        raise refusal_of_engine(
            f"Layer {layer.name!r}, which has no gradient rule, reads {read[0].name!r}, which was "
            "computed before and is not an argument of its call",
            'Pass it as an argument of the call, or use engine="per_example".',
        )


@as_written
def _warn_of_a_gradient_per_row(layer):
    warnings.warn(
        f"There is no gradient rule for {type(layer).__name__} (layer {layer.name!r}), so each "
        "of its weights takes one gradient per row in memory. Add a rule with "
        "tfdpnorm.gradients.register_rule.",
        stacklevel=2,
    )


def _called_again(layer, call, inputs, args, kwargs):
    """Calls a layer on one row; rejects it if it fails there, as with values of an earlier call."""
    first, arguments = operation_count(), (inputs, args, kwargs)
    masks = [keras_mask(x) for x in tf.nest.flatten(arguments)]
    try:
        outputs = call(inputs, *args, **kwargs)
        _check_reads(layer, first, arguments, masks)
        return outputs
    except Exception as error:  # whatever code of the user's raises
        if is_of_engine(error):
            raise
        lines = str(error).strip().splitlines()
        raise refusal_of_engine(
            f"Expected layer {layer.name!r}, which has no gradient rule, to run on a single row "
            f"of its arguments, got {type(error).__name__}: "
            f"{''.join(lines[-1:]).strip().rstrip('.')}. It may use a value that an earlier call "
            "kept in an attribute",
            'Compute that in each call, or use engine="per_example".',
        ) from None


def _check_one_row(layer, outputs, gradients):
    """Rejects a layer that gives other rows than that of its input.

    It reads the rows elsewhere: in an attribute that another layer has set, for instance.
    """
    expected = [tf.TensorShape([1, *b.shape[1:]]) for b in gradients]
    shapes = [z.shape for z in outputs]
    fit = len(shapes) == len(expected)
    if not fit or not all(map(tf.TensorShape.is_compatible_with, shapes, expected)):
        raise refusal_of_engine(
            f"Expected layer {layer.name!r} to return one row for one row of its arguments, got "
            f"shapes {[tuple(s) for s in shapes]} for {[tuple(s) for s in expected]}, as if it "
            "read rows that are not arguments of its call"
        )


def _distinct(outputs):
    """The tensors with gradients of a structure, each once: an RNN gives its state twice."""
    flat = [z for z in tf.nest.flatten(outputs) if tf.is_tensor(z)]
    flat = [z for z in flat if z.dtype.is_floating or z.dtype.is_complex]
    return list({id(z): z for z in flat}.values())
