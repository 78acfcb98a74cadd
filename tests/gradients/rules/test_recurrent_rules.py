"""Recurrent layers, against Keras' own in a loop over examples and in the forward pass."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.gradients.invariants import (
    assert_nonfinite_row_counts_as_zero,
    assert_one_mask_for_norm_and_sum,
    head,
    model_over,
    norm_of,
    side_by_side,
)
from tests.gradients.looped_reference import (
    assert_equals_the_loop,
    double_precision,
    example_rows,
    looped_sum,
    loss_function,
    relative_error,
)
from tfdpnorm.gradients import book_keeping
from tfdpnorm.gradients.rules import recurrent, rule_for
from tfdpnorm.gradients.taps import Taps
from tfdpnorm.keras_compat.devices_and_precision import made_under
from tfdpnorm.keras_compat.variables import KERAS_3

layers = keras.layers


def lstm(units=3, **kwargs):
    options = dict(unit_forget_bias=False) if "use_bias" not in kwargs else {}
    return layers.LSTM(units, **{**options, "bias_initializer": "random_normal", **kwargs})


def gru(units=3, **kwargs):
    return layers.GRU(units, **{"bias_initializer": "random_normal", **kwargs})


def simple(units=3, **kwargs):
    return layers.SimpleRNN(units, **{"bias_initializer": "random_normal", **kwargs})


def reset_before(units=3, **kwargs):
    return gru(units, reset_after=False, **kwargs)


KINDS = [lstm, gru, reset_before, simple]


def over_words(*inner):
    embedding = layers.Embedding(9, 3, mask_zero=True)
    return model_over((5,), embedding, *inner, dtype="int32")


# --- gradients ---


def test_equals_the_loop():
    """All kinds with all options side by side, to the digits of float64."""
    with double_precision():
        of = [kind(**option) for kind in KINDS for option in OPTIONS.values()]
        of += [kind(**OTHER_GATES) for kind in (lstm, gru, reset_before)]
        model = side_by_side(*(((4, 2), layer) for layer in of))
        assert_equals_the_loop(model, counts=(0, 1, 3), tolerance=1e-11)


OPTIONS = {
    "none": {},
    "return_sequences": dict(return_sequences=True),
    "go_backwards": dict(go_backwards=True, return_sequences=True),
    "unroll": dict(unroll=True),
    "no_bias": dict(use_bias=False),
    "activation": dict(activation="softplus"),
}
OTHER_GATES = dict(recurrent_activation="hard_sigmoid", activation=None, implementation=1)


def test_masks_equal_the_loop():
    words = keras.Input((5,), dtype="int32")
    x = layers.Embedding(9, 3, mask_zero=True)(words)
    total = 0.0
    for kind in KINDS:
        layer = kind(return_sequences=True, zero_output_for_mask=kind in (gru, simple))
        total += head(kind(2)(layer(x)))
    assert_equals_the_loop(keras.Model(words, total), counts=(4,), clips=(0.05,))


def test_bidirectional_equals_the_loop():
    words = keras.Input((5,), dtype="int32")
    x = layers.Embedding(9, 3, mask_zero=True)(words)
    of, total = [], 0.0
    for kind, mode, sequences in (
        (lstm, "concat", False),
        (gru, "sum", True),
        (simple, "mul", True),
    ):
        of.append(layers.Bidirectional(kind(return_sequences=sequences), merge_mode=mode))
        total += head(of[-1](x))
    model = keras.Model(words, total)
    assert_equals_the_loop(model, counts=(3,))
    with tf.GradientTape() as tape:
        with Taps(model, of[0].trainable_variables).attached(tape) as taps:
            model(tf.ones([2, 5], tf.int32))
    assert [tap.layer for tap in taps.calls] == [of[0].forward_layer, of[0].backward_layer]


def two_directions_apart():
    inputs = keras.Input((4, 2))
    backward = layers.GRU(2, go_backwards=True)
    left, right = layers.Bidirectional(layers.GRU(2), backward_layer=backward, merge_mode=None)(
        inputs
    )
    return keras.Model(inputs, head(left * right))


def states():
    """An encoder's states as the initial states of a decoder, all outputs in use."""
    source, target = keras.Input((4, 2)), keras.Input((3, 2))
    encoded, h, c = lstm(return_state=True)(source)
    x, *last = lstm(return_state=True, return_sequences=True)(target, initial_state=[h, c])
    x = gru(return_sequences=True)(x, initial_state=encoded)
    return keras.Model([source, target], head(layers.Concatenate()([layers.Flatten()(x), *last])))


