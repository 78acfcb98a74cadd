"""Nobody can compute what a step draws, whatever it draws from: not from files, nor from seeds."""

import threading

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import layers, make_private
from tfdpnorm.keras_compat.functions import NoGraph
from tfdpnorm.training.checks import secret_draws
from tfdpnorm.training.step.layer_draws import LayerDraws


class Jitter:
    """Not a layer: an object of a user's that holds a generator."""

    def __init__(self, seed=7):
        self.generators = [tf.random.Generator.from_seed(seed)]

    def __call__(self, x, training=True):
        return x * (1.0 + self.generators[0].normal(tf.shape(x)))


class Holds(keras.layers.Layer):
    """Draws by another's means: an object, a list, or the global generator."""

    def __init__(self, draw, **kwargs):
        super().__init__(**kwargs)
        self.draw = draw

    def call(self, x):
        return self.draw(x)


def by_the_global_generator(x):
    return x + tf.random.get_global_generator().normal(tf.shape(x))


def by_a_closure(own):
    return lambda x: own(x)


def in_a_loop(generator):
    def draw(x):
        rows = tf.map_fn(lambda row: row + generator.normal(tf.shape(row)), x)
        return tf.ensure_shape(rows, x.shape)

    return draw


DRAWS = {
    "object": Jitter,
    "global": lambda: by_the_global_generator,
    "closure": lambda: by_a_closure(Jitter()),
    "loop": lambda: in_a_loop(tf.random.Generator.from_seed(7)),
}


def numbers(draws, model, update=0, eagerly=False):
    """[4, 50]: what the model gives in an update."""

    def step(update):
        with draws.of_update(update):
            return model(tf.ones([4, 50]), training=True)

    step = step if eagerly else tf.function(step)
    return np.array(step(tf.constant(update, tf.int64)))


@pytest.mark.parametrize("eagerly", [False, True], ids=["traced", "eager"])
@pytest.mark.parametrize("name", DRAWS)
def test_a_generator_that_no_layer_holds(name, eagerly):
    found = []
    for key in (b"one", b"one", b"other"):
        tf.random.set_global_generator(tf.random.Generator.from_seed(1))
        model = Holds(DRAWS[name]())
        draws = LayerDraws(model, (), key)
        found += [numbers(draws, model, update, eagerly) for update in (0, 1, 0)]
    np.testing.assert_array_equal(found[:3], found[3:6])  # the same key
    np.testing.assert_array_equal(found[0], found[2])  # the same update
    different = [found[0], found[1], found[6], found[7]]
    assert len({x.tobytes() for x in different}) == 4
    assert len({row.tobytes() for x in different for row in x}) == 16


def test_a_generator_that_is_met_in_a_function_is_set_at_each_step():
    generator = tf.random.Generator.from_seed(7)
    model = Holds(tf.function(lambda x: x + generator.normal(tf.shape(x))))
    draws = LayerDraws(model, (), b"key")

    @tf.function
    def step(update):
        with draws.of_update(update):
            return model(tf.ones([4, 50])), model(tf.ones([4, 50]))

    first, second = step(tf.constant(0, tf.int64))
    assert np.not_equal(first, second).any()
    step(tf.constant(1, tf.int64))
    np.testing.assert_array_equal(step(tf.constant(0, tf.int64)), (first, second))


def test_a_step_leaves_the_states_of_generators_as_they_were():
    """They are saved with the weights: the key of the run in them would tell all numbers."""
    layer = layers.VariationalDropoutDense(8, noise="fixed", initial_log_alpha=3.0)
    private = private_model(layer, "book_keeping", jit_compile=False)
    before = layer._generator.state.numpy()
    private.fit(np.ones([40, 6], "float32"), np.arange(40) % 2, verbose=0)
    np.testing.assert_array_equal(layer._generator.state, before)


class Draws(keras.layers.Layer):
    """Draws by TensorFlow's counters."""

    def __init__(self, seeds):
        super().__init__()
        self.seeds = seeds

    def call(self, x):
        return tf.concat([tf.random.normal([2, 50], seed=seed) for seed in self.seeds], 0)


def test_seeds_of_operations_are_long():
    """31 bits of a seed can be tried out: one update tells which it was."""
    model = Draws((None, None))
    draws, graphs = LayerDraws(model, ()), []

    @tf.function
    def step():
        with draws.of_update(tf.constant(0, tf.int64)):
            graphs.append(tf.compat.v1.get_default_graph())
            return model(tf.ones([1, 1]))

    step()
    ops = [op for op in graphs[0].get_operations() if op.type == "RandomStandardNormal"]
    seeds = [op.get_attr(name) for op in ops for name in ("seed", "seed2")]
    assert len(set(seeds)) == 4
    assert min(seeds) > 2**40


@pytest.mark.parametrize("eagerly", [False, True], ids=["traced", "eager"])
def test_no_seed_of_a_user_says_what_is_drawn(eagerly):
    found = []
    for _ in range(2):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.layers.Dropout(0.5, seed=3), Holds(Draws((None, 4)))])
        found.append(numbers(LayerDraws(model, (), by_rows=True), model, eagerly=eagerly))
    assert (found[0] != found[1]).any()
    assert len({row.tobytes() for x in found for row in x}) == 8


def test_the_same_seed_draws_the_same():
    """An image and its mask may be flipped alike so; in eager steps TensorFlow does not do that."""
    model = Draws((3, 3))
    first = numbers(LayerDraws(model, ()), model)
    np.testing.assert_array_equal(first[:2], first[2:])


