"""Layers whose gradients come from the operations of their call, against a loop over examples."""

import warnings

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.gradients.invariants import head
from tests.gradients.looped_reference import (
    assert_graph_equals_the_loop,
    double_precision,
    example_rows,
    looped_sum,
    loss_function,
    relative_error,
)
from tfdpnorm.gradients import OuterSum, book_keeping
from tfdpnorm.gradients.contributions.row_sums import sums_on_cpu
from tfdpnorm.gradients.rules.embedding import LookupSum, TiedSum
from tfdpnorm.independence import prove_training
from tfdpnorm.keras_compat.devices_and_precision import made_under
from tfdpnorm.keras_compat.variables import raw

layers = keras.layers
ROWS, WORDS, WIDTH = 4, 4, 3


@pytest.fixture(autouse=True)
def no_gradient_per_row():
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "There is no gradient rule")
        yield


class Calculated(layers.Layer):
    """A layer of weights of given shapes and a function of its input and of them."""

    def __init__(self, function, *shapes):
        super().__init__()
        self._function, self._shapes = function, shapes

    def build(self, shape):
        self.own = [
            self.add_weight(name=f"w{i}", shape=each, initializer="random_normal")
            for i, each in enumerate(self._shapes)
        ]
        super().build(shape)

    def call(self, x):
        return self._function(x, *map(tf.convert_to_tensor, self.own))


def copies(c, x):
    return tf.broadcast_to(c, [tf.shape(x)[0], *c.shape[1:]])


JOINED = {
    "scale and shift": (lambda x, g, b: x * (1 + g) + b, (WIDTH,), (WIDTH,)),
    "shared over positions": (lambda x, a: tf.nn.relu(x) - a * tf.nn.relu(-x), (1, WIDTH)),
    "quotients": (lambda x, w, v: w / (2.0 + x * x) + x / tf.exp(v), (WIDTH,), ()),
    "by positions": (lambda x, p: x + p[:WORDS], (WORDS + 2, WIDTH)),
    "a class token": (lambda x, c: tf.concat([copies(c, x), x], 1), (1, 1, WIDTH)),
    "a token for what is masked": (lambda x, m: tf.where(x > 1, m, x), (WIDTH,)),
    "mixed positions": (lambda x, w: tf.matmul(w, x), (5, WORDS)),
    "transposed": (lambda x, w: tf.matmul(x, w, transpose_b=True), (5, WIDTH)),
    "folded positions": (lambda x, w: tf.tensordot(x, w, 1), (WIDTH, 5)),
    "folded positions, given as heads": (
        lambda x, w: tf.reshape(tf.reshape(x, [-1, WIDTH]) @ w, [tf.shape(x)[0], WORDS, 2, 2]),
        (WIDTH, 4),
    ),
    "two positions at once": (
        lambda x, w: tf.reshape(tf.reshape(x, [-1, 2 * WIDTH]) @ w, [tf.shape(x)[0], 10]),
        (2 * WIDTH, 5),
    ),
    "a part without any gradient": (lambda x, w: x * (w + tf.round(w)), (WIDTH,)),
    "einsum": (lambda x, w: tf.einsum("btd,dhp->bthp", x, w), (WIDTH, 2, 2)),
    "a low rank": (
        lambda x, w, a, b: tf.tensordot(x, w + 0.5 * (a @ b), 1),
        (3, 5),
        (3, 2),
        (2, 5),
    ),
    "a normalised kernel": (lambda x, w: tf.matmul(x, w / tf.norm(w, axis=0)), (WIDTH, 5)),
    "one kernel twice": (lambda x, w: tf.matmul(tf.tanh(tf.matmul(x, w)), w), (WIDTH, WIDTH)),
    "sums of weights": (lambda x, w, v: x * (w - tf.reduce_sum(v)), (WIDTH,), (2, 2)),
    "part without a gradient": (lambda x, w: x * w + tf.stop_gradient(w), (WIDTH,)),
}


PRELUS = [
    layers.PReLU(alpha_initializer="glorot_normal"),
    layers.PReLU(alpha_initializer="ones", shared_axes=[1]),
    layers.PReLU(alpha_initializer="ones", shared_axes=[2]),
]


def test_prelu_equals_the_loop():
    inputs = keras.Input((WORDS, WIDTH))
    parts = [prelu(layers.Dense(WIDTH)(inputs)) for prelu in PRELUS]
    assert_graph_equals_the_loop(keras.Model(inputs, head(layers.Concatenate()(parts))), ROWS)


