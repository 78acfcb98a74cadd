"""Sound losses and models that book-keeping cannot take train all the same, with the right sums."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.gradients.looped_reference import looped_sum, relative_error
from tests.private_of import private_of
from tfdpnorm.data import Lot

layers = keras.layers
N, STEPS, FEATURES, LABELS, SYMBOLS = 24, 6, 3, 2, 5


def ctc(y, logits):
    rows = tf.shape(logits)[0]
    return tf.nn.ctc_loss(
        tf.cast(y, tf.int32),
        logits,
        tf.fill([rows], LABELS),
        tf.fill([rows], STEPS),
        logits_time_major=False,
        blank_index=0,
    )


def words():
    inputs = keras.Input((STEPS, FEATURES))
    hidden = layers.Dense(4, activation="tanh")(inputs)
    return keras.Model(inputs, layers.Dense(SYMBOLS)(hidden))


class KeptKeys(layers.Layer):
    """Attention whose first call keeps keys for the second one."""

    def build(self, shape):
        self.to_keys = self.add_weight(name="to_keys", shape=(FEATURES, 4))
        self.to_query = self.add_weight(name="to_query", shape=(FEATURES, 4))

    def call(self, query, memory=None):
        if memory is not None:
            self.memory, self.keys = memory, memory @ self.to_keys
        scores = tf.einsum("bd,btd->bt", query @ self.to_query, self.keys)
        return tf.einsum("bt,btd->bd", tf.nn.softmax(scores), self.memory)


class Attending(keras.Model):
    def __init__(self):
        super().__init__()
        self.attention, self.head = KeptKeys(), layers.Dense(3)

    def call(self, x):
        once = self.attention(x[:, 0], memory=x)
        return self.head(self.attention(once))


def squares(y, predictions):
    return tf.reduce_sum(tf.square(tf.cast(y, tf.float32) - predictions[:, :LABELS]), -1)


CASES = {
    "ctc": (words, ctc, "ctc_loss"),
    "kept keys": (Attending, squares, "is not an argument of its call"),
}


def rows_of(count=N):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, STEPS, FEATURES)).astype(np.float32)
    return x, rng.integers(1, SYMBOLS - 1, size=(count, LABELS)).astype(np.int32)


def made(model, loss, **settings):
    plan = {"num_examples": N, "expected_batch_size": 8, "steps": 2, "l2_norm_clip": 0.1}
    private = private_of(model, physical_batch_size=4, **plan, **settings)
    private.compile("sgd", loss)
    return private


@pytest.mark.quick_cases("ctc")
@pytest.mark.filterwarnings("ignore:Per-example")
@pytest.mark.parametrize("name", CASES)
def test_models_beyond_book_keeping_use_per_example(name):
    make, loss, why = CASES[name]
    model = make()
    private = made(model, loss)
    assert private.engine == "book_keeping"  # neither the loss nor the shapes are known yet
    with pytest.warns(UserWarning, match=f'engine=None takes "per_example".*{why}') as caught:
        private.fit(*rows_of(), verbose=0)
    (price,) = [str(w.message) for w in caught if "engine=None" in str(w.message)]
    assert "\n" not in price and "times as long" in price
    assert private.engine == "per_example"
    assert private.ledger.guarantee_holds and private.ledger.updates == 2
    assert "computed by itself" in " ".join(private.privacy_statement().split())

    def loss_fn(x, y, sample_weight):
        predictions = model(x, training=True)
        return loss(y, predictions) * sample_weight, predictions

    x, y = rows_of(4)
    ones = np.ones([4], np.float32)
    expected = looped_sum(loss_fn, (x, y, ones, ones), model.trainable_variables, 0.1)
    lot = Lot(*(tf.constant(each)[tf.newaxis] for each in (x, y, ones, ones)))
    actual = tf.function(lambda: private.clipped_sum(lot))()
    assert relative_error([g.numpy() for g in actual], expected) < 1e-5


@pytest.mark.filterwarnings("ignore:Per-example")
def test_an_engine_that_was_asked_for_is_kept():
    make, loss, why = CASES["ctc"]
    private = made(make(), loss, engine="book_keeping")
    with pytest.raises(ValueError, match=f"^(Layer|Expected|Per-example) .*{why}") as caught:
        private.fit(*rows_of(), verbose=0)
    assert "\n" not in str(caught.value) and 'engine="per_example"' in str(caught.value)
    assert private.engine == "book_keeping" and private.ledger.updates == 0


def test_models_no_engine_supports_keep_the_engine():
    """Rows that are run apart still keep what a Python function saw of them."""

    def keeping(y, predictions):
        kept = tf.numpy_function(lambda a: a * 2, [predictions], tf.float32)
        return squares(y, predictions) + tf.ensure_shape(kept, predictions.shape)[:, 0]

    private = made(keras.Sequential([layers.Flatten(), layers.Dense(3)]), keeping)
    with pytest.raises(ValueError, match="^Examples change state of the model"):
        private.fit(*rows_of(), verbose=0)
    assert private.engine == "book_keeping" and private.ledger.updates == 0


class KeptForGood(layers.Layer):
    """Computes its keys in the first call only."""

    keys = None

    def build(self, shape):
        self.w = self.add_weight(name="w", shape=(FEATURES, 4))

    def call(self, x):
        if self.keys is None:
            self.keys = x @ self.w
        return tf.einsum("btd,bsd->bts", self.keys, x @ self.w)


class KeepingModel(keras.Model):
    """May clear what its layer has kept, before each call."""

    def __init__(self, clears):
        super().__init__()
        self.clears, self.kept, self.head = clears, KeptForGood(), layers.Dense(3)

    def call(self, x):
        if self.clears:
            self.kept.keys = None
        return self.head(layers.Flatten()(self.kept(x)))


@pytest.mark.keras_2_only("such a layer fails in Keras by itself")
@pytest.mark.filterwarnings("ignore:Per-example")
def test_a_tensor_of_another_graph_is_rejected_in_one_sentence():
    model = KeepingModel(clears=False)
    model.build((None, STEPS, FEATURES))  # in a graph
    private = made(model, squares)
    private.compile("sgd", squares)
    with pytest.raises(
        ValueError, match="^The model.* uses a tensor that an earlier call kept"
    ) as got:
        private.fit(*rows_of(), verbose=0)
    assert "\n" not in str(got.value) and private.ledger.updates == 0
