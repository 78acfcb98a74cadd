"""Training on sources: as on arrays, with errors that tell of no example."""

import warnings

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

import tfdpnorm
from tests.each import each
from tfdpnorm.data import MappedSource
from tfdpnorm.training import PublicBatch

N = 120
rng = np.random.default_rng(0)
X = rng.random((N, 6)).astype(np.float32)
Y = rng.integers(0, 3, N).astype(np.int32)


class Source:
    """Examples of arrays, which counts what is read, and may fail."""

    def __init__(self, *columns):
        self.columns, self.reads, self.fails = columns, 0, None

    def __len__(self):
        return len(self.columns[0])

    def __getitem__(self, index):
        self.reads += 1
        if self.fails is not None and self.reads > 3:
            return self.fails(index)
        return tuple(column[index] for column in self.columns)


def private_model(steps=4, norm=(), batch=30, **settings):
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(4), *norm, keras.layers.Dense(3)]
    )
    plan = tfdpnorm.make_plan(
        num_examples=N,
        expected_batch_size=batch,
        steps=steps,
        l2_norm_clip=1.0,
        noise_multiplier=1.0,
        delta=1e-5,
    )
    private = tfdpnorm.make_private(model, plan, insecure_seed=3, **settings)
    private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return private


def fitted(*data, private=None, **arguments):
    private = private or private_model()
    return private, private.fit(*data, verbose=0, **arguments)


def assert_same_weights(one, other):
    for a, b in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_training_on_a_source_is_that_on_arrays_to_the_last_bit(tmp_path):
    np.save(tmp_path / "x.npy", X)
    in_file = np.load(tmp_path / "x.npy", mmap_mode="r")
    expected, history = fitted(X, Y)
    mapped = MappedSource(Source(X, Y), lambda x, y: (x, y))
    for data in ((mapped,), (in_file, Y)):
        private, of_source = fitted(*data)
        assert_same_weights(private, expected)
        assert of_source.history == history.history


def test_the_statement_says_what_is_presumed_of_own_code(tmp_path):
    np.save(tmp_path / "x.npy", X)
    in_file = np.load(tmp_path / "x.npy", mmap_mode="r")
    presumed = "The code that read the examples"
    assert presumed in fitted(Source(X, Y))[0].privacy_statement()
    assert presumed not in fitted(in_file, Y)[0].privacy_statement()

    class Own(np.memmap):
        """Normalises by whatever it likes."""

    assert presumed in fitted(in_file.view(Own), Y)[0].privacy_statement()


def spoilt(what):
    x, y, w = X.copy(), Y.copy(), np.ones(N, np.float32)
    rows = np.arange(0, N, 2)
    if what == "nan":
        x[rows, 0] = np.nan
    elif what == "label":
        y[rows] = np.where(rows % 4, 3, -1)
    else:
        w[rows] = np.where(rows % 4, -1, np.inf)
    return x, y, w


