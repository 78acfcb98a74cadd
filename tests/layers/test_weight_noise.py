"""WeightNoise: layers that draw their weights at every call."""

import concurrent.futures
import copy
import functools

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import layers
from tfdpnorm.layers import PublicBatchNormalization, ScaleNorm, WeightNoise
from tfdpnorm.layers.weight_noise import NORMALIZATIONS

SEED, STDDEV = 2020, 0.3


@keras.utils.register_keras_serializable(package="tests")
class Pieces(keras.layers.Layer):
    """A user's layer with weights in a list, a dict, a tuple, a tf.Module and twice under names."""

    def build(self, input_shape):
        width = input_shape[-1]
        self.listed = [self.add_weight(f"listed{i}", (width, width)) for i in range(2)]
        self.named = {"deep": {"scale": self.add_weight("scale", (width,))}}
        self.pair = (self.add_weight("shift", (width,)), "no weight")
        self.again = self.also = self.add_weight("again", (width,))
        self.module = tf.Module()
        self.module.inner = tf.Module()
        self.module.inner.gain = tf.Variable(tf.ones([width]) * 0.7, name="gain")
        self.dense = [keras.layers.Dense(width), "no layer"]

    def call(self, inputs):
        x = tf.matmul(tf.matmul(inputs, self.listed[0]), self.listed[1])
        x = x * self.named["deep"]["scale"] + self.pair[0] + self.again * self.also
        return self.dense[0](x) * self.module.inner.gain

    def get_config(self):
        return super().get_config()


class SelfAttention(keras.layers.Layer):
    """Attention of a sequence to itself, which makes its weights at the first call."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.attention = keras.layers.MultiHeadAttention(2, 3)

    def call(self, inputs):
        return self.attention(inputs, inputs)


class Branching(keras.layers.Layer):
    """Relies on AutoGraph, and makes its Dense at the first call."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(3)

    def call(self, inputs):
        x = self.dense(inputs)
        if tf.reduce_sum(inputs) > 0:
            x = x + 1000.0
        return x


def tokens(rng, shape=(4, 5), highest=7):
    return tf.constant(rng.integers(0, highest, shape))


def normal(rng, *shape):
    return tf.constant(rng.normal(size=shape), tf.float32)


CASES = {
    "dense": (lambda: keras.layers.Dense(3), (4, 5)),
    "dense_no_bias": (lambda: keras.layers.Dense(3, use_bias=False, activation="tanh"), (4, 5)),
    "dense_on_sequence": (lambda: keras.layers.Dense(3), (4, 6, 5)),
    "conv1d": (lambda: keras.layers.Conv1D(3, 2), (2, 6, 5)),
    "conv2d": (lambda: keras.layers.Conv2D(3, 2, strides=2), (2, 6, 6, 2)),
    "conv3d": (lambda: keras.layers.Conv3D(3, 2), (2, 4, 4, 4, 2)),
    "transposed": (lambda: keras.layers.Conv2DTranspose(3, 2), (2, 4, 4, 2)),
    "depthwise": (lambda: keras.layers.DepthwiseConv2D(2), (2, 4, 4, 2)),
    "separable": (lambda: keras.layers.SeparableConv2D(3, 2), (2, 4, 4, 2)),
    "einsum": (
        lambda: keras.layers.EinsumDense("abc,cd->abd", (None, 3), bias_axes="d"),
        (2, 4, 5),
    ),
    "prelu": (lambda: keras.layers.PReLU(), (2, 4, 5)),
    "embedding": (lambda: keras.layers.Embedding(7, 3), None),
    "simple_rnn": (lambda: keras.layers.SimpleRNN(3), (2, 4, 5)),
    "gru": (lambda: keras.layers.GRU(3, return_sequences=True), (2, 4, 5)),
    "lstm": (lambda: keras.layers.LSTM(3), (2, 4, 5)),
    "lstm_unrolled": (lambda: keras.layers.LSTM(3, unroll=True), (2, 4, 5)),
    "lstm_of_cell": (lambda: keras.layers.LSTM(3, recurrent_activation="tanh"), (2, 4, 5)),
    "stacked_cells": (
        lambda: keras.layers.RNN([keras.layers.GRUCell(3), keras.layers.LSTMCell(2)]),
        (2, 4, 5),
    ),
    "bidirectional": (lambda: keras.layers.Bidirectional(keras.layers.LSTM(3)), (2, 4, 5)),
    "conv_lstm": (lambda: keras.layers.ConvLSTM1D(2, 2), (2, 3, 4, 2)),
    "attention": (SelfAttention, (2, 4, 6)),
    "time_distributed": (lambda: keras.layers.TimeDistributed(keras.layers.Dense(3)), (2, 4, 5)),
    "model": (
        lambda: keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(3)]),
        (4, 5),
    ),
    "pieces": (Pieces, (2, 4, 5)),
    "branching": (Branching, (2, 5)),
}


