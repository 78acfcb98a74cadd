"""What Keras' recurrent layers do around their steps.

Private parts of Keras 2: `RNN._process_inputs`, `RNN._maybe_reset_cell_dropout_mask` and the switch
`_could_use_gpu_kernel` of LSTM and GRU. A gradient rule runs the steps itself and must begin as
Keras does; publicly a layer runs as a whole only. Version-bound: Keras 3 has another `backend`.
"""

import tensorflow as tf
from tensorflow import keras


def inputs_and_states(layer, inputs, initial_state):
    """Returns (inputs, initial states) as `layer` sorts them out of what it is called with."""
    inputs, states, _ = layer._process_inputs(inputs, initial_state, None)
    return inputs, states


def looped(step, inputs, states, mask):
    """Runs `step` on each of the steps of `inputs`, [rows, T, ...], in a loop of the graph.

    Args:
        step: Function (input [rows, ...], states) -> (outputs, states).
        inputs: As above.
        states: List of the first states.
        mask: bool [rows, T]: steps that leave the states as they were; or None.

    Returns:
        Pair (outputs, each [rows, T, ...], list of the last states).
    """
    _, outputs, states = keras.backend.rnn(step, inputs, states, mask=mask)
    return outputs, list(states)


def product(x, kernel):
    """Returns x [..., n] times kernel [n, m] as Keras' cells multiply, to the last bit."""
    return keras.backend.dot(x, kernel)


def dropout_masks(layer, inputs, h, training, gates):
    """Draws the dropout masks of one call of `layer`, as and where Keras draws them.

    Keras' fused kernels have one mask for each step, the others one for all steps.

    Args:
        layer: SimpleRNN, LSTM or GRU.
        inputs: [rows, T, d], or [T, rows, d] for `time_major`.
        h: [rows, units], the first state.
        training: As in the call.
        gates: Number of gates of the cell.

    Returns:
        Pair (masks for the inputs, masks for h), each None or a list with one mask for all gates
        or one for each.
    """
    cell = layer.cell
    if getattr(layer, "_could_use_gpu_kernel", False):
        layer.reset_dropout_mask()
        masks = layer.get_dropout_mask_for_cell(inputs, training, count=gates)
        return masks and masks[:1], None
    layer._maybe_reset_cell_dropout_mask(cell)
    step = inputs[0] if layer.time_major else inputs[:, 0]
    masks = cell.get_dropout_mask_for_cell(step, training, count=gates)
    recurrent_masks = cell.get_recurrent_dropout_mask_for_cell(h, training, count=gates)
    if masks is not None:
        masks = tf.nest.flatten(masks)
        used = masks[:1] if getattr(cell, "implementation", 1) == 2 else masks
        masks = [tf.expand_dims(m, 0 if layer.time_major else 1) for m in used]
    if recurrent_masks is not None:
        recurrent_masks = tf.nest.flatten(recurrent_masks)
    return masks, recurrent_masks
