"""`fit` takes the data in the forms that Keras takes, or says what to do instead."""

import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.data.arrays import row_bytes
from tfdpnorm.keras_compat.variables import KERAS_3
from tfdpnorm.privacy.caveats import caveat

layers = keras.layers
N = 40
CE = keras.losses.SparseCategoricalCrossentropy
X = np.random.default_rng(3).normal(size=(N, 5)).astype(np.float32)
NUMBERS, LABELS = X[:, :1].copy(), np.arange(N) % 3


def one_output(shape=(5,), **options):
    inputs = keras.Input(shape, **options)
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
    "list": ([NUMBERS, LABELS], ["mse", CE(True)], None),
    "tuple": ((NUMBERS, LABELS), ["mse", CE(True)], [1.0, 2.0]),
    "dict": (TARGETS, {"one": "mse", "two": CE(True)}, {"two": 0.5}),
    "loss_none": ([NUMBERS, LABELS], ["mse", None], None),
    "first_none": ([NUMBERS, LABELS], [None, CE(True)], None),
    "dict_of_one_loss": (TARGETS, {"two": CE(True)}, None),
}
# Plain Keras 3 wants these written out.
IN_FULL = {
    "dict": {"loss_weights": {"one": 1.0, "two": 0.5}},
    "dict_of_one_loss": {"loss": {"one": None, "two": CE(True)}},
}


@pytest.mark.quick_cases("loss_none", "dict")
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


def test_missing_losses_are_rejected(fitted):
    with pytest.raises(ValueError, match="Expected a loss for at least one output"):
        fitted(two_outputs(), X, [NUMBERS, LABELS], loss=[None, None])


def test_another_name_than_an_output_s_is_rejected(private):
    trained = private(two_outputs())
    trained.compile("sgd", {"none": "mse"})
    with pytest.raises(ValueError, match=r"names of the model's outputs, \['one', 'two'\]"):
        trained.fit(X, TARGETS, verbose=0)
    assert trained.ledger.updates == 0


def test_several_inputs_in_a_list(fitted):
    inputs = [keras.Input((5,)), keras.Input((2,))]
    model = keras.Model(inputs, layers.Dense(1)(layers.Concatenate()(inputs)))
    assert fitted(model, [X, X[:, :2]], NUMBERS).ledger.updates == 1
    with pytest.raises(ValueError, match="Expected x to hold 2 array.* got 1"):
        fitted(model, X, NUMBERS)


def test_texts_for_numbers_are_rejected(fitted):
    with pytest.raises(TypeError, match="^Expected numbers for input .* got texts.*hash_tokens"):
        fitted(one_output(), np.array([["a"] * 5] * N), NUMBERS)


@pytest.mark.slow
def test_texts_for_layers_that_look_them_up(fitted, private):
    texts = np.array(["red", "green", "blue", "grün"] * 10)[:, np.newaxis]
    lookup = layers.StringLookup(vocabulary=["red", "green", "grün"], output_mode="one_hot")
    inputs = keras.Input((1,), dtype="string")
    for given in (texts, texts.astype(object), tf.constant(texts), np.char.encode(texts, "utf-8")):
        model = keras.Model(inputs, layers.Dense(1, kernel_initializer="zeros")(lookup(inputs)))
        weights = fitted(model, given, NUMBERS).get_weights()
        np.testing.assert_array_equal(weights[0] != 0, [[True]] * 4)


@pytest.mark.parametrize("engine", [None, "book_keeping", "per_example"])
def test_words_are_split_before_the_model(engine, private):
    layer = layers.TextVectorization(vocabulary=["a", "b"], output_sequence_length=3, name="words")
    inputs = keras.Input((), dtype="string")
    x = layers.Flatten()(layers.Embedding(4, 2)(layer(inputs)))
    with pytest.raises(ValueError, match="^The model contains TextVectorization 'words'") as caught:
        private(keras.Model(inputs, layers.Dense(1)(x)), engine=engine, validate=True)
    assert "x = layer(texts).numpy()" in str(caught.value) and "\n" not in str(caught.value)


def test_the_remedy_for_words_helps(fitted):
    layer = layers.TextVectorization(vocabulary=["a", "b"], output_sequence_length=3)
    texts = np.array(["a b", "b a a c", "", "b"] * 10)
    model = keras.Sequential([keras.Input((3,), dtype="int64"), layers.Embedding(4, 2)])
    model.add(layers.Flatten())
    model.add(layers.Dense(1))
    trained = fitted(model, layer(texts).numpy(), NUMBERS)
    served = keras.Sequential([layer, trained.servable()])
    assert served(tf.constant(texts)).shape == (N, 1)