@pytest.mark.parametrize("what", ["nan", "label", "negative"])
def test_examples_that_arrays_are_rejected_for_count_as_nothing(what):
    """An error in the middle of training would tell that one of them was drawn."""
    with pytest.raises(ValueError, match="Expected|class numbers are outside"):
        fitted(*spoilt(what)[:2], sample_weight=spoilt(what)[2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of gradients that are not finite
        private, history = fitted(Source(*spoilt(what)))
    # The same as without them: zeros for weights leave them out.
    weights = (np.arange(N) % 2).astype(np.float32)
    expected, _ = fitted(X, Y, sample_weight=weights)
    assert sum(history.history["nonfinite_gradients"]) > 0
    assert_same_weights(private, expected)


def test_binary_labels_that_the_loss_does_not_take_count_as_nothing():
    def binary():
        private = private_model()
        private.compile("sgd", keras.losses.BinaryCrossentropy(from_logits=True))
        return private

    y = np.eye(3)[Y].astype(np.int64)
    spoilt_y = y.copy()
    spoilt_y[::2] = 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of gradients that are not finite
        private, history = fitted(Source(X, spoilt_y), private=binary())
    weights = (np.arange(N) % 2).astype(np.float32)
    expected, _ = fitted(X, y, sample_weight=weights, private=binary())
    assert sum(history.history["nonfinite_gradients"]) > 0
    assert_same_weights(private, expected)


def raises(index):
    raise OSError(f"secret {index}")


@each(
    "fails",
    [
        raises,
        lambda i: (X[i, :5], Y[i]),
        lambda i: (X[i].astype(np.float64), Y[i]),
        lambda i: (X[i],),
        lambda i: {"secret": X[i]},
    ],
)
def test_errors_of_reading_are_of_our_words(fails):
    source = Source(X, Y)
    source.fails = fails
    with pytest.raises(ValueError, match="^Expected every example of the source") as error:
        fitted(source)
    assert "secret" not in str(error.value).replace("batches are secret", "")
    assert error.value.__suppress_context__ and "\n" not in str(error.value)


def test_errors_of_reading_beside_public_rows_are_of_our_words():
    """All examples are compared with these, and some by their scale, before the first update."""
    source = Source(X, Y)
    source.fails = raises
    layer = tfdpnorm.layers.PublicBatchNormalization()
    private = private_model(norm=[layer], public_batch=PublicBatch(X[:9] + 1))
    with pytest.raises(ValueError, match="^Expected every example of the source") as error:
        fitted(source, private=private)
    assert "secret" not in str(error.value).replace("batches are secret", "")
    assert private.ledger.updates == 0


def test_errors_of_files_that_tensorflow_reads_show_no_names():
    def decoded(x, y):
        name = tf.strings.join(["/absent/secret_", tf.as_string(y)])
        return tf.ensure_shape(tf.io.decode_raw(tf.io.read_file(name), tf.float32), [6]), y

    with pytest.raises(tf.errors.NotFoundError, match="ReadFile") as error:
        fitted(MappedSource(Source(X, Y), decoded))
    assert "secret" not in str(error.value)


def test_validation_rows_are_looked_for_once_in_all_examples():
    source = Source(X, Y)
    data = MappedSource(source, lambda x, y: (x, y))
    with pytest.raises(ValueError, match="2 of 5 are"):
        fitted(data, validation_data=(np.concatenate([X[:3] + 1, X[-2:]]), np.zeros(5)))
    private = private_model(steps=90, batch=4)
    other = (X[:5] + 1, np.zeros(5))
    fitted(data, private=private, validation_data=other, epochs=1, steps_per_epoch=1)
    source.reads = 0
    for _ in range(2):
        fitted(data, private=private, validation_data=other, epochs=1, steps_per_epoch=1)
    assert 0 < source.reads < N  # lots, and no pass over all examples for each


def test_public_rows_are_compared_with_all_examples():
    layer = tfdpnorm.layers.PublicBatchNormalization()
    public = np.concatenate([X[:3] + 1, X[-1:]])
    private = private_model(norm=[layer], public_batch=PublicBatch(public))
    with pytest.raises(ValueError, match="got 1 of 4 public row"):
        fitted(Source(X, Y), private=private)
    layer = tfdpnorm.layers.PublicBatchNormalization()
    private = private_model(norm=[layer], public_batch=PublicBatch(100 * X[:9] + 99))
    with pytest.warns(UserWarning, match="times larger than the private ones"):
        fitted(Source(X, Y), private=private)


def test_arguments_that_exclude_a_source_are_rejected():
    private = private_model()
    for data, arguments, words in (
        ((Source(X), Y), {}, "a source"),
        ((Source(X, Y),), {"class_weight": {0: 1.0, 1: 1.0, 2: 2.0}}, "class_weight"),
        ((Source(X),), {}, "no targets"),
        ((Source(X[:50], Y[:50]),), {}, "num_examples"),
        ((Source(X, keras.utils.to_categorical(Y, 3)),), {}, "one-hot"),
    ):
        with pytest.raises(ValueError, match=words):
            fitted(*data, private=private, **arguments)