def case(name, rng):
    make, shape = CASES[name]
    return make, tokens(rng) if shape is None else normal(rng, *shape)


def trainable(layer):
    return [w for w in layer.weights if w.trainable]


def fresh_draws(weights, seed=SEED, stddev=STDDEV, calls=1):
    """What the wrapper should draw at its `calls`-th call, as NumPy arrays, worked out apart."""
    generator = tf.random.Generator.from_key_counter(seed, [0, 0], "philox")
    for _ in range(calls):
        drawn = [
            w.numpy() + np.float32(stddev) * generator.normal(w.shape).numpy() for w in weights
        ]
    return drawn


def both(make, inputs, **options):
    """A wrapper, and a plain layer whose variables can hold draws."""
    wrapper = WeightNoise(make(), STDDEV, seed=SEED, **options)
    plain = make()
    plain(inputs)
    wrapper.build(inputs.shape)
    wrapper(inputs)
    wrapper.build(inputs.shape)  # the sequence of draws anew
    for to, value in zip(wrapper.weights, plain.weights, strict=True):
        to.assign(value)
    return wrapper, plain


def gradients_of(layer, inputs, weights, **kwargs):
    with tf.GradientTape() as tape:
        outputs = layer(inputs, **kwargs)
        loss = tf.reduce_sum(tf.square(outputs) + 0.3 * outputs)
    return outputs, [tf.convert_to_tensor(g) for g in tape.gradient(loss, weights)]


@pytest.mark.parametrize("name", sorted(CASES))
def test_it_is_the_plain_layer_with_drawn_weights(name, rng):
    check_against_plain_layer(name, gradients_of, rng)


QUICK = ("attention", "branching", "conv2d", "dense", "embedding", "pieces")


@pytest.mark.parametrize(
    "name",
    [*QUICK, *(pytest.param(x, marks=pytest.mark.slow) for x in sorted(set(CASES) - set(QUICK)))],
)
def test_it_is_the_plain_layer_with_drawn_weights_in_a_graph(name, rng):
    check_against_plain_layer(name, tf.function(gradients_of), rng)


def check_against_plain_layer(name, run, rng):
    make, inputs = case(name, rng)
    wrapper, plain = both(make, inputs)
    means = [w.numpy() for w in trainable(plain)]
    for calls in (1, 2, 3):
        outputs, gradients = run(wrapper, inputs, trainable(wrapper))
        for variable, mean in zip(trainable(plain), means, strict=True):
            variable.assign(mean)
        for variable, drawn in zip(
            trainable(plain), fresh_draws(trainable(plain), calls=calls), strict=True
        ):
            variable.assign(drawn)
        expected, expected_gradients = run(plain, inputs, trainable(plain))
        np.testing.assert_array_equal(outputs, expected)
        assert len(gradients) == len(means) > 0
        for got, wanted in zip(gradients, expected_gradients, strict=True):
            np.testing.assert_array_equal(got, wanted)
    for variable, mean in zip(trainable(wrapper), means, strict=True):
        np.testing.assert_array_equal(variable, mean)


@pytest.mark.parametrize("name", sorted(CASES))
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
    operations = [n.op for part in (graph, *graph.library.function) for n in nodes_of(part)]
    assert operations and not [x for x in operations if "Rng" in x or "Random" in x]


def nodes_of(part):
    return part.node if hasattr(part, "node") else part.node_def


