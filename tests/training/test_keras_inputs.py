"""`fit` takes the data in the forms that Keras takes, or says what to do instead."""

import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.data.arrays import row_bytes
from tfdpnorm.keras_compat.variables import KERAS_3
from tfdpnorm.privacy.caveats import caveat

layers = keras.layers
N = 40
CE = keras.losses.SparseCategoricalCrossentropy
X = np.random.default_rng(3).normal(size=(N, 5)).astype(np.float32)
NUMBERS, LABELS = X[:, :1].copy(), np.arange(N) % 3


def one_output():
    inputs = keras.Input((5,))
    return keras.Model(inputs, layers.Dense(1)(inputs))


def two_outputs():
    keras.utils.set_random_seed(1)
    inputs = keras.Input((5,))
    outputs = [layers.Dense(1, name="one")(inputs), layers.Dense(3, name="two")(inputs)]
    return keras.Model(inputs, outputs)


@pytest.fixture
def fitted(private):
    """Returns a function that makes one update, without clip and noise; or asserts that it cannot.

    Expected lots are all rows, so that the update is that of a batch.
    """

    def fit(model, *data, loss="mse", loss_weights=None, **options):
        settings = {"expected_batch_size": N, "l2_norm_clip": np.inf, "noise_multiplier": 0.0}
        trained = private(model, **settings)
        trained.compile("sgd", loss, loss_weights=loss_weights)
        try:
            trained.fit(*data, steps_per_epoch=1, verbose=0, **{"epochs": 1, **options})
        except Exception as error:
            assert trained.ledger.updates == 0
            assert "\n" not in str(error), error
            raise
        return trained

    return fit


def as_keras(model, *data, **options):
    model.compile("sgd", **options)
    model.fit(*data, batch_size=N, epochs=1, verbose=0)
    return model.get_weights()


TARGETS = {"one": NUMBERS, "two": LABELS}
FORMS = {
    "dict": (TARGETS, {"one": "mse", "two": CE(True)}, {"two": 0.5}),
    "loss_none": ([NUMBERS, LABELS], ["mse", None], None),
}
# Plain Keras 3 wants these written out.
IN_FULL = {"dict": {"loss_weights": {"one": 1.0, "two": 0.5}}}


@pytest.mark.parametrize("name", FORMS)
def test_targets_and_losses_by_output_train_as_keras_does(name, fitted):
    y, loss, weights = FORMS[name]
    options = {"loss": loss, "loss_weights": weights, **(IN_FULL.get(name, {}) if KERAS_3 else {})}
    expected = as_keras(two_outputs(), X, y, **options)
    trained = fitted(two_outputs(), X, y, loss=loss, loss_weights=weights)
    for ours, theirs in zip(trained.get_weights(), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_targets_of_an_output_without_a_loss_may_be_left_out(fitted):
    trained = fitted(two_outputs(), X, {"one": NUMBERS}, loss={"one": "mse"})
    assert trained.ledger.updates == 1


def test_losses_that_fit_no_output_are_rejected(fitted):
    for y, loss, words in (
        ([NUMBERS, LABELS], [None, None], "at least one output"),
        (TARGETS, {"none": "mse"}, r"outputs, \['one', 'two'\]"),
        ([NUMBERS, LABELS], ["mse"], "got 1, 2 and 2"),
    ):
        with pytest.raises(ValueError, match=words):
            fitted(two_outputs(), X, y, loss=loss)


def test_several_inputs_in_a_list(fitted):
    inputs = [keras.Input((5,)), keras.Input((2,))]
    model = keras.Model(inputs, layers.Dense(1)(layers.Concatenate()(inputs)))
    assert fitted(model, [X, X[:, :2]], NUMBERS).ledger.updates == 1
    with pytest.raises(ValueError, match="2 array.* got 1"):
        fitted(model, X, NUMBERS)


REFUSED = {
    "ragged": (tf.RaggedTensor.from_row_lengths(np.ones(2 * N, np.float32), [2] * N), "to_tensor"),
    "sparse": (tf.sparse.from_dense(X), "tf.sparse.to_dense"),
    "scipy": (scipy.sparse.csr_matrix(X), "toarray"),
}


@each("name", REFUSED)
def test_ragged_and_sparse_rows_are_rejected_with_what_to_do(name, fitted):
    data, remedy = REFUSED[name]
    with pytest.raises(TypeError, match=remedy):
        fitted(one_output(), data, NUMBERS)


@each("weights", [{"one": np.ones(N)}, [np.ones(N), np.ones(N)]])
def test_weights_by_output_are_rejected_with_what_to_do(weights, fitted):
    with pytest.raises(ValueError, match="loss_weights"):
        fitted(two_outputs(), X, [NUMBERS, NUMBERS], sample_weight=weights)


def test_batch_size_is_the_expected_lot_size(fitted):
    assert fitted(one_output(), X, NUMBERS, batch_size=N).ledger.updates == 1
    with pytest.raises(ValueError, match="batch_size=40.* 8"):
        fitted(one_output(), X, NUMBERS, batch_size=8)


def test_arguments_are_in_the_order_of_keras(private):
    trained = private(one_output(), steps=4)
    trained.compile("sgd", "mse")
    epochs = []
    count = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, _: epochs.append(epoch))
    trained.fit(X, NUMBERS, 10, 1, 0, [count])
    assert (trained.ledger.updates, epochs) == (4, [0])


