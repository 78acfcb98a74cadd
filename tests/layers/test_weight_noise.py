"""WeightNoise: layers that draw their weights at every call."""

import functools
import re

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.layers.noisy_layers import (
    CASES,
    SEED,
    STDDEV,
    Drawn,
    both,
    case,
    fresh_draws,
    gradients_of,
    normal,
    trainable,
)
from tfdpnorm.keras_compat.variables import KERAS_3
from tfdpnorm.layers import WeightNoise

QUICK = [*([] if KERAS_3 else ["branching"]), "conv2d", "dense", "embedding"]
SLOW = sorted(set(CASES) - {*QUICK, "branching"})


@pytest.mark.parametrize(
    "names", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)], ids=["quick", "slow"]
)
def test_it_is_the_plain_layer_with_drawn_weights_in_a_graph(names, rng):
    for name in names:
        check_against_plain_layer(name, rng)


def check_against_plain_layer(name, rng):
    run = tf.function(gradients_of)
    make, inputs = case(name, rng)
    wrapper, plain = both(make, inputs)
    means = [w.numpy() for w in trainable(plain)]
    for calls in (1, 2):
        outputs, gradients = run(wrapper, inputs, trainable(wrapper))
        for variable, mean in zip(trainable(plain), means, strict=True):
            variable.assign(mean)
        for variable, drawn in zip(
            trainable(plain), fresh_draws(trainable(plain), calls=calls), strict=True
        ):
            variable.assign(drawn)
        expected, expected_gradients = run(plain, inputs, trainable(plain))
        np.testing.assert_array_equal(outputs, expected, name)
        assert len(gradients) == len(means) > 0
        for got, wanted in zip(gradients, expected_gradients, strict=True):
            np.testing.assert_array_equal(got, wanted, name)
    for variable, mean in zip(trainable(wrapper), means, strict=True):
        np.testing.assert_array_equal(variable, mean)


@each("name", QUICK)
def test_without_noise_it_is_the_plain_layer(name, rng, monkeypatch):
    monkeypatch.setattr(tf.random, "Generator", None)
    make, inputs = case(name, rng)
    wrapper = WeightNoise(make(), 0.0)
    wrapper(inputs)
    plain = make()
    plain(inputs)
    plain.set_weights(wrapper.get_weights())
    np.testing.assert_array_equal(wrapper(inputs), plain(inputs))
    graph = tf.function(wrapper).get_concrete_function(inputs).graph.as_graph_def()
    # In the text of the graph, the functions that it calls included.
    operations = re.findall(r'op: "(\w+)"', str(graph))
    assert operations and not [x for x in operations if "Rng" in x or "Random" in x]


@pytest.mark.parametrize("by_keyword", [False, True], ids=["positional", "keyword"])
def test_attention_to_another_sequence(by_keyword, rng):
    query, value = normal(rng, 2, 3, 6), normal(rng, 2, 4, 6)
    allowed = tf.constant(rng.integers(0, 2, (2, 3, 4)), bool)
    wrapper = WeightNoise(keras.layers.MultiHeadAttention(2, 3), STDDEV, seed=SEED)
    if by_keyword:
        outputs = wrapper(query=query, value=value, attention_mask=allowed)
    else:
        outputs = wrapper(query, value, None, *([None] * 3 if KERAS_3 else []), allowed)
    plain = keras.layers.MultiHeadAttention(2, 3)
    plain(query, value)
    plain.set_weights(fresh_draws(wrapper.weights))
    np.testing.assert_array_equal(outputs, plain(query, value, attention_mask=allowed))
    with pytest.raises(TypeError, match=r"\['value'\]"):
        wrapper(query, value, value=value)
    scores = wrapper(query, value, return_attention_scores=True)[1]
    assert scores.shape == (2, 2, 3, 4)


# --- one draw per call, of the right weights ---


def test_all_rows_and_steps_see_one_draw():
    dense = WeightNoise(keras.layers.Dense(3), 1.0)
    outputs = dense(tf.ones([5, 7, 2])).numpy()
    np.testing.assert_array_equal(outputs, np.broadcast_to(outputs[:1, :1], outputs.shape))
    steps = WeightNoise(keras.layers.TimeDistributed(keras.layers.Dense(3)), 1.0)
    outputs = steps(tf.ones([5, 7, 2])).numpy()
    np.testing.assert_array_equal(outputs, np.broadcast_to(outputs[:1, :1], outputs.shape))
    assert np.abs(steps(tf.ones([5, 7, 2])) - outputs).min() > 0