@pytest.mark.parametrize("by_keyword", [False, True], ids=["positional", "keyword"])
def test_attention_to_another_sequence(by_keyword, rng):
    query, value = normal(rng, 2, 3, 6), normal(rng, 2, 4, 6)
    allowed = tf.constant(rng.integers(0, 2, (2, 3, 4)), bool)
    wrapper = WeightNoise(keras.layers.MultiHeadAttention(2, 3), STDDEV, seed=SEED)
    if by_keyword:
        outputs = wrapper(query=query, value=value, attention_mask=allowed)
    else:
        outputs = wrapper(query, value, None, allowed)
    plain = keras.layers.MultiHeadAttention(2, 3)
    plain(query, value)
    plain.set_weights(fresh_draws(wrapper.weights))
    np.testing.assert_array_equal(outputs, plain(query, value, attention_mask=allowed))
    with pytest.raises(TypeError, match=r"each argument .* once, got \['value'\]"):
        wrapper(query, value, value=value)
    scores = wrapper(query, value, return_attention_scores=True)[1]
    assert scores.shape == (2, 2, 3, 4)


def test_initial_states_are_taken_as_the_layer_takes_them(rng):
    inputs, states = normal(rng, 2, 4, 5), [normal(rng, 2, 3), normal(rng, 2, 3)]
    make = functools.partial(keras.layers.LSTM, 3)
    for arguments in ((states,), ()):
        wrapper, plain = both(make, inputs)
        plain.set_weights(fresh_draws(plain.weights))
        keywords = {} if arguments else {"initial_state": states}
        outputs = wrapper(inputs, *arguments, **keywords)
        np.testing.assert_array_equal(outputs, plain(inputs, initial_state=states))
    symbolic = [keras.Input((4, 5)), keras.Input((3,)), keras.Input((3,))]
    model = keras.Model(symbolic, wrapper(symbolic[0], initial_state=symbolic[1:]))
    wrapper.build(inputs.shape)
    model = keras.Model.from_config(model.get_config())
    model.set_weights(wrapper.get_weights())
    assert np.abs(model([inputs, *states]) - model([inputs, *states[::-1]])).max() > 1e-3


# --- one draw per call, of what is to be drawn ---


def test_all_rows_and_steps_see_one_draw():
    dense = WeightNoise(keras.layers.Dense(3), 1.0)
    outputs = dense(tf.ones([5, 7, 2])).numpy()
    np.testing.assert_array_equal(outputs, np.broadcast_to(outputs[:1, :1], outputs.shape))
    steps = WeightNoise(keras.layers.TimeDistributed(keras.layers.Dense(3)), 1.0)
    outputs = steps(tf.ones([5, 7, 2])).numpy()
    np.testing.assert_array_equal(outputs, np.broadcast_to(outputs[:1, :1], outputs.shape))
    assert np.abs(steps(tf.ones([5, 7, 2])) - outputs).min() > 0


class Drawn(keras.layers.Layer):
    """Gives its kernel for an output, and its kernel times two."""

    def build(self, input_shape):
        self.kernel = self.add_weight("kernel", (40, 50), initializer="ones")

    def call(self, inputs):
        return [self.kernel * 1.0, self.kernel * 2.0]


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


def test_neighbouring_seeds_give_unrelated_draws():
    drawn = []
    for seed in (0, 1, 2, 3, 2**63 - 1):
        drawn.append(np.ravel(WeightNoise(Drawn(), 1.0, seed=seed)(tf.zeros([1, 1]))[0]))
    for i, one in enumerate(drawn):
        for other in drawn[:i]:
            assert not np.intersect1d(one, other).size > 5  # shifted streams share nearly all


def test_weights_of_one_call_are_used_again_in_it():
    once, twice = WeightNoise(Drawn(), 0.5)(tf.zeros([1, 1]))
    np.testing.assert_array_equal(2 * once, twice)