class Batches(keras.utils.Sequence):
    def __init__(self, random=False):
        self.random = random

    def __len__(self):
        return 4

    def __getitem__(self, i):
        rows = slice(10 * i, 10 * i + 10)
        noise = np.random.normal(size=(10, 5)).astype(np.float32) if self.random else 0
        return X[rows] + noise, NUMBERS[rows]


def test_rows_of_a_sequence_are_sampled(private):
    trained = private(one_output(), steps=4)
    trained.compile("sgd", "mse")
    with pytest.warns(UserWarning, match="4 items of Batches are read once.*40 rows are Poisson"):
        trained.fit(Batches(), epochs=1, verbose=0)
    assert trained.ledger.guarantee_holds and trained.ledger.updates == 4
    # It may have made items of several examples, as by their mean.
    assert caveat("source_of_own_code") in trained.ledger.state.caveats


def test_a_sequence_that_changes_voids_the_guarantee(private):
    trained = private(one_output(), steps=4)
    trained.compile("sgd", "mse")
    with pytest.warns(UserWarning, match="No privacy guarantee holds"):
        trained.fit(Batches(random=True), epochs=1, verbose=0)
    assert not trained.ledger.guarantee_holds


@each("count", [0, 3, 5])
def test_a_sequence_of_other_rows_than_planned_is_named(private, count):
    class Some(Batches):
        def __len__(self):
            return max(1, count)

        def __getitem__(self, i):
            return (X[:0], NUMBERS[:0]) if count == 0 else (X[:10], NUMBERS[:10])

    trained = private(one_output(), steps=4)
    trained.compile("sgd", "mse")
    with pytest.raises(ValueError, match=f"40 rows.*got {10 * count}"):
        trained.fit(Some(), epochs=1, verbose=0)
    assert trained.ledger.updates == 0 and trained.ledger.guarantee_holds


def test_a_sequence_of_rows_of_several_shapes_is_named(private):
    class Ragged(Batches):
        def __getitem__(self, i):
            return X[:10, : 5 - i], NUMBERS[:10]

    trained = private(one_output(), steps=4)
    trained.compile("sgd", "mse")
    with pytest.raises(ValueError, match="items of Ragged"):
        trained.fit(Ragged(), epochs=1, verbose=0)


def test_texts_are_compared_by_what_they_say():
    rows = [["a", "bc"], ["ab", "c"], ["a", "bc"]]
    as_text, as_bytes = np.array(rows), np.array(rows, object)
    as_bytes[:] = [[text.encode() for text in row] for row in rows]
    for array in (as_text, as_text.astype(bytes), as_bytes):
        one, other, again = row_bytes(array, array.dtype)
        assert one == again != other
        assert [one, other, again] == list(row_bytes(as_text, as_text.dtype))
    with pytest.raises(TypeError, match="got a int"):
        list(row_bytes(np.array([1, "a"], object), np.dtype(object)))


def test_layers_thawed_after_compile_are_named(private):
    model = keras.Sequential([keras.Input((5,)), layers.Dense(2, name="inner"), layers.Dense(1)])
    model.layers[0].trainable = False
    trained = private(model)
    trained.compile("sgd", "mse")
    model.layers[0].trainable = True
    with pytest.raises(ValueError, match="compile.*inner/kernel:0', '.*inner/bias:0'"):
        trained.fit(X, NUMBERS, verbose=0)
    assert trained.ledger.updates == 0
    trained.compile("sgd", "mse")
    trained.fit(X, NUMBERS, verbose=0, epochs=1)
