"""What depends on an example's position and on random numbers is proved; examples stay apart."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.independence.verification.cases_of_values import FIRST
from tests.independence.verification.coupled_models import around
from tests.independence.verification.perturbation import P, spec, traced, verdicts_of
from tfdpnorm.gradients import Clipping, book_keeping
from tfdpnorm.independence.book_keeping import prove_training
from tfdpnorm.independence.outputs import prove_state
from tfdpnorm.independence.verification.verdicts import Mixed

X = [spec(4)]
layers = keras.layers


def verdict_on(function, specs=X, examples=P):
    return verdicts_of(traced(function, specs), examples)[0][0]


# --- models that depend on the position ---

ROWS, WIDTH, CLIP = 4, 4, 0.5


class EmbeddedPositions(layers.Layer):
    """Adds a vector for each position in the batch, which is trained or not."""

    def __init__(self, trained):
        super().__init__()
        self.table = layers.Embedding(ROWS, WIDTH, trainable=trained)

    def call(self, x):
        return x + self.table(tf.range(tf.shape(x)[0]))


def position_mask(x):
    return x * (1.0 - tf.one_hot(1, ROWS)[:, None])


MODELS = {
    "scaled": lambda: around(lambda x: x * tf.range(1.0, ROWS + 1)[:, None]),
    "masked": lambda: around(position_mask),
    "embedded": lambda: keras.Sequential(
        [keras.Input((WIDTH,)), EmbeddedPositions(False), layers.Dense(3)]
    ),
    "trained": lambda: keras.Sequential(
        [keras.Input((WIDTH,)), EmbeddedPositions(True), layers.Dense(3)]
    ),
    "flat_places": lambda: around(
        lambda x: tf.gather(
            tf.reshape(x, [-1]), tf.range(ROWS)[:, None] * WIDTH + tf.argsort(x, 1) % WIDTH
        )
    ),
}


def clipped_sum(model, x, y, mask):
    def loss_fn(x, y, weight):
        predictions = model(x, training=True)
        return tf.reduce_sum(tf.square(predictions - y), 1) * weight, predictions

    rows = tuple(map(tf.constant, (x, y, mask, mask)))
    found = book_keeping(model, loss_fn, rows, model.trainable_variables, Clipping(CLIP))
    return np.concatenate([np.reshape(g, -1) for g in found.gradients])


@each("name", MODELS)
def test_a_model_of_positions_is_verified_and_its_sum_clipped(name):
    """Where one example is taken away, and the others stay at their positions."""
    model = MODELS[name]()
    proof = prove_training(model, "mse", tf.TensorSpec([ROWS, WIDTH]), tf.TensorSpec([ROWS, 3]))
    assert proof.holds, proof.obstacle
    rng = np.random.default_rng(0)
    x = 9 * rng.normal(size=(ROWS, WIDTH)).astype("float32")
    y, everyone = rng.normal(size=(ROWS, 3)).astype("float32"), np.ones(ROWS, "float32")
    whole, moved = clipped_sum(model, x, y, everyone), []
    for gone in range(ROWS):
        kept = (np.arange(ROWS) != gone).astype("float32")
        without = clipped_sum(model, x * kept[:, None], y * kept[:, None], kept)
        moved.append(np.linalg.norm(whole - without))
    assert max(moved) <= CLIP * (1 + 1e-5)
    assert max(moved) > CLIP / 2  # the clip is what bounds it
    # The sum is not the same with the examples elsewhere: the position matters.
    elsewhere = clipped_sum(model, x[::-1].copy(), y[::-1].copy(), everyone)
    assert name == "flat_places" or not np.allclose(whole, elsewhere, rtol=1e-3)


@pytest.mark.parametrize(
    "other",
    [
        lambda x: tf.gather(x, tf.range(ROWS) - 1 + tf.one_hot(0, ROWS, dtype=tf.int32)),
        lambda x: tf.roll(x, 1, 0),
        lambda x: x[::-1],
        lambda x: x - x[:1],
        lambda x: x + tf.cumsum(x),
        lambda x: x * tf.reduce_sum(position_mask(x)),
    ],
    ids=["one_before", "rolled", "reversed", "first", "summed", "of_a_mask"],
)
def test_choosing_another_example_by_position_is_not_verified(other):
    spec = tf.TensorSpec([ROWS, WIDTH]), tf.TensorSpec([ROWS, 3])
    assert not prove_training(around(other), "mse", *spec).holds


def test_a_loss_that_weighs_positions_is_verified():
    def loss(y, predictions):
        values = keras.losses.MSE(y, predictions)
        return values * tf.linspace(0.0, 1.0, ROWS)

    x, y = tf.TensorSpec([ROWS, WIDTH]), tf.TensorSpec([ROWS, 3])
    assert prove_training(around(lambda x: x), loss, x, y).holds


def test_with_one_row_for_each_batch_there_is_one_position():
    scale, bias = tf.Variable([[2.0, 1.0, 3.0, 4.0]]), tf.Variable([1.0])
    function = lambda x: tf.concat([x * scale + bias[:, None], scale], 1)  # noqa: E731
    assert verdict_on(function, [tf.TensorSpec([1, 4])], 1) == FIRST


def test_diagonals_that_examples_choose_are_chosen_for_all():
    def function(i):
        return tf.raw_ops.MatrixSetDiagV3(
            input=tf.zeros([2, 4, 4]), diagonal=tf.ones([2, 2, 4]), k=i
        )

    assert isinstance(verdict_on(function, [tf.TensorSpec([2], tf.int32)], 2), Mixed)


# --- rows that a model has of its own ---

TOKEN = tf.Variable(tf.reshape(tf.range(8.0), [1, 2, 4]))
WEIGHTS = tf.Variable(tf.reshape(tf.range(16.0), [4, 4]))
OWN_ROWS = {
    "tiled": lambda n: tf.tile(TOKEN, [n, 1, 1]),
    "broadcast": lambda n: tf.broadcast_to(TOKEN, [n, 2, 4]),
    "plus_zeros": lambda n: tf.fill([n, 2, 1], 0.0) + TOKEN,
    "looked_up_by_a_range": lambda n: tf.nn.embedding_lookup(
        WEIGHTS, tf.tile(tf.range(2)[None], [n, 1])
    ),
    "projected": lambda n: tf.tensordot(tf.tile(TOKEN, [n, 1, 1]), WEIGHTS, 1),
    "in_a_loop": lambda n: tf.while_loop(
        lambda i, y: i < 3, lambda i, y: (i + 1, y @ WEIGHTS), [0, tf.tile(TOKEN, [n, 1, 1])]
    )[1],
}


@each("name", OWN_ROWS)
def test_learned_rows_that_each_example_gets_alike_are_verified(name):
    """Class tokens and learned queries: joined before the rows, and attended to by them."""

    def function(x):
        own = OWN_ROWS[name](tf.shape(x)[0])
        x = tf.concat([own, x], 1)
        return tf.nn.softmax(tf.einsum("btd,bsd->bts", own, x)) @ x

    assert verdict_on(function, [spec(5, 4)]) == FIRST


# --- random numbers ---

generator = tf.random.Generator.from_seed(1)
SEED = tf.Variable([1, 2])
counter = tf.Variable(0.0)


def seeds():
    return generator.make_seeds()[:, 0]


def with_its_first(z):
    return z - z[:1]


DRAWN = {
    "uniform": lambda x: x * tf.random.uniform([P, 4]),
    "integers": lambda x: x + tf.cast(tf.random.uniform([P, 4], 0, 5, tf.int32), x.dtype),
    "gamma": lambda x: x + tf.random.gamma([P], [1.0, 2.0, 3.0, 4.0]),
    "poisson": lambda x: x + tf.random.poisson([P, 4], 2.0),
    "generator": lambda x: x * generator.uniform([P, 4]),
    "seed_from_random_numbers": lambda x: (
        x * tf.random.stateless_normal([P, 1], tf.random.uniform([2], 0, 9999, tf.int32))
    ),
    "dropout": lambda x: tf.nn.dropout(x, 0.5),
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
    "cropped_apart": lambda x: tf.gather(
        x, tf.random.uniform([P], 0, 3, tf.int32)[:, None] + tf.range(2), batch_dims=1
    ),
    "classes": lambda x: x + tf.cast(tf.random.categorical(x, 4), x.dtype),
    "classes_by_a_seed": lambda x: (
        x + tf.cast(tf.random.stateless_categorical(x, 4, seeds()), x.dtype)
    ),
    "a_variable_as_seed": lambda x: x * tf.random.stateless_uniform([P, 1], SEED),
    "in_relation_to_the_first": lambda x: x * with_its_first(tf.random.uniform([P, 1])),
    "shuffled_numbers": lambda x: x + tf.cast(tf.random.shuffle(tf.range(P)), x.dtype)[:, None],
    "numbers_by_the_seed_of_classes": lambda x: (
        lambda s: (
            tf.cast(tf.random.stateless_categorical(x, 4, s), x.dtype)
            + tf.random.stateless_uniform([P, 1], s)
        )
    )(seeds()),
    "how_many_turns": lambda x: tf.while_loop(
        lambda y: tf.random.uniform([]) < 0.5, lambda y: [y / 2], [x], maximum_iterations=5
    )[0],
    "one_order": lambda x: tf.transpose(tf.random.shuffle(tf.transpose(x))),
    "a_counter": lambda x: x * counter.assign_add(1.0),
}


@each("name", DRAWN)
def test_draws_independent_of_examples_are_verified(name):
    verdicts, faults = verdicts_of(traced(DRAWN[name], X))
    assert verdicts[0] == FIRST and not faults


def test_a_generator_may_be_set_to_a_public_state():
    def function(x):
        generator.reset_from_seed(5)
        return x * generator.uniform([P, 1])

    verdicts, faults = verdicts_of(traced(function, X))
    assert verdicts[0] == FIRST and not faults


def drawn_if(condition, draw):
    """The numbers are of no use: what is drawn later are others."""
    return lambda x: x + 0 * tf.cond(condition(x), lambda: draw([]), lambda: 0.0)


def as_many_as(x):
    return tf.cast(tf.reduce_max(tf.abs(x)), tf.int32)


def for_each_large_row(draw):
    """A number for each row that is large, and none for others."""

    def function(x):
        def one(row):
            return tf.cond(row[0] > 1, lambda: draw([]), lambda: 0.0)

        return x + tf.map_fn(one, x)[:, None]

    return function


def until_it_is_large(draw):
    def function(x):
        start = tf.reduce_sum(x)
        return x * tf.while_loop(lambda z: z < 1, lambda z: [z + draw([])], [start])[0]

    return function


def forgotten(function):
    """The numbers reach no output."""
    return lambda x: (tf.identity(x), function(x))[0]


KERNEL, STATE = tf.random.uniform, generator.uniform
DRAWN_BY_EXAMPLES = {
    "if_one_is_large": lambda draw: drawn_if(lambda x: x[0, 0] > 1, draw),
    "for_each_large_row": for_each_large_row,
    "until_it_is_large": until_it_is_large,
    "within_a_branch_of_each_row": lambda draw: (
        lambda x: tf.map_fn(
            lambda row: tf.switch_case(as_many_as(row) % 2, [lambda: 0.0, lambda: draw([])]), x
        )
    ),
    "as_many_as_the_largest": lambda draw: lambda x: tf.reduce_sum(draw([as_many_as(x)])),
    "as_many_as_are_large": lambda draw: lambda x: draw(tf.shape(tf.where(x[:, 0] > 1))[:1]),
    "in_a_function": lambda draw: lambda x: tf.function(draw)(tf.shape(x[x > 1])),
    "within_a_row": lambda draw: (
        lambda x: tf.map_fn(lambda row: tf.reduce_sum(draw(tf.shape(row[row > 1]))), x)
    ),
}


@pytest.mark.parametrize("draw", [KERNEL, STATE], ids=["kernel", "generator"])
@pytest.mark.parametrize("name", DRAWN_BY_EXAMPLES)
def test_numbers_of_which_examples_say_how_many_are_a_fault(name, draw):
    """Used or not: they move what is drawn for the next physical batch."""
    function = forgotten(DRAWN_BY_EXAMPLES[name](draw))
    graph = traced(function, X).graph
    assert prove_state(graph, P).state_faults


def test_vectorised_rows_do_not_decide_how_much_is_drawn():
    def one(row):
        return tf.cond(row[0] > 1, lambda: tf.random.uniform([]), lambda: 0.0)

    graph = traced(lambda x: tf.vectorized_map(one, x), X).graph
    assert prove_state(graph, P).state_faults
    sound = traced(lambda x: tf.vectorized_map(lambda row: row * tf.random.uniform([]), x), X).graph
    assert not prove_state(sound, P).state_faults


STATES = {
    "skipped": lambda x: generator.skip(tf.cast(as_many_as(x), tf.int64)),
    "reset": lambda x: generator.state.assign(tf.cast(tf.abs(x[0, :3]), tf.int64)),
}


@each("name", STATES)
def test_a_generator_that_examples_set_is_a_fault(name):
    def function(x):
        STATES[name](x)
        return x * generator.uniform([P, 1])

    assert prove_state(traced(function, X).graph, P).state_faults


@pytest.mark.parametrize(
    "draw",
    [
        lambda row: tf.random.gamma([], tf.exp(row)),
        lambda row: tf.random.shuffle(row),
        lambda row: tf.random.categorical(row[None], 3),
        lambda row: row * tf.random.uniform(tf.shape(row)),
    ],
    ids=["gamma", "shuffle", "classes", "uniform"],
)
def test_rows_that_run_one_by_one_may_draw_as_many_numbers_each(draw):
    """What is drawn depends on the row, how much does not."""
    graph = traced(
        lambda x: tf.map_fn(lambda row: tf.reduce_sum(tf.cast(draw(row), "float32")), x), X
    )
    assert not prove_state(graph.graph, P).state_faults