class Block(keras.layers.Layer):
    """A convolution, a normalisation that keeps statistics, and a count of its calls."""

    def __init__(self, normalization, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(3)
        self.normalization = normalization
        self.calls = self.add_weight("calls", (), initializer="zeros", trainable=False)

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


@pytest.mark.parametrize("frozen", [False, True])
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


def test_the_first_call_counts_once(rng):
    inputs = normal(rng, 8, 5)
    for first in (lambda layer: layer, tf.function):
        block = Block(keras.layers.BatchNormalization(momentum=0.0))
        wrapper = WeightNoise(block, STDDEV, seed=SEED)
        outputs = first(wrapper)(inputs, training=True)
        assert float(block.calls) == 1.0
        if tf.executing_eagerly() and first is not tf.function:
            assert len(wrapper.losses) == 1
        drawn = fresh_draws([block.dense.kernel, block.dense.bias])
        expected = np.mean(np.matmul(inputs, drawn[0]) + drawn[1], axis=0)
        np.testing.assert_allclose(block.normalization.moving_mean, expected, atol=1e-5)
        assert np.abs(np.mean(outputs, axis=0)).max() < 1e-4  # normalised as in training
        wrapper(inputs, training=False)
        assert float(block.calls) == 2.0


def test_a_layer_that_autograph_has_to_convert(rng):
    wrapper = WeightNoise(Branching(), 0.1)
    run = tf.function(wrapper)
    assert np.min(run(tf.ones([1, 2]))) > 900
    assert np.max(run(-tf.ones([1, 2]))) < 900


def test_a_stateful_layer_is_run_once_a_call(rng):
    inputs = normal(rng, 2, 4, 5)
    wrapper, plain = both(functools.partial(keras.layers.LSTM, 3, stateful=True), inputs)
    for layer in (wrapper, plain):
        layer.reset_states()
    assert wrapper.stateful
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


def test_no_seed_takes_one_that_set_random_seed_repeats():
    drawn = []
    for _ in range(2):
        keras.utils.set_random_seed(1)
        drawn.append([first_draw(), first_draw()])
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert np.abs(drawn[0][0] - drawn[0][1]).min() > 0
    assert WeightNoise(Drawn(), 1.0).get_config()["seed"] is None


def test_a_checkpoint_holds_the_place_in_the_sequence(tmp_path):
    layer = WeightNoise(Drawn(), 1.0, seed=3)
    layer(tf.zeros([1, 1]))
    path = tf.train.Checkpoint(layer=layer).save(str(tmp_path / "c"))
    expected = layer(tf.zeros([1, 1]))[0]
    again = WeightNoise(Drawn(), 1.0, seed=4)
    again(tf.zeros([1, 1]))
    tf.train.Checkpoint(layer=again).restore(path).assert_consumed()
    np.testing.assert_array_equal(again(tf.zeros([1, 1]))[0], expected)


# --- numbers of other types ---


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["dense", "conv2d", "embedding", "lstm", "gru", "attention"])
def test_mixed_precision_adds_the_noise_in_float32(name, half, rng, set_policy):
    set_policy(f"mixed_{half}")
    make, inputs = case(name, rng)
    wrapper, plain = both(make, inputs)
    assert wrapper.compute_dtype == half and {w.dtype for w in wrapper.weights} == {tf.float32}
    plain.set_weights(fresh_draws(plain.weights))
    outputs, gradients = gradients_of(wrapper, inputs, wrapper.weights)
    expected, expected_gradients = gradients_of(plain, inputs, plain.weights)
    assert outputs.dtype == half
    np.testing.assert_array_equal(outputs, expected)
    for got, wanted in zip(gradients, expected_gradients, strict=True):
        assert got.dtype == tf.float32
        np.testing.assert_array_equal(got, wanted)


