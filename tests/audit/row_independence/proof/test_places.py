"""What depends on an example's place in the batch is not proved; what is the same at all is."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.audit.row_independence.proof.cases_of_uneven import BY_CHANCE, PLACES, UNEVEN
from tests.audit.row_independence.proof.cases_of_values import FIRST, constant
from tests.audit.row_independence.proof.coupled_models import around
from tests.audit.row_independence.proof.perturbation import (
    P,
    moves_with_the_examples,
    spec,
    traced,
    verdicts_of,
)
from tfdpnorm.audit.row_independence.proof.registry import Node
from tfdpnorm.audit.row_independence.proof.training import prove_training
from tfdpnorm.audit.row_independence.proof.verdicts import FREE, Mixed, Rows
from tfdpnorm.audit.row_independence.proof.walk import Walk

X = [spec(4)]
CASES = {**UNEVEN, **BY_CHANCE}


def verdict_on(function, specs=X, examples=P):
    return verdicts_of(traced(function, specs), examples)[0][0]


@pytest.mark.parametrize("name", CASES)
def test_a_function_of_the_place_is_refused_and_one_that_is_the_same_at_all_is_proved(name):
    *functions, specs, expected = CASES[name]
    uneven, even = (traced(function, specs) for function in functions)
    assert isinstance(verdicts_of(uneven)[0][0], Mixed)
    assert verdicts_of(even)[0][0] == expected
    if name not in BY_CHANCE:
        assert moves_with_the_examples(even, specs, expected)
        assert not moves_with_the_examples(uneven, specs, expected)


def test_a_model_with_a_weight_for_each_place_is_not_proved_and_says_where():
    def proof_of(weights):
        model = around(lambda x: x * weights)
        return prove_training(model, "mse", tf.TensorSpec([4, 4]), tf.TensorSpec([4, 3]))

    proof = proof_of(tf.cast(tf.range(4) % 2, tf.float32)[:, None])
    assert not proof.holds
    assert "Mul 'sequential" in proof.obstacle and "free numbers that differ" in proof.obstacle
    assert proof_of(tf.cast(tf.range(4) % 2, tf.float32)).holds


def test_with_one_row_for_each_batch_there_is_one_place():
    scale, bias = tf.Variable([[2.0, 1.0, 3.0, 4.0]]), tf.Variable([1.0])
    function = lambda x: tf.concat([x * scale + bias[:, None], scale], 1)  # noqa: E731
    assert verdict_on(function, [tf.TensorSpec([1, 4])], 1) == FIRST


# --- rows that a model has of its own ---

TOKEN = tf.Variable(tf.reshape(tf.range(8.0), [1, 2, 4]))
WEIGHTS = tf.Variable(tf.reshape(tf.range(16.0), [4, 4]))
OWN_ROWS = {
    "tiled": lambda n: tf.tile(TOKEN, [n, 1, 1]),
    "repeated": lambda n: tf.repeat(TOKEN, n, axis=0),
    "broadcast": lambda n: tf.broadcast_to(TOKEN, [n, 2, 4]),
    "times_ones": lambda n: tf.ones([n, 1, 1]) * TOKEN,
    "plus_zeros": lambda n: tf.fill([n, 2, 1], 0.0) + TOKEN,
    "stacked": lambda n: tf.stack([TOKEN[0]] * P),
    "joined": lambda n: tf.concat([tf.identity(TOKEN)] * P, 0),
    "looked_up": lambda n: tf.nn.embedding_lookup(TOKEN[0], tf.zeros([n, 2], tf.int32)),
    "looked_up_by_a_range": lambda n: tf.nn.embedding_lookup(
        WEIGHTS, tf.tile(tf.range(2)[None], [n, 1])
    ),
    "projected": lambda n: tf.tensordot(tf.tile(TOKEN, [n, 1, 1]), WEIGHTS, 1),
    "normalized": lambda n: tf.math.l2_normalize(tf.repeat(TOKEN, n, axis=0), -1),
    "merged_and_back": lambda n: tf.reshape(
        tf.nn.relu(tf.reshape(tf.tile(TOKEN, [n, 1, 1]), [-1, 4])), [n, 2, 4]
    ),
    "in_a_loop": lambda n: tf.while_loop(
        lambda i, y: i < 3, lambda i, y: (i + 1, y @ WEIGHTS), [0, tf.tile(TOKEN, [n, 1, 1])]
    )[1],
}


@pytest.mark.parametrize("name", OWN_ROWS)
def test_learned_rows_that_each_example_gets_alike_are_proved(name):
    """Class tokens and learned queries: joined before the rows, and attended to by them."""

    def function(x):
        own = OWN_ROWS[name](tf.shape(x)[0])
        x = tf.concat([own, x], 1)
        return tf.nn.softmax(tf.einsum("btd,bsd->bts", own, x)) @ x

    assert verdict_on(function, [spec(5, 4)]) == FIRST


def test_what_is_captured_with_a_value_is_known_by_it():
    many = 100  # small ones become constants of the graph
    uneven = tf.constant(np.arange(P * many).reshape(P, many), tf.float32)
    even, word = tf.ones([P, many]), tf.constant("a")

    def times(numbers):
        return lambda x: x * numbers + tf.cast(word == "b", x.dtype)

    for numbers in (even, tf.tile(uneven[:1], [P, 1])):
        assert verdict_on(times(numbers), [spec(many)]) == FIRST
    assert isinstance(verdict_on(times(uneven), [spec(many)]), Mixed)


# --- random numbers ---

generator = tf.random.Generator.from_seed(1)


SEED = tf.Variable([1, 2])
counter = tf.Variable(0.0)


def seeds():
    return generator.make_seeds()[:, 0]


DRAWN = {
    "uniform": lambda x: x * tf.random.uniform([P, 4]),
    "normal_with_parameters": lambda x: x + tf.random.normal([P, 4], 2.0, 3.0),
    "truncated": lambda x: x + tf.random.truncated_normal(tf.shape(x)),
    "integers": lambda x: x + tf.cast(tf.random.uniform([P, 4], 0, 5, tf.int32), x.dtype),
    "gamma": lambda x: x + tf.random.gamma([P], [1.0, 2.0, 3.0, 4.0]),
    "poisson": lambda x: x + tf.random.poisson([P, 4], 2.0),
    "for_each_row": lambda x: x * tf.floor(0.5 + tf.random.uniform([P, 1])),
    "before_the_rows": lambda x: x + tf.reduce_sum(tf.random.uniform([5, P, 4]), 0),
    "reshaped": lambda x: x * tf.reshape(tf.random.uniform([P]), [P, 1]),
    "generator": lambda x: x * generator.uniform([P, 4]),
    "generator_of_normal_numbers": lambda x: x * generator.normal([P, 1]),
    "seed_from_a_generator": lambda x: x * tf.random.stateless_uniform([P, 1], seeds()),
    "seed_from_random_numbers": lambda x: (
        x * tf.random.stateless_normal([P, 1], tf.random.uniform([2], 0, 9999, tf.int32))
    ),
    "seed_and_a_number": lambda x: (
        x * tf.random.stateless_normal([P, 1], [tf.random.uniform([], 0, 99, tf.int32), 7])
    ),
    "dropout": lambda x: tf.nn.dropout(x, 0.5),
    "dropout_with_a_seed": lambda x: tf.nn.dropout(tf.nn.dropout(x, 0.5, seed=1), 0.5, seed=1),
    "stateless_dropout": lambda x: tf.nn.experimental.stateless_dropout(x, 0.5, seeds()),
    "in_a_function": lambda x: x * tf.function(lambda: tf.random.uniform([P, 1]))(),
    "in_a_branch": lambda x: tf.cond(
        tf.random.uniform([], seed=5) < 0.5, lambda: x, lambda: x + tf.random.normal([P, 4])
    ),
    "in_a_loop": lambda x: (
        tf.while_loop(
            lambda i, y: i < 3,
            lambda i, y: (i + 1, y * tf.random.uniform([P, 1])),
            [0, tf.ones([P, 4])],
        )[1]
        * x
    ),
    "used_twice": lambda x: (lambda z: (x * z) @ tf.ones([4, 2]) + z[:, :2])(
        tf.random.uniform([P, 4])
    ),
    "dropped_paths": lambda x: x * tf.floor(0.8 + tf.random.uniform([tf.shape(x)[0], 1])),
    "one_column_erased": lambda x: x * (1 - tf.one_hot(tf.random.uniform([P], 0, 4, tf.int32), 4)),
    "cropped_apart": lambda x: tf.gather(
        x, tf.random.uniform([P], 0, 3, tf.int32)[:, None] + tf.range(2), batch_dims=1
    ),
    "reparametrized": lambda x: x[:, :2] + tf.exp(x[:, 2:]) * tf.random.normal([P, 2]),
    "rows_of_a_table": lambda x: (
        x + tf.gather(constant(5, 4), tf.random.uniform([P], 0, 5, tf.int32))
    ),
    "sorted_for_each_row": lambda x: x * tf.sort(tf.random.uniform([P, 4]), axis=1),
    "of_a_choice": lambda x: x * tf.where(tf.random.uniform([P, 1]) < 0.5, 1.0, 0.0),
    "classes": lambda x: x + tf.cast(tf.random.categorical(x, 4), x.dtype),
    "classes_by_a_seed": lambda x: (
        x + tf.cast(tf.random.stateless_categorical(x, 4, seeds()), x.dtype)
    ),
    "beside_ones": lambda x: tf.concat(
        [x, tf.concat([tf.random.normal([P, 2]), tf.ones([P, 2])], 1)], 1
    ),
}


def walked(function):
    """The verdict on the first output, and the types of what is noted to be batch-wide."""
    graph = traced(function, X).graph
    walk = Walk(P)
    verdicts = walk.run(graph, [Rows(0), *[FREE] * (len(graph.inputs) - 1)])
    notes = (*walk.draws.batch_wide, *walk.draws.written)
    return verdicts[0], {note.op_type for note in notes}


@pytest.mark.parametrize("name", DRAWN)
def test_what_is_drawn_for_each_example_is_proved_and_not_batch_wide(name):
    verdict, batch_wide = walked(DRAWN[name])
    assert verdict == FIRST
    assert batch_wide == ({"RandomUniform"} if name == "in_a_branch" else set())


def with_its_first(z):
    return z - z[:1]


NOT_DRAWN_ALIKE = {
    "a_constant_seed": lambda x: x * tf.random.stateless_uniform([P, 1], [1, 2]),
    "a_variable_as_seed": lambda x: x * tf.random.stateless_uniform([P, 1], SEED),
    "a_slice_of_the_constant_half": lambda x: (
        x * tf.random.stateless_uniform([P, 1], tf.concat([seeds(), [1, 2]], 0)[2:])
    ),
    "a_mean_for_each_place": lambda x: x + tf.random.normal([P, 1], tf.range(3.0)[:, None]),
    "a_shape_for_each_place": lambda x: (
        x + tf.random.gamma([4], tf.range(3.0) + 1)[None, 0, :, None]
    ),
    "sorted": lambda x: x * tf.sort(tf.random.uniform([P]))[:, None],
    "in_relation_to_the_first": lambda x: x * with_its_first(tf.random.uniform([P, 1])),
    "shuffled_numbers": lambda x: x + tf.cast(tf.random.shuffle(tf.range(P)), x.dtype)[:, None],
    "summed_up": lambda x: x * tf.cumsum(tf.random.uniform([P, 1])),
    "chosen_by_place": lambda x: x * tf.gather(tf.random.uniform([P, 1]), [0, 0, 1]),
    "the_same_numbers_in_another_shape": lambda x: (
        x
        * tf.random.uniform([P, 1], seed=7)
        * tf.reduce_sum(tf.random.uniform([4, P], seed=7), 0)[:, None]
    ),
    "the_first_of_the_same_numbers": lambda x: (
        x * (tf.random.uniform([P, 1], seed=7) - tf.random.uniform([P, 1], seed=7)[:1])
    ),
    "the_first_by_the_same_seed": lambda x: (
        lambda s: x * (tf.random.stateless_uniform([P, 1], s) - tf.random.stateless_uniform([1], s))
    )(seeds()),
    "masked_by_place": lambda x: x * tf.random.uniform([P, 1]) * PLACES[:, None],
    "divided_by_their_sum": lambda x: (lambda z: x * z / tf.reduce_sum(z))(
        tf.random.uniform([P, 1])
    ),
    "padded": lambda x: x * tf.pad(tf.random.uniform([P - 1, 1]), [[1, 0], [0, 0]]),
    "the_first_in_a_branch": lambda x: (
        lambda z: tf.cond(tf.random.uniform([], seed=5) < 0.5, lambda: x * z, lambda: x * z[0])
    )(tf.random.uniform([P, 1])),
    "the_first_in_later_turns": lambda x: tf.while_loop(
        lambda i, y, z: i < 3,
        lambda i, y, z: (i + 1, y * z, z - z[0]),
        [0, x, tf.random.uniform([P, 1])],
    )[1],
    "a_seed_from_a_counter": lambda x: (
        x * tf.random.stateless_uniform([P, 1], [tf.cast(counter, tf.int32), 0])
    ),
    "of_two_axes": lambda x: (lambda z: tf.concat([x + z, x + tf.transpose(z)], 1))(
        tf.random.uniform([P, P])
    ),
    "classes_by_a_public_seed": lambda x: (
        x + tf.cast(tf.random.stateless_categorical(x, 4, [1, 2]), x.dtype)
    ),
    "numbers_by_the_seed_of_classes": lambda x: (
        lambda s: (
            tf.cast(tf.random.stateless_categorical(x, 4, s), x.dtype)
            + tf.random.stateless_uniform([P, 1], s)
        )
    )(seeds()),
    "classes_by_the_seed_of_numbers": lambda x: (
        lambda s: tf.cast(
            tf.random.stateless_categorical(x + tf.random.stateless_uniform([P, 1], s), 4, s),
            x.dtype,
        )
    )(seeds()),
    "numbers_by_a_seed_given_in_two_ways": lambda x: (
        lambda s: (
            x * tf.random.stateless_uniform([P, 1], s)
            + tf.raw_ops.StatelessRandomUniform(shape=[P, P], seed=s)[:, :1]
        )
    )(seeds()),
    "classes_of_examples_and_of_places_by_one_seed": lambda x: (
        lambda s: (
            x
            + tf.cast(tf.random.stateless_categorical(x, 4, s), x.dtype)
            + tf.cast(tf.random.stateless_categorical(tf.eye(P, 4), 4, s), x.dtype)
        )
    )(seeds()),
    "categories_by_place": lambda x: x + tf.cast(tf.random.categorical(tf.eye(P), 1), x.dtype),
}


@pytest.mark.parametrize("name", NOT_DRAWN_ALIKE)
def test_random_numbers_that_tell_the_places_apart_are_refused(name):
    width = P if name == "of_two_axes" else 4
    verdict = verdict_on(NOT_DRAWN_ALIKE[name], [spec(width)])
    assert isinstance(verdict, Mixed), verdict


def test_a_number_drawn_for_all_examples_is_free():
    assert verdict_on(lambda x: x * tf.random.uniform([])) == FIRST
    assert verdict_on(lambda x: x * tf.random.uniform([1, 4])) == FIRST


def test_noise_on_positions_is_drawn_for_steps_and_not_for_examples():
    """Sizes tell nothing: there are as many steps as examples."""
    positions = tf.Variable(tf.ones([P, 4]))
    function = lambda x: x + tf.nn.dropout(positions, 0.5)  # noqa: E731
    assert verdict_on(function, [spec(P, 4)]) == FIRST


# --- rules ---


def test_a_rule_that_says_nothing_of_a_free_input_is_not_believed(monkeypatch):
    """For rules that are written later."""
    product = lambda x: x[:, None] @ constant_of(P, 4, 2)  # noqa: E731
    tiled = lambda x: x[:, None] @ constant_of(1, 4, 2)  # noqa: E731
    monkeypatch.setattr(Node, "beside", lambda self, i, rows: True)
    verdict = verdict_on(product)
    assert isinstance(verdict, Mixed) and "does not say how free input 1" in verdict.why
    assert verdict_on(tiled) == FIRST


def constant_of(*shape):
    return tf.constant(np.arange(np.prod(shape)).reshape(shape), tf.float32)


def test_blocks_may_differ_and_so_may_the_entries_of_an_example():
    for weights in ([0.0] * P + [1.0] * P, [1.0, 2.0] * P):
        both = lambda x, w=weights: tf.concat([x, x], 0) * tf.constant(w)[:, None]  # noqa: E731
        each = lambda x, w=weights: tf.repeat(x, 2, axis=0) * tf.constant(w)[:, None]  # noqa: E731
        in_blocks = weights[0] == weights[1]
        assert (verdict_on(both) == Rows(0, 1, 2)) == in_blocks
        assert (verdict_on(each) == Rows(0, 2)) == (not in_blocks)


def test_a_loss_that_weighs_places_is_not_proved():
    def loss(y, predictions):
        values = keras.losses.mean_squared_error(y, predictions)
        return values * tf.linspace(0.0, 1.0, 4)

    x, y = tf.TensorSpec([4, 4]), tf.TensorSpec([4, 3])
    assert not prove_training(around(lambda x: x), loss, x, y).holds


# --- what tells one physical batch from another ---


def counted(x):
    return x * counter.assign_add(1.0)


def shuffled_columns(x):
    return tf.transpose(tf.random.shuffle(tf.transpose(x)))


def first_of_two(x):
    """One number of a draw for each example, and another draw's for all."""
    return x * tf.random.uniform([P, 1]) + tf.random.normal([4])