def test_half_precision_never_exceeds_the_clip():
    function, *shapes = JOINED["a low rank"]

    def in_half(x, *weights):
        return function(x, *(tf.cast(w, x.dtype) for w in weights))

    with made_under("mixed_bfloat16"):
        inputs = keras.Input((WORDS, WIDTH))
        model = keras.Model(inputs, head(Calculated(in_half, *shapes)(inputs)))
    loss_fn, variables = loss_function(model), model.trainable_variables
    clipped = tf.function(lambda *rows: book_keeping(model, loss_fn, rows, variables, 1e-3))
    found = clipped(*example_rows(model, 1)).gradients
    assert np.sqrt(sum(np.sum(np.square(g)) for g in found)) <= 1e-3 * (1 + 1e-6)


@each("name", JOINED)
def test_equals_the_loop(name):
    function, *shapes = JOINED[name]
    with double_precision():
        inputs = keras.Input((WORDS, WIDTH), batch_size=ROWS)
        x = Calculated(function, *shapes)(layers.Dense(WIDTH)(inputs))
        assert_graph_equals_the_loop(keras.Model(inputs, head(x)), ROWS)


@tf.custom_gradient
def steeper(w):
    return w * 2.0, lambda upstream: 5.0 * upstream


NOT_JOINED = {
    "a choice between weights": (
        lambda x, w, v: x + tf.where(x > 1, w, v),
        (WIDTH,),
        (1, 1, WIDTH),
    ),
    "a loop": (
        lambda x, w: x * tf.while_loop(lambda v: v[0] < 1, lambda v: [v + 1.0], [w])[0],
        (WIDTH,),
    ),
    "a gradient of one's own": (lambda x, w: x * steeper(w), (WIDTH,)),
    "a lookup of columns": (
        lambda x, w: (
            tf.transpose(tf.gather(w, tf.cast(x[..., 0] > 1, tf.int32), axis=1), [1, 2, 0])
            + x[..., :1]
        ),
        (ROWS, 2),
    ),
}


def test_a_number_of_rows_that_is_known_at_run_time_only():
    function, *shapes = JOINED["a class token"]
    inputs = keras.Input((WORDS, WIDTH))
    model = keras.Model(inputs, head(Calculated(function, *shapes)(inputs)))
    loss_fn, variables = loss_function(model), model.trainable_variables
    rows = example_rows(model, 3)
    specs = [tf.TensorSpec([None, *t.shape[1:]], t.dtype) for t in rows]

    @tf.function(input_signature=specs, autograph=False)
    def clipped(*rows):
        return book_keeping(model, loss_fn, rows, variables, 0.5).gradients

    found = [g.numpy() for g in clipped(*rows)]
    assert relative_error(found, looped_sum(loss_fn, rows, variables, 0.5)) < 1e-5


@each("name", NOT_JOINED)
def test_other_operations_take_a_gradient_per_row(name):
    function, *shapes = NOT_JOINED[name]
    with double_precision():
        inputs = keras.Input((WORDS, WIDTH), batch_size=ROWS)
        x = Calculated(function, *shapes)(layers.Dense(WIDTH)(inputs))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert_graph_equals_the_loop(keras.Model(inputs, head(x)), ROWS)
    assert any("no gradient rule" in str(w.message) for w in caught)


def test_weights_that_are_returned_are_rejected():
    """Whatever reads them is not known here."""
    inputs = keras.Input((WORDS, WIDTH), batch_size=ROWS)
    x, weight = Calculated(lambda x, w: (x * w, w + 1.0), (WIDTH,))(inputs)
    x = layers.Lambda(lambda both: both[0] * both[1])([x, weight])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="for 4 examples: it reads no example"):
            assert_graph_equals_the_loop(keras.Model(inputs, head(x)), ROWS)


class Tied(layers.Layer):
    """Vectors of ids, and the logits of ids by products with the same table."""

    def build(self, shape):
        self.table = self.add_weight(name="table", shape=(9, WIDTH), initializer="random_normal")
        super().build(shape)

    def call(self, x, reverse=False):
        table = raw(self.table)  # which is read at the ids alone
        return tf.matmul(x, table, transpose_b=True) if reverse else tf.gather(table, x)


@each("calls", [1, 2])
def test_a_table_that_is_looked_up_and_multiplied_by(calls):
    with double_precision():
        inputs, tied = keras.Input((WORDS,), dtype="int32"), Tied()
        x = layers.Add()([tied(inputs) for _ in range(calls)])
        x = tied(layers.Dense(WIDTH, "tanh")(x), reverse=True)
        assert_graph_equals_the_loop(keras.Model(inputs, head(x)), ROWS)


