"""Recurrent layers, against Keras' own in a loop over examples and in the forward pass."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.gradients.invariants import (
    assert_nonfinite_row_counts_as_zero,
    assert_one_mask_for_norm_and_sum,
    head,
    model_over,
    norm_of,
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


def over(*inner):
    return model_over((5, 2), *inner)


def over_words(*inner):
    embedding = layers.Embedding(9, 3, mask_zero=True)
    return model_over((5,), embedding, *inner, dtype="int32")


# --- gradients ---


@pytest.mark.slow_cases("gru")
@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_loop(kind):
    assert_equals_the_loop(over(kind()))


OPTIONS = {
    "return_sequences": dict(return_sequences=True),
    "go_backwards": dict(go_backwards=True, return_sequences=True),
    "unroll": dict(unroll=True),
    "no_bias": dict(use_bias=False),
    "activation": dict(activation="softplus"),
}


@pytest.mark.slow_cases("*-gru")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("option", OPTIONS)
def test_options_equal_the_loop(kind, option):
    assert_equals_the_loop(over(kind(**OPTIONS[option])), counts=(2,))


@pytest.mark.parametrize("kind", [lstm, gru, reset_before])
def test_other_gates_and_implementation_equal_the_loop(kind):
    layer = kind(recurrent_activation="hard_sigmoid", activation=None, implementation=1)
    assert_equals_the_loop(over(layer), counts=(2,))


@pytest.mark.slow_cases("gru")
@pytest.mark.parametrize("kind", KINDS)
def test_masks_equal_the_loop(kind):
    layer = kind(return_sequences=True, zero_output_for_mask=kind in (gru, simple))
    assert_equals_the_loop(over_words(layer, kind(2)), counts=(4,), clips=(0.05,))


@pytest.mark.slow_cases("gru-sum-True", "lstm-concat-False")
@pytest.mark.parametrize(
    ("kind", "merge_mode", "sequences"),
    [(lstm, "concat", False), (gru, "sum", True), (lstm, "mul", True), (gru, "ave", False)],
)
def test_bidirectional_equals_the_loop(kind, merge_mode, sequences):
    layer = layers.Bidirectional(kind(return_sequences=sequences), merge_mode=merge_mode)
    model = over_words(layer)
    assert_equals_the_loop(model, counts=(3,))
    with tf.GradientTape() as tape:
        with Taps(model, layer.trainable_variables).attached(tape) as taps:
            model(tf.ones([2, 5], tf.int32))
    assert [tap.layer for tap in taps.calls] == [layer.forward_layer, layer.backward_layer]


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


@pytest.mark.slow_cases("states_of_both_directions", "steps_first", "states", "called_twice")
@pytest.mark.parametrize(
    "build",
    [
        two_directions_apart,
        states,
        states_of_both_directions,
        masked_with_initial_state,
        called_twice,
        pytest.param(steps_first, marks=pytest.mark.keras_2_only("no time_major")),
    ],
)
def test_models_equal_the_loop(build):
    assert_equals_the_loop(build(), counts=(0, 1, 3))


@pytest.mark.slow_cases("lstm")
@pytest.mark.parametrize("kind", [lstm, reset_before])
def test_many_steps_are_run_in_a_loop(kind, monkeypatch):
    monkeypatch.setattr(recurrent, "_MOST_UNROLLED_STEPS", 2)
    model = over_words(kind(return_sequences=True, go_backwards=True), kind())
    assert_equals_the_loop(model, counts=(3,))
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


@pytest.mark.keras_2_only("no time_major")
def test_steps_first_are_rejected_without_a_rule():
    layer = layers.RNN(layers.LSTMCell(2), time_major=True, name="first")
    inputs = keras.Input((2, 2))
    model = keras.Model(inputs, head(layer(tf.transpose(inputs, [1, 0, 2]))))
    with pytest.raises(ValueError, match="layer 'first'.*time_major"):
        Taps(model, model.trainable_variables)


def test_ragged_sequences_are_rejected():
    inputs = keras.Input((None, 2), ragged=True)
    model = keras.Model(inputs, head(lstm(name="lstm")(inputs)))
    x = tf.ragged.constant([[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]], ragged_rank=1)
    rows = (x, tf.zeros([2, 2]), tf.ones(2), tf.ones(2))
    with pytest.raises(ValueError, match="dense input of the recurrent layer 'lstm'"):
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


@pytest.mark.slow_cases("True-128-lstm", "True-128-gru", "True-128-reset_before", "False-128-gru")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [pytest.param(0, marks=pytest.mark.slow), 128])
@pytest.mark.parametrize("zero", [False, True])
def test_outputs_and_states_are_those_of_keras(kind, steps, zero, monkeypatch):
    monkeypatch.setattr(recurrent, "_MOST_UNROLLED_STEPS", steps)
    options = dict(return_state=True, zero_output_for_mask=zero, go_backwards=zero)
    inputs, x = keras.Input((4, 2)), tf.random.normal([6, 4, 2])
    start = [tf.random.normal([6, 3]) for _ in range(1 + (kind is lstm))]
    for sequences, mask, states in itertools.product(
        (False, True), (None, tf.constant(MASK)), (None, start)
    ):
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


@pytest.mark.slow_cases("*-gru")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("option", DROPOUT)
def test_dropout_has_one_mask_for_the_norm_and_the_sum(kind, option):
    """Equal to a plain tape through Keras' layer under the same masks; clipped, of norm C."""
    options = dict(DROPOUT[option])
    if kind is simple:
        options.pop("implementation", None)
    elif KERAS_3 and option == "each_gate":
        options["use_cudnn"] = False  # Keras itself fails otherwise
    assert_one_mask_for_norm_and_sum(over(kind(return_sequences=True, **options)))


def test_dropout_is_for_training_only():
    layer = lstm(dropout=0.5, recurrent_dropout=0.5)
    model = keras.Sequential([keras.Input((4, 2)), layer])
    x = tf.random.normal([3, 4, 2])
    with tf.GradientTape() as tape:
        with Taps(model, model.trainable_variables).attached(tape):
            actual = model(x, training=False)
    np.testing.assert_allclose(actual, model(x, training=False), atol=1e-6)


def test_dropout_of_everything_is_left_to_the_fallback():
    assert rule_for(lstm(dropout=1.0)) is None
    assert rule_for(simple(recurrent_dropout=1.0)) is None
    assert rule_for(gru(dropout=0.9)) is not None


# --- numbers ---


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_is_not_finite_counts_as_zero(kind):
    assert_nonfinite_row_counts_as_zero(over(kind(return_sequences=True), kind()))


@pytest.mark.slow_cases("gru", "lstm")
@pytest.mark.parametrize("kind", KINDS)
def test_double_precision_agrees_to_its_own_digits(kind):
    with double_precision():
        assert_equals_the_loop(over(kind()), counts=(3,), tolerance=1e-12)


@pytest.mark.slow_cases("lstm")
@pytest.mark.parametrize("kind", [lstm, gru])
def test_half_precision_agrees_and_never_exceeds_the_clip(kind):
    with made_under("mixed_bfloat16"):
        model = over_words(kind(return_sequences=True), kind())
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