BATCH_WIDE = {
    "one_number": (lambda x: x * tf.random.uniform([]), "RandomUniform"),
    "one_row": (first_of_two, "RandomStandardNormal"),
    "one_seed": (
        lambda x: x * tf.random.stateless_uniform([], seeds()),
        "StatelessRandomUniformV2",
    ),
    "a_condition": (
        lambda x: tf.cond(tf.random.uniform([]) < 0.5, lambda: x, lambda: -x),
        "RandomUniform",
    ),
    "how_many_turns": (
        lambda x: tf.while_loop(
            lambda y: tf.random.uniform([]) < 0.5, lambda y: [y / 2], [x], maximum_iterations=5
        )[0],
        "RandomUniform",
    ),
    "what_a_condition_gives": (
        lambda x: x * tf.cond(tf.random.uniform([]) < 0.5, lambda: 2.0, lambda: 3.0),
        "RandomUniform",
    ),
    "one_order": (shuffled_columns, "RandomShuffle"),
    "a_counter": (counted, "AssignAddVariableOp"),
}


@pytest.mark.parametrize("name", BATCH_WIDE)
def test_what_is_drawn_or_changed_once_for_a_physical_batch_is_noted(name):
    function, op_type = BATCH_WIDE[name]
    assert walked(function) == (FIRST, {op_type})


def test_a_generator_whose_state_is_set_draws_no_secret_numbers():
    def function(x):
        generator.reset_from_seed(5)
        return x * generator.uniform([P, 1])

    (fault,) = verdicts_of(traced(function, X))[1]
    assert "may set the state of a generator" in fault.why


def test_public_numbers_are_the_same_for_each_physical_batch():
    assert walked(lambda x: x * tf.random.stateless_uniform([], [1, 2])) == (FIRST, set())