class FixedPlaces(Tied):
    """Adds what its table has at places that are the same for all examples."""

    def call(self, x):
        return x + tf.reduce_sum(tf.gather(raw(self.table), [0, 2]), 0)


def test_a_fixed_lookup_in_a_variable_takes_a_gradient_per_row():
    inputs = keras.Input((WORDS, WIDTH), batch_size=ROWS)
    with pytest.warns(UserWarning, match="no gradient rule for FixedPlaces"):
        assert_graph_equals_the_loop(keras.Model(inputs, head(FixedPlaces()(inputs))), ROWS)


def test_the_sum_of_a_tied_table_is_in_float64():
    """The norms of its two parts are not bounded by C, as rounding in float32 would demand."""
    a, b, c = (tf.constant(x, shape=(2, 1, 1)) for x in ([1.0, 1.0], [1e8, 1.0], [-1e8, 5.0]))
    ids = tf.constant([[0], [1]])  # the second is outside of the table, and adds nothing
    lookup = LookupSum(ids, c, tf.TensorShape((1, 1)))
    tied = lookup.merged(OuterSum(a, b, (1, 1)))
    assert isinstance(tied, TiedSum)
    found = tied.weighted_sum(tf.ones([2]), tf.fill([2], True), sums_on_cpu(2)[0])
    assert found.numpy() == 1.0  # 1e8 + 1 is 1e8 in float32


STEPS = {
    "product": lambda x, w: tf.matmul(x, w),
    "from the left": lambda x, w: tf.matmul(tf.tile(w[:, :1], [1, WORDS]), x),
    "scale": lambda x, w: x * w[0],
    "shift": lambda x, w: x + w[:1],
    "less": lambda x, w: tf.reduce_mean(w) - x,
    "quotient": lambda x, w: x / (2.0 + tf.square(w[1])),
    "greater": lambda x, w: tf.maximum(x, w[2]),
    "chosen": lambda x, w: tf.where(x > 0, x, w[0]),
    "squashed": lambda x, w: tf.tanh(x),
}
OF_WEIGHTS = [
    lambda w, v: w @ v,
    lambda w, v: tf.transpose(w),
    lambda w, v: tf.tanh(w) + v,
    lambda w, v: 2.0 * w,
    lambda w, v: w * tf.nn.sigmoid(v),
    lambda w, v: tf.reshape(tf.reshape(w, [-1])[::-1], w.shape),
]


def random_function(seed):
    rng = np.random.default_rng(seed)
    steps, pairs = rng.choice(list(STEPS), size=4), rng.integers(2, size=(4, 2))
    changes = [OF_WEIGHTS[i] for i in rng.choice(len(OF_WEIGHTS), size=4)]

    def function(x, *weights):
        for step, change, (i, k) in zip(steps, changes, pairs, strict=True):
            x = STEPS[step](x, change(weights[i], weights[k]))
        return x

    return function


@each("seed", range(8))
def test_random_calculations_equal_the_loop(seed):
    with double_precision():
        inputs = keras.Input((WORDS, WIDTH), batch_size=ROWS)
        layer = Calculated(random_function(seed), (WIDTH, WIDTH), (WIDTH, WIDTH))
        assert_graph_equals_the_loop(keras.Model(inputs, head(layer(inputs))), ROWS)


def test_examples_that_a_new_shape_mixes_are_left_to_a_run_on_each():
    def mixed(x, w):
        return tf.reshape(tf.reshape(x, [-1, 8]) @ w, [ROWS, 3])

    inputs = keras.Input((WORDS, WIDTH), batch_size=ROWS)
    model = keras.Model(inputs, head(Calculated(mixed, (8, 2))(inputs)))
    specs = tf.TensorSpec([ROWS, WORDS, WIDTH]), tf.TensorSpec([ROWS, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="per_example"):
            prove_training(model, "mse", *specs)


def test_numbers_of_other_examples_are_not_verified():
    """The joins say which rows they read; the proof asks it of each."""
    inputs = keras.Input((WORDS, WIDTH), batch_size=ROWS)
    layer = Calculated(lambda x, w: tf.reverse(x, [0]) * w, (WIDTH,))
    model = keras.Model(inputs, head(layer(inputs)))
    specs = tf.TensorSpec([ROWS, WORDS, WIDTH]), tf.TensorSpec([ROWS, 2])
    assert not prove_training(model, "mse", *specs).holds
