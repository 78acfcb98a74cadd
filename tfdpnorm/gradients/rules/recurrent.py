"""The rules of LSTM, GRU and simple recurrent layers, alone or in Bidirectional."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.dtypes import widened
from tfdpnorm.gradients.contributions.contribution import BlockOuterSum, Instantiated, OuterSum
from tfdpnorm.gradients.refusals import refusal_of_engine
from tfdpnorm.gradients.rules.registry import Rule, WrapperRule, register_rule
from tfdpnorm.keras_compat.layers import (
    all_steps_at_once,
    dropout_masks,
    inputs_and_states,
    looped,
    product,
    takes_steps_first,
)

# Unrolled steps take three quarters of the time of a loop's, and longer to trace.
_MOST_UNROLLED_STEPS = 128


class _RecurrentRule(Rule):
    """Watches z = x W + bias of all steps, one tensor, before the first step is run.

    Step t takes z_t + h_{t-1} U, so the gradient b_t of its pre-activations is that of z_t. The
    gradient of W is sum_t x_t b_t^T, that of U sum_t h_{t-1} b_t^T, and that of the bias sum_t b_t.
    With dropout a gate may have its own x and h; the lists `xs` and `hs` hold one for all gates, or
    one for each.
    """

    gates = 1

    def applies(self, layer):
        return max(layer.dropout, layer.recurrent_dropout) < 1  # which some cells ignore

    def step(self, cell, z, states, hs):
        """One step from the input's part of the pre-activations, z, [rows, gates * units].

        `states` is a list of [rows, units], h first, and `hs` is h as the gates get it. Returns the
        new states and the step's tensors for `recurrent_terms`.
        """
        raise NotImplementedError

    def recurrent_terms(self, cell, hs, kept, b):
        """The factors of the gradients of the recurrent kernel and bias, for all steps at once.

        `hs` is h before each step, [rows, T, units], `kept` what `step` kept, [rows, T, ...], and b
        the gradient with respect to z, [rows, T, gates * units]. Returns what the gates multiply by
        the recurrent kernel, and the gradient of the product.
        """
        del cell, kept
        return hs, b

    def forward(self, layer, call, watch, inputs, mask=None, training=None, initial_state=None):
        if isinstance(inputs, tf.RaggedTensor):
            raise ValueError(
                f"Expected a dense input of the recurrent layer {layer.name!r}, got a ragged one. "
                "Pad the sequences to one length and mask the padding."
            )
        inputs, states = inputs_and_states(layer, inputs, initial_state)
        mask = None if mask is None else tf.cast(tf.nest.flatten(mask)[0], tf.bool)
        cell = layer.cell
        input_masks, masks = dropout_masks(layer, inputs, states[0], training, self.gates)
        xs = [_in_order(layer, x) for x in _masked(inputs, input_masks)]
        given_mask = mask
        mask = None if mask is None else _in_order(layer, mask)
        z = _product(xs, cell.kernel)
        if cell.use_bias:
            z += tf.unstack(cell.bias)[0] if cell.bias.shape.rank == 2 else cell.bias
        z = watch(z)

        def step(z, states):
            new, kept = self.step(cell, z, states, _masked(states[0], masks))
            return (new[0], states[0], *kept), new

        (hidden, *kept), states = _all_steps(step, z, list(states), mask, layer.unroll)
        output = hidden if layer.return_sequences else states[0]
        if mask is not None:
            # Keras shows zeros, not h, up to the first step that counts.
            shown = mask
            if not layer.zero_output_for_mask:
                shown = tf.cumsum(tf.cast(mask, tf.int32), axis=1) > 0
            if layer.zero_output_for_mask and layer.unroll and layer.return_sequences:
                # Keras lays the mask over the outputs of unrolled steps as it was given, whichever
                # way these went. In a loop it turns both.
                shown = _by_rows(layer, given_mask)
            shown = shown[..., tf.newaxis] if layer.return_sequences else shown[:, -1:]
            output = tf.where(shown, output, tf.zeros_like(output))
        if layer.return_sequences and takes_steps_first(layer):
            output = _swapped(output)
        return [output, *states] if layer.return_state else output, (xs, masks, kept)

    def contributions(self, layer, remembered, gradients):
        xs, masks, (h, *kept) = remembered
        (b,) = gradients
        cell = layer.cell
        masks = None if masks is None else [m[:, tf.newaxis] for m in masks]
        terms, recurrent_b = self.recurrent_terms(cell, _masked(h, masks), kept, b)
        found = [
            (cell.kernel, _kernel_gradients(xs, b, cell.kernel.shape)),
            (
                cell.recurrent_kernel,
                _kernel_gradients(terms, recurrent_b, cell.recurrent_kernel.shape),
            ),
        ]
        if cell.use_bias:
            sums = tf.reduce_sum(widened(b), axis=1)
            if cell.bias.shape.rank == 2:
                sums = tf.stack([sums, tf.reduce_sum(widened(recurrent_b), axis=1)], axis=1)
            found.append((cell.bias, Instantiated(sums)))
        return found


@register_rule(keras.layers.SimpleRNN)
class SimpleRNNRule(_RecurrentRule):
    """h = activation(z + h U)."""

    def step(self, cell, z, states, hs):
        z = z + _product(hs, cell.recurrent_kernel)
        return [z if cell.activation is None else cell.activation(z)], []


@register_rule(keras.layers.LSTM)
class LSTMRule(_RecurrentRule):
    """Gates i, f, c, o of z + h U."""

    gates = 4

    def step(self, cell, z, states, hs):
        i, f, c, o = tf.split(z + _product(hs, cell.recurrent_kernel), 4, axis=-1)
        c = cell.recurrent_activation(f) * states[1] + cell.recurrent_activation(i) * (
            cell.activation(c)
        )
        return [cell.recurrent_activation(o) * cell.activation(c), c], []


@register_rule(keras.layers.GRU)
class GRURule(_RecurrentRule):
    """Gates z, r, h; the gate r resets either h itself or, if `reset_after`, its product with U.

    In the first case the last gate is multiplied with r * h, in the second its product with U gets
    the gradient r * b.
    """

    gates = 3

    def step(self, cell, z, states, hs):
        kernel = cell.recurrent_kernel
        x_z, x_r, x_h = tf.split(z, 3, axis=-1)
        if cell.reset_after:
            inner = _product(hs, kernel)
            if cell.use_bias:
                inner += tf.stop_gradient(tf.unstack(cell.bias)[1])
            h_z, h_r, h_h = tf.split(inner, 3, axis=-1)
        else:
            hs = _for_each_gate(hs)
            split = [2 * cell.units, cell.units]
            kernel, last_kernel = tf.split(tf.convert_to_tensor(kernel), split, axis=1)
            h_z, h_r = tf.split(_product(hs[:2], kernel), 2, axis=-1)
        update = cell.recurrent_activation(x_z + h_z)
        reset = cell.recurrent_activation(x_r + h_r)
        h_h = reset * h_h if cell.reset_after else _product([reset * hs[2]], last_kernel)
        candidate = cell.activation(x_h + h_h)
        return [update * states[0] + (1 - update) * candidate], [reset]

    def recurrent_terms(self, cell, hs, kept, b):
        (reset,) = kept
        if cell.reset_after:
            b_z, b_r, b_h = tf.split(b, 3, axis=-1)
            return hs, tf.concat([b_z, b_r, reset * b_h], axis=-1)
        h_z, h_r, h_h = _for_each_gate(hs)
        return [h_z, h_r, reset * h_h], b


def _all_steps(step, z, states, mask, unroll):
    """Runs `step` on z, [rows, T, ...]; returns what it gave, [rows, T, ...], and the last states.

    Masked steps leave the states as they were.
    """
    steps = z.shape[1]
    if steps is None or not (unroll or steps <= _MOST_UNROLLED_STEPS):
        return looped(step, z, states, mask)
    masks = [None] * steps if mask is None else tf.unstack(mask[..., tf.newaxis], axis=1)
    found = []
    for z_t, mask_t in zip(tf.unstack(z, axis=1), masks, strict=True):
        outputs, new = step(z_t, states)
        if mask_t is not None:
            new = [tf.where(mask_t, n, s) for n, s in zip(new, states, strict=True)]
        states = new
        found.append((states[0], *outputs[1:]))
    return [tf.stack(x, axis=1) for x in zip(*found, strict=True)], states


def _in_order(layer, x):
    """x, [rows, T, ...], with the steps in the order in which the layer takes them."""
    x = _by_rows(layer, x)
    return tf.reverse(x, [1]) if layer.go_backwards else x


def _by_rows(layer, x):
    return _swapped(x) if takes_steps_first(layer) else x


def _swapped(x):
    return tf.transpose(x, [1, 0, *range(2, x.shape.rank)])


def _masked(x, masks):
    return [x] if masks is None else [x * m for m in masks]


def _for_each_gate(hs):
    return hs * 3 if len(hs) == 1 else hs


def _product(xs, kernel):
    """x W for one x, or for one x for each gate."""
    # The kernel's gradient comes from b; without the stop a loop would compute it, too.
    kernels = tf.split(tf.stop_gradient(tf.convert_to_tensor(kernel)), len(xs), axis=1)
    parts = [product(x, part) for x, part in zip(xs, kernels, strict=True)]
    return tf.concat(parts, axis=-1)


def _kernel_gradients(xs, b, shape):
    if len(xs) == 1:
        return OuterSum(xs[0], b, shape)
    gates = len(xs)
    d, p = shape[0], shape[1] // gates
    b = tf.stack(tf.split(b, gates, axis=-1), axis=1)
    return BlockOuterSum(tf.stack(xs, axis=1), b, [gates, d, p], [1, 0, 2], shape)


# --- a layer on every step ---


@register_rule(keras.layers.TimeDistributed)
class TimeDistributedRule(WrapperRule):
    """Runs the layer inside on [rows * steps, ...]: a row's steps follow each other."""

    def rows_per_row(self, layer, inputs):
        shape = tf.nest.flatten(inputs)[0].shape
        if isinstance(inputs, tf.RaggedTensor) or shape[1] is None:
            raise refusal_of_engine(
                f"Expected a known number of steps in layer {layer.name!r}, got "
                f"{type(inputs).__name__} of shape {tuple(shape)}",
                'Pass the number to keras.Input, or use engine="per_example".',
            )
        return shape[1]

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        with all_steps_at_once(layer, call) as at_once:
            return at_once(inputs, *args, **kwargs), None