def test_a_known_seed_repeats_itself():
    found = []
    for _ in range(2):
        model = Draws((3, None))
        draws = LayerDraws(model, (), insecure_seed=5)
        found.append([numbers(draws, model) for _ in range(2)])
    np.testing.assert_array_equal(*found)
    assert (found[0][0] != found[0][1]).any()


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: x + tf.random.normal(tf.shape(x)),
        by_a_closure(Jitter()),
        keras.layers.Dropout(0.5),
    ],
    ids=["counter", "generator", "dropout"],
)
def test_a_function_that_was_traced_before_is_refused(draw):
    function = tf.function(lambda x: draw(x, training=True) if hasattr(draw, "rate") else draw(x))
    function(tf.ones([4, 50]))  # somebody looked at it
    model = Holds(function)
    with pytest.raises(ValueError, match="step makes secret, got .* Take the decorator tf.funct"):
        numbers(LayerDraws(model, ()), model)


def private_model(layer, engine, jit_compile=True):
    private = make_private(
        keras.Sequential([keras.Input((6,)), layer, keras.layers.Dense(2)]),
        num_examples=40,
        expected_batch_size=10,
        steps=3,
        l2_norm_clip=1.0,
        noise_multiplier=2.0,
        delta=1e-5,
        engine=engine,
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    private.compile("sgd", loss, jit_compile=jit_compile)
    return private


@pytest.mark.parametrize(
    ("layer", "engine"),
    [
        (lambda: keras.layers.Lambda(lambda x: x + tf.random.normal(tf.shape(x))), "book_keeping"),
        (lambda: keras.layers.Dropout(0.5), "per_example"),
    ],
    ids=["users", "dropout"],
)
def test_xla_does_not_look_at_seeds(layer, engine):
    """It draws the same numbers in every process."""
    private = private_model(layer(), engine)
    with pytest.raises(ValueError, match="draws the same in every process with jit_compile=True"):
        private.fit(np.ones([40, 6], "float32"), np.arange(40) % 2, verbose=0)
    assert private.ledger.updates == 0


def test_a_function_that_xla_compiles_within_a_step_does_not_either():
    model = Holds(tf.function(lambda x: x + tf.random.normal([4, 50]), jit_compile=True))
    with pytest.raises(ValueError, match="draws the same in every process with jit_compile=True"):
        numbers(LayerDraws(model, ()), model)


def test_generators_draw_by_the_key_under_xla():
    found = []
    for key in (b"one", b"one", b"other"):
        model = keras.Sequential([keras.layers.Dropout(0.5), Holds(Jitter())])
        draws = LayerDraws(model, (), key)

        @tf.function(jit_compile=True)
        def step(draws=draws, model=model):
            with draws.of_update(tf.constant(0, tf.int64), by_xla=True):
                return model(tf.ones([4, 50]), training=True)

        found.append(step())
    np.testing.assert_array_equal(found[0], found[1])
    assert len({row.numpy().tobytes() for x in found[1:] for row in x}) == 8


def test_generators_are_compiled():
    private = private_model(keras.layers.Dropout(0.5), "book_keeping")
    private.fit(np.ones([40, 6], "float32"), np.arange(40) % 2, verbose=0)
    assert private.ledger.updates == 3


def test_a_seed_by_hand_is_refused():
    model = Holds(lambda x: x + tf.raw_ops.RandomStandardNormal(shape=[50], dtype=tf.float32))
    with pytest.raises(ValueError, match="makes secret, got .*RandomStandardNormal"):
        numbers(LayerDraws(model, ()), model)


def test_other_algorithms_are_refused():
    generator = tf.random.Generator.from_seed(1, alg="threefry")
    model = Holds(lambda x: x + generator.normal(tf.shape(x)))
    with pytest.raises(ValueError, match="to work by Philox, got 2"):
        numbers(LayerDraws(model, ()), model)


def test_other_threads_draw_as_before():
    """What prepares data, for instance: its numbers are not the run's, nor do they count."""
    jitter, other = Jitter(), []

    def elsewhere():
        tf.random.set_seed(1)
        other.append((jitter(tf.ones([3])).numpy(), tf.random.normal([3]).numpy()))

    thread = threading.Thread(target=elsewhere)
    with LayerDraws(Holds(jitter), ()).of_update(tf.constant(0, tf.int64)):
        thread.start()
        thread.join()
    elsewhere_again = threading.Thread(target=elsewhere)
    jitter.generators = Jitter().generators
    elsewhere_again.start()
    elsewhere_again.join()
    np.testing.assert_array_equal(*other)


def test_functions_that_nobody_can_look_into_are_refused(monkeypatch):
    def unknown(operations):
        raise NoGraph("the graph of function 'f' is not known")

    monkeypatch.setattr(secret_draws, "leaf_operations", unknown)
    with pytest.raises(ValueError, match="Expected functions .* the graph of function 'f' is not"):
        numbers(LayerDraws(Holds(Jitter()), ()), Holds(Jitter()))


def test_afterwards_all_draw_as_before():
    jitter = Jitter()
    model = Holds(jitter)
    numbers(LayerDraws(model, ()), model)
    np.testing.assert_array_equal(jitter(tf.ones([4, 50])), Jitter()(tf.ones([4, 50])))
    found = []
    for _ in range(2):
        tf.random.set_seed(1)
        found.append(tf.random.normal([5]))
    np.testing.assert_array_equal(*found)