def test_the_distribution_of_the_draws():
    layer = WeightNoise(Drawn(), 0.5, seed=5)

    @tf.function
    def draws():
        return tf.map_fn(lambda _: layer(tf.zeros([1, 1]))[0], tf.zeros([500]))

    layer(tf.zeros([1, 1]))
    drawn = np.asarray(draws(), np.float64)
    standard = (drawn - 1.0) / 0.5
    count = standard.size  # a million: mean within 5 standard errors, and so on
    assert abs(standard.mean()) < 5 / np.sqrt(count)
    assert abs(standard.var() - 1) < 5 * np.sqrt(2 / count)
    assert abs((standard**4).mean() - 3) < 5 * np.sqrt(96 / count)
    # Of each weight over calls, and of each call over weights.
    assert np.abs(standard.mean(0)).max() < 6 / np.sqrt(500)
    assert np.abs(standard.mean((1, 2))).max() < 6 / np.sqrt(2000)
    flat = standard.reshape(500, -1)
    for shift in (1, 2, 4, 8, 50):
        assert abs((flat[shift:] * flat[:-shift]).mean()) < 5 / np.sqrt(count - shift)
        assert abs((flat[:, shift:] * flat[:, :-shift]).mean()) < 5 / np.sqrt(count - shift)
    assert len(np.unique(drawn)) > 0.5 * count  # float32 has no more numbers there


def test_weights_of_one_call_are_used_again_in_it():
    once, twice = WeightNoise(Drawn(), 0.5)(tf.zeros([1, 1]))
    np.testing.assert_array_equal(2 * once, twice)


class Block(keras.layers.Layer):
    """A convolution, a normalisation that keeps statistics, and a count of its calls."""

    def __init__(self, normalization, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(3)
        self.normalization = normalization
        self.calls = self.add_weight(name="calls", shape=(), initializer="zeros", trainable=False)

    def call(self, inputs, training=None):
        self.calls.assign_add(1.0)
        self.add_loss(tf.reduce_mean(inputs))
        return self.normalization(self.dense(inputs), training=training)


def recorded(block):
    """What `block` has for weights during a call: dict from name to array, by a Dense inside."""
    seen = {}

    def call(inputs, training=None):
        seen.update({k: np.asarray(v) for k, v in vars(block.normalization).items() if k in NAMES})
        seen["kernel"] = np.asarray(block.dense.kernel)
        return inputs

    object.__setattr__(block, "call", call)
    return seen


NAMES = ("gamma", "beta", "moving_mean", "moving_variance")


@each("frozen", [False, True])
def test_normalisation_inside_is_not_drawn(frozen, rng):
    inputs = normal(rng, 8, 5)
    block = Block(keras.layers.BatchNormalization())
    wrapper = WeightNoise(block, STDDEV)
    wrapper(inputs)
    wrapper.trainable = not frozen
    assert bool(wrapper.trainable_weights) is not frozen
    seen = recorded(block)
    wrapper(inputs)
    for name in NAMES:
        np.testing.assert_array_equal(seen[name], getattr(block.normalization, name))
    assert np.abs(seen["kernel"] - block.dense.kernel).min() > 0


def test_a_stateful_layer_is_run_once_a_call(rng):
    inputs = normal(rng, 2, 4, 5)
    wrapper, plain = both(functools.partial(keras.layers.LSTM, 3, stateful=True), inputs)
    for layer in (wrapper, plain):
        layer.reset_states()
    assert KERAS_3 or wrapper.stateful
    for calls in (1, 2):
        for variable, drawn in zip(
            trainable(plain), fresh_draws(trainable(wrapper), calls=calls), strict=True
        ):
            variable.assign(drawn)
        np.testing.assert_array_equal(wrapper(inputs), plain(inputs))


# --- seeds ---


def first_draw(**options):
    return np.asarray(WeightNoise(Drawn(), 1.0, **options)(tf.zeros([1, 1]))[0])


def test_a_seed_repeats_the_draws():
    np.testing.assert_array_equal(first_draw(seed=3), first_draw(seed=np.int64(3)))
    assert np.abs(first_draw(seed=3) - first_draw(seed=4)).min() > 0
    drawn = []
    for _ in range(2):  # of set_random_seed without one
        keras.utils.set_random_seed(1)
        drawn.append([first_draw(), first_draw()])
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert np.abs(drawn[0][0] - drawn[0][1]).min() > 0
    assert WeightNoise(Drawn(), 1.0).get_config()["seed"] is None


# --- masks and `training` ---


def test_training_is_passed_on(rng):
    inputs = normal(rng, 4, 6, 5)
    wrapper = WeightNoise(keras.layers.GRU(3, dropout=0.999), 0.0)
    plain = keras.layers.GRU(3)
    plain(inputs)
    wrapper(inputs)
    plain.set_weights(wrapper.get_weights())
    np.testing.assert_array_equal(wrapper(inputs, training=False), plain(inputs))
    assert np.abs(wrapper(inputs, training=True) - plain(inputs)).max() > 1e-3
    if not KERAS_3:
        assert not WeightNoise(keras.layers.Dense(2), 0.0)._expects_training_arg