class MixedParts(keras.layers.Layer):
    """A float32 layer inside of one in half precision."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.wide = keras.layers.Dense(3, dtype="float32")
        self.narrow = keras.layers.Dense(3, dtype="mixed_float16")

    def call(self, inputs):
        return self.wide(inputs), self.narrow(inputs)


def test_each_layer_inside_reads_in_its_own_type(rng, set_policy):
    set_policy("mixed_float16")
    inputs = normal(rng, 4, 5)
    wrapper = WeightNoise(MixedParts(), STDDEV, seed=SEED)
    wide, narrow = wrapper(inputs)
    assert (wide.dtype, narrow.dtype) == (tf.float32, tf.float16)
    plain = MixedParts()
    plain(inputs)
    plain.set_weights(fresh_draws(wrapper.weights))
    np.testing.assert_array_equal(wide, plain(inputs)[0])
    np.testing.assert_array_equal(narrow, plain(inputs)[1])


def test_a_float32_layer_keeps_its_inputs_under_a_half_policy(set_policy):
    set_policy("mixed_float16")
    wrapper = WeightNoise(keras.layers.Dense(1, use_bias=False, dtype="float32"), 1e-9)
    wrapper.build((None, 1))
    wrapper.set_weights([np.ones([1, 1])])
    assert float(wrapper(tf.constant([[1.0001]]))[0, 0]) == pytest.approx(1.0001, abs=1e-6)


def test_float64(rng):
    inputs = tf.cast(normal(rng, 4, 5), tf.float64)
    wrapper = WeightNoise(keras.layers.Dense(3, dtype="float64"), STDDEV, seed=SEED)
    outputs = wrapper(inputs)
    generator = tf.random.Generator.from_key_counter(SEED, [0, 0], "philox")
    drawn = [w + STDDEV * generator.normal(w.shape, dtype=tf.float64) for w in wrapper.weights]
    np.testing.assert_allclose(outputs, inputs @ drawn[0] + drawn[1], atol=1e-14)


# --- masks and `training` ---


def test_masks_pass_through(rng):
    words = tokens(rng, (3, 6), highest=3)
    embedding = WeightNoise(keras.layers.Embedding(3, 4, mask_zero=True), STDDEV, seed=1)
    np.testing.assert_array_equal(embedding.compute_mask(words), words != 0)
    inputs = keras.Input((6,), dtype="int64")
    x = embedding(inputs)
    middle = WeightNoise(keras.layers.Dense(4), STDDEV, seed=2)(x)
    layer = keras.layers.Bidirectional(keras.layers.LSTM(3))
    lstm = WeightNoise(layer, STDDEV, seed=3)
    model = keras.Model(inputs, [x, middle, lstm(middle)])
    vectors, values, outputs = model(words)
    for tensor in (vectors, values):
        np.testing.assert_array_equal(tensor._keras_mask, words != 0)
    plain = keras.layers.Bidirectional(keras.layers.LSTM(3))
    plain(values)
    plain.set_weights(fresh_draws(lstm.weights, seed=3))
    np.testing.assert_array_equal(outputs, plain(values, mask=words != 0))
    assert np.abs(outputs - plain(values, mask=tf.ones_like(words, tf.bool))).max() > 1e-3


def test_attention_takes_the_masks_of_its_inputs(rng):
    words = tokens(rng, (3, 6), highest=3)
    x = keras.layers.Embedding(3, 4, mask_zero=True)(words)
    wrapper = WeightNoise(keras.layers.MultiHeadAttention(2, 3), STDDEV, seed=SEED)
    outputs = wrapper(x, x)
    plain = keras.layers.MultiHeadAttention(2, 3)
    plain(x, x)
    plain.set_weights(fresh_draws(wrapper.weights))
    np.testing.assert_array_equal(outputs, plain(x, x))
    np.testing.assert_array_equal(outputs._keras_mask, words != 0)


def test_training_is_passed_on(rng):
    inputs = normal(rng, 4, 6, 5)
    wrapper = WeightNoise(keras.layers.GRU(3, dropout=0.999), 0.0)
    plain = keras.layers.GRU(3)
    plain(inputs)
    wrapper(inputs)
    plain.set_weights(wrapper.get_weights())
    np.testing.assert_array_equal(wrapper(inputs, training=False), plain(inputs))
    assert np.abs(wrapper(inputs, training=True) - plain(inputs)).max() > 1e-3
    assert not WeightNoise(keras.layers.Dense(2), 0.0)._expects_training_arg


# --- in models ---


def small_model(stddev=STDDEV, seed=SEED, recurrent=False):
    inputs = keras.Input((6, 6, 1))
    x = WeightNoise(keras.layers.Conv2D(3, 3), stddev, seed, name="conv")(inputs)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.Reshape((4, 12))(x)
    x = WeightNoise(keras.layers.MultiHeadAttention(2, 3), stddev, seed, name="attention")(x, x)
    if recurrent:
        x = WeightNoise(keras.layers.LSTM(4), stddev, seed, name="recurrent")(x)
    else:
        x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, WeightNoise(keras.layers.Dense(2), stddev, seed, name="out")(x))


def test_fit_evaluate_predict(rng):
    x, y = rng.normal(size=(16, 6, 6, 1)).astype("float32"), rng.integers(0, 2, 16)
    model = small_model()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, jit_compile=False)
    before = model.get_weights()
    model.fit(x, y, batch_size=8, epochs=1, verbose=0)
    moved = [np.abs(a - b).max() > 0 for a, b in zip(before, model.get_weights(), strict=True)]
    # Keys of an attention have a bias that the softmax takes away.
    unmoved = [w.name for w, m in zip(model.weights, moved, strict=True) if not m]
    assert all("key/bias" in name for name in unmoved)
    assert np.isfinite(model.evaluate(x, y, verbose=0))
    one, other = model.predict(x, verbose=0), model.predict(x, verbose=0)
    assert np.abs(one - other).min() > 0  # drawn anew, in testing too
    plain = small_model(0.0)
    plain.set_weights(model.get_weights())
    np.testing.assert_array_equal(plain.predict(x, verbose=0), plain.predict(x, verbose=0))


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.embedding = WeightNoise(keras.layers.Embedding(5, 4), STDDEV)
        self.attention = WeightNoise(keras.layers.MultiHeadAttention(2, 2), STDDEV)
        self.out = WeightNoise(keras.layers.Dense(1), STDDEV)

    def call(self, inputs):
        x = self.embedding(inputs)
        return self.out(self.attention(x, x)[:, 0])


def test_a_subclassed_model_makes_its_weights_in_fit(rng):
    model = Subclassed()
    model.compile("adam", "mse", jit_compile=False)
    model.fit(tokens(rng, (8, 3), highest=5), rng.normal(size=(8, 1)), verbose=0)
    assert len(model.weights) == 11 and len(model.trainable_weights) == 11


@pytest.mark.parametrize("stddev", [0.0, STDDEV])
def test_models_are_saved_and_cloned(stddev, rng, tmp_path):
    x = normal(rng, 3, 6, 6, 1)
    model = small_model(stddev, recurrent=True)
    path = str(tmp_path / "model.keras")
    model.save(path)
    loaded = keras.models.load_model(path)
    cloned = keras.models.clone_model(model)
    cloned.set_weights(model.get_weights())
    weights_path = str(tmp_path / "model.weights.h5")
    model.save_weights(weights_path)
    refilled = small_model(stddev, recurrent=True)
    refilled.load_weights(weights_path)
    expected = model(x)  # the first draws
    for again in (loaded, cloned, refilled):
        assert again.get_layer("recurrent").seed == SEED
        # Building a functional model draws symbolically only: nothing is consumed.
        np.testing.assert_array_equal(again(x), expected)


@pytest.mark.parametrize("name", ["dense", "lstm", "bidirectional", "time_distributed", "pieces"])
def test_config_round_trip(name, rng):
    make, inputs = case(name, rng)
    wrapper = WeightNoise(make(), np.float32(0.25), seed=7, name="noisy", trainable=False)
    config = wrapper.get_config()
    assert (config["stddev"], config["seed"], config["trainable"]) == (0.25, 7, False)
    again = keras.utils.deserialize_keras_object(keras.utils.serialize_keras_object(wrapper))
    assert isinstance(again, WeightNoise) and again.get_config() == config
    again(inputs)
    wrapper(inputs)
    assert [w.shape for w in again.weights] == [w.shape for w in wrapper.weights]
    assert not again.trainable_weights


def test_a_policy_survives_the_config():
    wrapper = WeightNoise(keras.layers.Dense(2, dtype="mixed_bfloat16"), 0.1)
    again = WeightNoise.from_config(wrapper.get_config())
    assert again.compute_dtype == again.layer.compute_dtype == "bfloat16"


def test_output_shapes():
    assert WeightNoise(keras.layers.Conv2D(3, 2), 0.1).compute_output_shape((None, 5, 5, 2)) == (
        None,
        4,
        4,
        3,
    )
    attention = WeightNoise(keras.layers.MultiHeadAttention(2, 3), 0.1)
    assert attention.compute_output_shape((2, 3, 6), (2, 4, 6)) == (2, 3, 6)
    assert attention(keras.Input((3, 6)), keras.Input((4, 6))).shape.as_list() == [None, 3, 6]


def test_weights_given_at_construction():
    table = np.arange(8.0).reshape(4, 2)
    wrapper = WeightNoise(keras.layers.Embedding(4, 2, weights=[table]), 0.1)
    wrapper(tf.constant([[1]]))
    np.testing.assert_array_equal(wrapper.weights[0], table)


def test_regularizers_see_the_mean():
    regularized = keras.layers.Dense(2, kernel_regularizer="l2", bias_regularizer="l2")
    wrapper = WeightNoise(regularized, 10.0)
    wrapper(tf.ones([1, 3]))
    kernel = wrapper.layer.kernel.numpy()
    assert float(sum(wrapper.losses)) == pytest.approx(0.01 * np.square(kernel).sum(), rel=1e-5)


def test_a_copy_draws_on_its_own():
    layer = WeightNoise(Drawn(), 1.0, seed=3)
    layer(tf.zeros([1, 1]))
    twin = copy.deepcopy(layer)
    twin.layer.kernel.assign(tf.zeros([40, 50]))
    np.testing.assert_array_equal(layer.layer.kernel, np.ones([40, 50]))
    np.testing.assert_allclose(
        twin(tf.zeros([1, 1]))[0] + 1.0, layer(tf.zeros([1, 1]))[0], atol=1e-6
    )


def test_threads_do_not_see_the_draws_of_each_other():
    layer, wanted = WeightNoise(Drawn(), 1.0, seed=3), WeightNoise(Drawn(), 1.0, seed=3)
    for first in (layer, wanted):
        first(tf.zeros([1, 1]))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda _: layer(tf.zeros([1, 1])), range(40)))
    for once, twice in got:
        np.testing.assert_array_equal(2 * once, twice)
    expected = {np.asarray(wanted(tf.zeros([1, 1]))[0]).tobytes() for _ in range(40)}
    assert {once.numpy().tobytes() for once, _ in got} == expected
    assert layer.layer.kernel is layer.weights[0]


# --- what is put back, what is refused ---


class Failing(Pieces):
    fails = False

    def call(self, inputs):
        if self.fails:
            raise RuntimeError("halfway")
        return super().call(inputs)


def attributes(layer):
    modules = [layer, *layer.submodules]
    return [{k: id(v) for k, v in vars(m).items() if k != "_thread_local"} for m in modules]


@pytest.mark.parametrize("fails", [False, True])
def test_everything_is_put_back(fails, rng):
    wrapper = WeightNoise(Failing(), STDDEV)
    wrapper(normal(rng, 2, 5))
    weights = [id(w) for w in wrapper.weights]
    wrapper.layer.fails = fails
    before = attributes(wrapper.layer)
    if fails:
        with pytest.raises(RuntimeError, match="halfway"):
            wrapper(normal(rng, 2, 5))
        with pytest.raises(RuntimeError, match="halfway"):
            tf.function(wrapper)(normal(rng, 2, 5))
    else:
        wrapper(normal(rng, 2, 5))
        tf.function(wrapper)(normal(rng, 2, 5))
    assert attributes(wrapper.layer) == before
    assert [id(w) for w in wrapper.weights] == weights
    wrapper.layer.fails = False
    wrapper(normal(rng, 2, 5))


class Hidden(keras.layers.Layer):
    """Reads a weight past its attributes, or before there is one."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def build(self, input_shape):
        kernel = self.add_weight("kernel", (5, 3))
        if self.how != "no attribute":
            self.kernel = kernel
        self.read = lambda: kernel

    def call(self, inputs):
        if self.how == "late":
            if not hasattr(self, "bias"):
                self.bias = self.add_weight("bias", (3,))
            return inputs @ self.kernel + self.bias
        if self.how == "list of weights":
            return inputs @ self.kernel + self.trainable_weights[0][0]
        return inputs @ self.read()