def states_of_both_directions():
    inputs = keras.Input((4, 2))
    layer = layers.Bidirectional(lstm(return_state=True, return_sequences=True))
    x, *states = layer(inputs)
    y, *_ = layer(inputs[:, ::-1], initial_state=[layers.Dense(3)(s) for s in states])
    return keras.Model(inputs, head(x * y))


def masked_with_initial_state():
    """No step of some rows counts: what is shown is zero, what is carried is not."""
    words, start = keras.Input((3,), dtype="int32"), keras.Input((3,))
    x = layers.Embedding(9, 2, mask_zero=True)(words)
    x, state = gru(return_sequences=True, return_state=True)(x, initial_state=start)
    y, _ = simple(return_state=True)(x, initial_state=state)
    return keras.Model([words, start], head(layers.Concatenate()([state, y])))


def called_twice():
    shared = lstm(2, return_sequences=True)
    inputs = keras.Input((4, 2))
    return keras.Model(inputs, head(shared(shared(inputs)) * inputs))


def steps_first():
    def swapped(x):
        return tf.transpose(x, [1, 0, 2])

    inputs = keras.Input((4, 2))
    x = lstm(time_major=True, return_sequences=True, go_backwards=True)(swapped(inputs))
    return keras.Model(inputs, head(swapped(x)) + head(gru(time_major=True)(x)))


@each(
    "build",
    [
        two_directions_apart,
        states,
        states_of_both_directions,
        masked_with_initial_state,
        called_twice,
        *([] if KERAS_3 else [steps_first]),
    ],
)
def test_models_equal_the_loop(build):
    assert_equals_the_loop(build(), counts=(0, 2), clips=(0.05,))


def test_many_steps_are_run_in_a_loop(monkeypatch):
    monkeypatch.setattr(recurrent, "_MOST_UNROLLED_STEPS", 2)
    model = over_words(reset_before(return_sequences=True, go_backwards=True), lstm())
    rows = example_rows(model, 3)
    loss_fn = loss_function(model)
    variables = model.trainable_variables
    traced = tf.function(
        lambda: book_keeping(model, loss_fn, rows, variables, 0.1).gradients, autograph=False
    )
    expected = looped_sum(loss_fn, rows, variables, 0.1)
    assert relative_error([g.numpy() for g in traced()], expected) < 1e-5
    operations = traced.get_concrete_function().graph.get_operations()
    assert any("/while/" in operation.name for operation in operations)


def test_numbers_of_rows_and_steps_known_at_run_time_only():
    inputs = keras.Input((None,), dtype="int32")
    x = layers.Embedding(9, 3, mask_zero=True)(inputs)
    model = keras.Model(inputs, head(reset_before(go_backwards=True)(x)))
    loss_fn = loss_function(model)
    dtypes = [tf.int32, *[tf.float32] * 3]
    shapes = [[None, None], [None, 2], [None], [None]]

    @tf.function(
        input_signature=[tf.TensorSpec(*x) for x in zip(shapes, dtypes, strict=True)],
        autograph=False,
    )
    def gradients(*rows):
        return book_keeping(model, loss_fn, rows, model.trainable_variables, 0.1).gradients

    for count, steps in ((1, 2), (3, 4)):
        words = tf.constant(np.random.default_rng(0).integers(0, 9, (count, steps)), tf.int32)
        rows = (words, tf.zeros([count, 2]), tf.ones(count), tf.ones(count))
        expected = looped_sum(loss_fn, rows, model.trainable_variables, 0.1)
        assert relative_error([g.numpy() for g in gradients(*rows)], expected) < 1e-5


def test_a_generic_recurrent_layer_has_the_fallback():
    """Of whose outputs some may be unused."""
    inputs = keras.Input((3, 2))
    layer = layers.RNN(layers.LSTMCell(2), return_state=True, unroll=True)
    x, *_ = layer(inputs)
    assert rule_for(layer) is None
    assert_equals_the_loop(keras.Model(inputs, head(x)), counts=(2,))