REFUSED = {
    "ragged": (tf.RaggedTensor.from_row_lengths(np.ones(2 * N, np.float32), [2] * N), "to_tensor"),
    "sparse": (tf.sparse.from_dense(X), "tf.sparse.to_dense"),
    "scipy": (scipy.sparse.csr_matrix(X), "toarray"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_ragged_and_sparse_rows_are_rejected_with_what_to_do(name, fitted):
    data, remedy = REFUSED[name]
    with pytest.raises(TypeError, match=f"^Expected x to be a dense array.*{remedy}"):
        fitted(one_output(), data, NUMBERS)


def test_texts_are_no_targets(fitted):
    with pytest.raises(TypeError, match="Expected labels as numbers in y, .*Map the class names"):
        fitted(one_output(), X, np.array(["a"] * N))


@pytest.mark.parametrize("weights", [{"one": np.ones(N)}, [np.ones(N), np.ones(N)]])
def test_weights_by_output_are_rejected_with_what_to_do(weights, fitted):
    with pytest.raises(ValueError, match="got weights by output.*loss_weights"):
        fitted(two_outputs(), X, [NUMBERS, NUMBERS], sample_weight=weights)


def test_batch_size_is_the_expected_lot_size(fitted):
    assert fitted(one_output(), X, NUMBERS, batch_size=N).ledger.updates == 1
    with pytest.raises(ValueError, match="^Expected batch_size=40, the expected_batch_size .* 8"):
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


@pytest.mark.parametrize("count", [0, 3, 5])
def test_a_sequence_of_other_rows_than_planned_is_named(private, count):
    class Some(Batches):
        def __len__(self):
            return max(1, count)

        def __getitem__(self, i):
            return (X[:0], NUMBERS[:0]) if count == 0 else (X[:10], NUMBERS[:10])

    trained = private(one_output(), steps=4)
    trained.compile("sgd", "mse")
    with pytest.raises(
        ValueError, match=f"the 40 rows of the plan, got {10 * count}. If it leaves"
    ):
        trained.fit(Some(), epochs=1, verbose=0)
    assert trained.ledger.updates == 0 and trained.ledger.guarantee_holds


def test_a_sequence_of_rows_of_several_shapes_is_named(private):
    class Ragged(Batches):
        def __getitem__(self, i):
            return X[:10, : 5 - i], NUMBERS[:10]

    trained = private(one_output(), steps=4)
    trained.compile("sgd", "mse")
    with pytest.raises(
        ValueError, match="items of Ragged that differ only in their number of rows"
    ):
        trained.fit(Ragged(), epochs=1, verbose=0)


def test_texts_are_compared_by_what_they_say():
    rows = [["a", "bc"], ["ab", "c"], ["a", "bc"]]
    as_text, as_bytes = np.array(rows), np.array(rows, object)
    as_bytes[:] = [[text.encode() for text in row] for row in rows]
    for array in (as_text, as_text.astype(bytes), as_bytes):
        one, other, again = row_bytes(array, array.dtype)
        assert one == again != other
        assert [one, other, again] == list(row_bytes(as_text, as_text.dtype))
    with pytest.raises(TypeError, match="Expected texts to compare with texts, got a int"):
        list(row_bytes(np.array([1, "a"], object), np.dtype(object)))


def with_a_dict_of_outputs():
    """Its keys are not the names of the layers, whose order is another one."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((5,))
    first, second = layers.Dense(3, name="z")(inputs), layers.Dense(1, name="y")(inputs)
    return keras.Model(inputs, {"a": first, "b": second})


@pytest.mark.slow
def test_a_dict_of_outputs_goes_by_its_own_keys(fitted):
    targets = {"b": NUMBERS, "a": LABELS}
    options = {"loss": {"a": CE(from_logits=True), "b": "mae"}, "loss_weights": {"b": 0.3}}
    made = fitted(with_a_dict_of_outputs(), X, targets, **options)
    options["loss_weights"]["a"] = 1.0  # Plain Keras 3 wants them all.
    expected = as_keras(with_a_dict_of_outputs(), X, targets, **options)
    for one, other in zip(made.model.get_weights(), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.quick_cases("True")
@pytest.mark.parametrize("frozen", [True, False])
def test_layers_frozen_or_thawed_after_compile_are_named(private, frozen):
    model = keras.Sequential([keras.Input((5,)), layers.Dense(2, name="inner"), layers.Dense(1)])
    model.layers[0].trainable = frozen
    trained = private(model)
    trained.compile("sgd", "mse")
    model.layers[0].trainable = not frozen
    with pytest.raises(
        ValueError, match="changed after compile.*: '.*inner/kernel:0', '.*inner/bias:0'"
    ):
        trained.fit(X, NUMBERS, verbose=0)
    assert trained.ledger.updates == 0
    trained.compile("sgd", "mse")
    trained.fit(X, NUMBERS, verbose=0, epochs=1)