@pytest.mark.parametrize(
    "how,message",
    [
        ("no attribute", r"hold its weights as attributes, got none for \['weight_noise/kernel:0"),
        ("closure", r"got a read of the mean of \['weight_noise/kernel:0'\]. Make the weights in"),
        ("list of weights", r"got a read of the mean of \['weight_noise/kernel:0'\]"),
        ("late", r"got a call that made \['.*bias:0'\]. Make the weights in build"),
    ],
)
def test_no_weight_is_silently_without_noise(how, message, rng):
    with pytest.raises(ValueError, match=message):
        WeightNoise(Hidden(how), STDDEV, name="weight_noise")(normal(rng, 4, 5))
    with pytest.raises(ValueError, match=message):
        WeightNoise(Hidden(how), STDDEV, name="weight_noise")(keras.Input((5,)))
    if how != "late":
        wrapper = WeightNoise(Hidden(how), STDDEV, name="weight_noise")
        for _ in range(2):
            with pytest.raises(ValueError, match=message):
                wrapper(normal(rng, 4, 5))


@pytest.mark.parametrize(
    "make",
    [
        keras.layers.BatchNormalization,
        keras.layers.LayerNormalization,
        keras.layers.GroupNormalization,
        keras.layers.UnitNormalization,
        PublicBatchNormalization,
        ScaleNorm,
    ],
    ids=lambda make: make.__name__,
)
def test_normalisation_is_refused(make):
    with pytest.raises(ValueError, match=f"does not normalise, got {make.__name__} 'mine'. Use it"):
        WeightNoise(make(name="mine"), 0.1)
    spectral = keras.layers.SpectralNormalization(keras.layers.Dense(2))
    with pytest.raises(ValueError, match="does not normalise, got SpectralNormalization"):
        WeightNoise(spectral, 0.1)


