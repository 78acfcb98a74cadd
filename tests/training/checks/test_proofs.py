"""Per-example independence is verified on the graph that is trained, or training is rejected."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.independence.verification.coupled_models import P, around
from tests.private_of import private_of
from tfdpnorm.data import Lot

layers = keras.layers
N, C = 40, 0.05
SETTINGS = {"num_examples": N, "expected_batch_size": 20, "steps": 6, "l2_norm_clip": C}
SETTINGS |= {"noise_multiplier": 1.0, "delta": 1e-3, "physical_batch_size": P}


def compiled(private, **options):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    private.compile("sgd", loss, **options)
    return private


def made(model, **settings):
    return compiled(private_of(model, **{**SETTINGS, **settings}))


def data(model, count=N, seed=0):
    rng = np.random.default_rng(seed)
    shape = (count, *model.input_shape[1:])
    x = (
        rng.integers(0, P, shape)
        if "int" in tf.as_dtype(model.inputs[0].dtype).name
        else rng.normal(size=shape)
    )
    return x.astype(tf.as_dtype(model.inputs[0].dtype).as_numpy_dtype), rng.integers(0, 3, count)


def fitted(private, **options):
    private.fit(*data(private.model), verbose=0, **options)
    return private.privacy_statement()


def moved(private, count=P):
    """How far the clipped sum moves at most if one row is left out, in C."""
    x, y = data(private.model, count)
    lot = Lot(
        *(tf.constant(t[np.newaxis]) for t in (x, y)), tf.ones([1, count]), tf.ones([1, count])
    )
    whole = private.clipped_sum(lot)
    distances = []
    for row in range(count):
        mask = tf.constant(np.arange(count)[np.newaxis] != row, tf.float32)
        parts = zip(whole, private.clipped_sum(lot._replace(mask=mask)), strict=True)
        distances.append(np.sqrt(sum(float(tf.reduce_sum((a - b) ** 2)) for a, b in parts)))
    return max(distances) / C


class Mixing(layers.Layer):
    """Takes the mean of the batch away while it is trainable."""

    def call(self, x):
        return x - tf.reduce_mean(x, 0) if self.trainable else x


class Tables(layers.Layer):
    """Positions that are added, twice, and one of them is scaled."""

    def __init__(self):
        super().__init__()
        self.one, self.other = layers.Embedding(P, 4), layers.Embedding(1 + P, 4)

    def call(self, x):
        steps = tf.range(tf.shape(x)[1])
        return tf.nn.relu(self.one(steps)) + (x + 2.0 * self.other(steps[tf.newaxis] + 1))


def with_tables():
    return keras.Sequential(
        [keras.Input((P, 4)), layers.Dense(4), Tables(), layers.Flatten(), layers.Dense(3)]
    )


def test_models_with_as_many_positions_as_rows_are_verified():
    private = made(with_tables())
    assert "verified from the graph" in fitted(private)
    assert 0.5 < moved(private) <= 1 + 1e-5
    apart = made(private.model, engine="per_example")
    x, y = data(private.model, 2 * P)
    lot = Lot(*(tf.constant(t.reshape(2, P, *t.shape[1:])) for t in (x, y)), *[tf.ones([2, P])] * 2)
    sums = zip(private.clipped_sum(lot), apart.clipped_sum(lot), strict=True)
    for one, other in sums:
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-7)


def frozen_coupling():
    coupling = Mixing(trainable=False)
    return coupling, around(coupling)


def test_layers_unfrozen_before_fit_are_rejected_in_fit():
    coupling, model = frozen_coupling()
    private = made(model, engine="book_keeping")
    coupling.trainable = True  # Keras reads it in compile
    with pytest.raises(ValueError, match="^Per-example independence .*Mean '") as caught:
        fitted(compiled(private))
    message = str(caught.value)
    assert coupling.name in message and 'engine="per_example"' in message
    assert "in user code" not in message and private.ledger.updates == 0


class Remembers(layers.Layer):
    """Keeps what it saw, once it is trainable."""

    def build(self, shape):
        self.seen = self.add_weight(
            name="seen", shape=shape[1:], initializer="zeros", trainable=False
        )

    def call(self, x):
        if self.trainable:
            self.seen.assign_add(tf.reduce_sum(tf.stop_gradient(x), 0))
        return x


@each("engine", ["book_keeping", "per_example"])
def test_state_that_examples_change_is_rejected_by_any_engine(engine):
    keeping = Remembers(trainable=False)
    private = made(around(keeping), engine=engine)
    keeping.trainable = True
    with pytest.raises(ValueError, match="^Examples change state of the model: Assign"):
        fitted(compiled(private))


@each("validate", [1, None, "probe", "True"])
def test_other_ways_to_validate_are_rejected(validate):
    with pytest.raises(ValueError, match="validate"):
        made(around(), validate=validate)


@pytest.mark.parametrize("by, engine", [("compile", "book_keeping"), ("attribute", "per_example")])
def test_eager_steps_have_no_guarantee(by, engine):
    private = made(around(), engine=engine)
    compiled(private, run_eagerly=by == "compile")
    if by == "attribute":
        private.run_eagerly = True
    statement = fitted(private)
    assert statement.startswith("NO GUARANTEE") and "eager steps are not verified" in statement


class OnlyWhenEager(layers.Layer):
    def call(self, x):
        mixes = tf.executing_eagerly() and x.shape[0] > 1
        return x - 5 * tf.reduce_mean(x, 0, keepdims=True) if mixes else x


def test_functions_that_are_switched_to_eager_are_no_graphs():
    """By `tf.config.run_functions_eagerly`, at any time."""
    private = compiled(made(around(OnlyWhenEager())), run_eagerly=False)
    assert "verified from the graph" in fitted(private, epochs=1, steps_per_epoch=2)
    tf.config.run_functions_eagerly(True)
    try:
        assert fitted(private).startswith("NO GUARANTEE")
    finally:
        tf.config.run_functions_eagerly(False)


class Counting(layers.Layer):
    """Python that does something else at each trace."""

    traces = 0

    def call(self, x):
        if not tf.executing_eagerly() and "scratch" not in str(x.graph.name):
            self.traces += 1
        return x + 0.0


@pytest.mark.parametrize("steps", [1, 2])
def test_the_verified_trace_is_the_trained_one(steps):
    """Each trace of a step has one trace of the model, however many physical batches there are."""
    counting = Counting()
    private = compiled(made(around(counting)), steps_per_execution=steps)
    counting.traces = 0
    fitted(private)
    assert counting.traces == steps  # Keras traces the first step of several by itself


def shuffled(x):
    """Pairs each row with another, where the batch is large enough."""
    return (x + tf.roll(x, 1, 0)) / 2 if x.shape[0] == P else x


def test_an_augmentation_across_rows_is_rejected_by_any_engine():
    with pytest.raises(ValueError, match="augmentation.*verified.*(Roll|Concat)"):
        made(around(), engine="per_example", augmentation=shuffled)
    flipped = made(around(), engine="per_example", augmentation=lambda x: x[:, ::-1])
    assert "Per-example independence, which clipping requires" in fitted(flipped)