def test_ragged_sequences_are_rejected():
    inputs = keras.Input((None, 2), ragged=True)
    model = keras.Model(inputs, head(lstm(name="lstm")(inputs)))
    x = tf.ragged.constant([[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]], ragged_rank=1)
    rows = (x, tf.zeros([2, 2]), tf.ones(2), tf.ones(2))
    with pytest.raises(ValueError, match="'lstm'"):
        book_keeping(model, loss_function(model), rows, model.trainable_variables, 1.0)


# --- the forward pass ---

MASK = [
    [True, True, True, True],
    [True, True, False, False],
    [False, False, True, True],
    [True, False, True, False],
    [False, True, False, True],
    [False, False, False, False],
]


@each("kind, zero", [(lstm, False), (gru, True), (reset_before, False), (simple, True)])
def test_outputs_and_states_are_those_of_keras(kind, zero):
    options = dict(return_state=True, zero_output_for_mask=zero, go_backwards=zero)
    inputs, x = keras.Input((4, 2)), tf.random.normal([6, 4, 2])
    start = [tf.random.normal([6, 3]) for _ in range(1 + (kind is lstm))]
    all_of = tf.constant(MASK)
    cases = ((False, all_of, None), (True, all_of, start), (True, None, start))
    for sequences, mask, states in cases:
        layer = kind(return_sequences=sequences, **options)
        model = keras.Model(inputs, layer(inputs))
        expected = layer(x, mask=mask, initial_state=states)
        with tf.GradientTape() as tape:
            with Taps(model, model.trainable_variables).attached(tape) as taps:
                actual = layer(x, mask=mask, initial_state=states)
        assert len(actual) == len(expected) == 1 + len(start)
        for a, e in zip(actual, expected, strict=True):
            np.testing.assert_allclose(a, e, atol=1e-6)
        assert len(taps.calls[0].watched) == 1


# --- random numbers ---

DROPOUT = {
    "fused": dict(dropout=0.5),
    "inputs": dict(dropout=0.5, unroll=True),
    "each_gate": dict(dropout=0.5, unroll=True, implementation=1),
    "recurrent": dict(recurrent_dropout=0.5),
    "both": dict(dropout=0.3, recurrent_dropout=0.5),
}


@each("kind", KINDS)
def test_dropout_has_one_mask_for_the_norm_and_the_sum(kind):
    """Equal to a plain tape through Keras' layer under the same masks; clipped, of norm C."""
    of = []
    for name, options in DROPOUT.items():
        options = dict(options)
        if kind is simple:
            options.pop("implementation", None)
        elif KERAS_3 and name == "each_gate":
            options["use_cudnn"] = False  # Keras itself fails otherwise
        of.append(kind(return_sequences=True, **options))
    assert_one_mask_for_norm_and_sum(side_by_side(*(((3, 2), layer) for layer in of)))


def test_dropout_of_everything_is_left_to_the_fallback():
    assert rule_for(lstm(dropout=1.0)) is None
    assert rule_for(simple(recurrent_dropout=1.0)) is None
    assert rule_for(gru(dropout=0.9)) is not None


# --- numbers ---


def test_a_row_that_is_not_finite_counts_as_zero():
    of = (keras.Sequential([kind(return_sequences=True), kind()]) for kind in KINDS)
    assert_nonfinite_row_counts_as_zero(side_by_side(*(((5, 2), layer) for layer in of)))


def test_half_precision_agrees_and_never_exceeds_the_clip():
    with made_under("mixed_bfloat16"):
        model = over_words(lstm(return_sequences=True), gru())
    loss_fn = loss_function(model)
    variables = model.trainable_variables
    for seed in range(2):
        rows = example_rows(model, 1, seed)
        whole = book_keeping(model, loss_fn, rows, variables, 1e6).gradients
        expected = looped_sum(loss_fn, rows, variables, 1e6)
        assert relative_error([g.numpy() for g in whole], expected) < 0.05
        clipped = book_keeping(model, loss_fn, rows, variables, 0.01).gradients
        assert all(g.dtype == tf.float32 for g in clipped)
        assert norm_of(clipped) <= 0.01 * (1 + 1e-6)
        assert norm_of(clipped) == pytest.approx(0.01, rel=1e-3)