def test_every_normalisation_of_the_library_is_known_as_one():
    named = {name for name in layers.__all__ if "Norm" in name}
    assert named <= {kind.__name__ for kind in NORMALIZATIONS}


@pytest.mark.parametrize("stddev", [0.0, 0.1])
@pytest.mark.parametrize(
    "make",
    [
        functools.partial(keras.layers.Dropout, 0.5),
        keras.layers.Flatten,
        functools.partial(keras.layers.TimeDistributed, keras.layers.LayerNormalization()),
    ],
    ids=["dropout", "flatten", "only_normalisation_inside"],
)
def test_a_layer_without_weights_is_refused(make, stddev, rng):
    with pytest.raises(ValueError, match="a layer with weights to draw, got .* which has none"):
        WeightNoise(make(), stddev)(normal(rng, 2, 4, 5))


def test_noise_on_noise_is_refused():
    inner = WeightNoise(keras.layers.Dense(2), 0.1)
    for layer in (inner, keras.Sequential([inner]), keras.layers.TimeDistributed(inner)):
        with pytest.raises(ValueError, match="Expected a layer without WeightNoise, got"):
            WeightNoise(layer, 0.1)


@pytest.mark.parametrize("layer", [keras.layers.Dense, 3, None], ids=["class", "number", "none"])
def test_only_layers_are_wrapped(layer):
    with pytest.raises(ValueError, match="Expected a Keras layer, got .* Pass an instance"):
        WeightNoise(layer, 0.1)


@pytest.mark.parametrize(
    "stddev",
    [-1e-9, float("nan"), float("inf"), 1e39, 10**400, True, np.True_, "0.1", None, 1j, [0.1]],
    ids=repr,
)
def test_refused_stddev(stddev):
    with pytest.raises(ValueError, match="Expected stddev to be a finite float32 number >= 0, got"):
        WeightNoise(keras.layers.Dense(2), stddev)


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, True, "1", (1, 2)], ids=repr)
def test_refused_seed(seed):
    with pytest.raises(ValueError, match="Expected seed to be None or an int from 0 to"):
        WeightNoise(keras.layers.Dense(2), 0.1, seed=seed)


def test_weights_that_are_no_real_numbers_are_refused():
    class Complex(keras.layers.Layer):
        def build(self, input_shape):
            self.phase = tf.Variable(tf.ones([2], tf.complex64), name="phase")

        def call(self, inputs):
            return inputs * tf.math.real(self.phase)

    with pytest.raises(ValueError, match="Expected floating-point weights, got '.*phase:0' of"):
        WeightNoise(Complex(), 0.1)(tf.ones([1, 2]))
