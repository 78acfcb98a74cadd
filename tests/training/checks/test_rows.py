"""Private training refuses what lets an example change another's gradient, before any update."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras


class Centred(keras.layers.Layer):
    """Subtracts the mean of the batch, where no list of known layers looks for it."""

    def call(self, inputs):
        return inputs - tf.reduce_mean(inputs, axis=0, keepdims=True)


class Remembering(keras.layers.Layer):
    def build(self, shape):
        self.mean = self.add_weight(name="mean", shape=shape[1:], trainable=False)

    def call(self, inputs):
        self.mean.assign(0.9 * self.mean + 0.1 * tf.reduce_mean(inputs, axis=0))
        return inputs


class Late(keras.Model):
    """Has no layers, and no input shape, before it is called."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.head = layer, keras.layers.Dense(3)

    def call(self, inputs):
        return self.head(self.layer(inputs))


def model_with(layer):
    first, last = keras.layers.Dense(4), keras.layers.Dense(3)
    return keras.Sequential([keras.Input((5,)), first, layer, last])


@pytest.fixture
def checked(private):
    """Returns `make_private` with the checks that the other tests leave out."""
    return lambda model, **settings: private(model, **{"validate": True, **settings})


def test_a_layer_that_mixes_rows_is_refused_when_made_private(checked):
    with pytest.raises(ValueError, match="Expected rows that do not depend on one another"):
        checked(model_with(Centred()))


def test_a_layer_that_remembers_rows_is_refused_when_made_private(checked):
    with pytest.raises(ValueError, match="mean"):
        checked(model_with(Remembering()))


@pytest.mark.parametrize("layer", [Centred, Remembering])
def test_a_model_of_unknown_shape_is_refused_by_fit(checked, data, cross_entropy, layer):
    trained = checked(Late(layer()))
    trained.compile("sgd", cross_entropy)
    with pytest.raises(ValueError, match="Expected"):
        trained.fit(*data, verbose=0)
    assert trained.ledger.updates == 0


def test_a_loss_that_looks_at_other_rows_is_refused_by_fit(checked, build, data):
    def relative(y, predictions):
        losses = tf.keras.losses.sparse_categorical_crossentropy(y, predictions, from_logits=True)
        return losses / tf.reduce_max(losses)

    trained = checked(build("functional"))
    trained.compile("sgd", relative)
    with pytest.raises(ValueError, match="Expected rows.*the loss"):
        trained.fit(*data, verbose=0)
    assert trained.ledger.updates == 0
    trained.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    trained.fit(*data, verbose=0, epochs=1)
    assert trained.ledger.updates == 4


@pytest.mark.parametrize(
    "augmentation",
    [
        lambda x: 0.7 * x + 0.3 * tf.roll(x, 1, axis=0),
        lambda x: tf.random.shuffle(x),
        lambda x: x - tf.reduce_mean(x),
    ],
    ids=["mixup", "shuffle", "centring"],
)
def test_an_augmentation_that_mixes_rows_is_refused(checked, build, augmentation):
    with pytest.raises(ValueError, match="the augmentation"):
        checked(build("functional"), augmentation=augmentation, augmentation_multiplicity=2)


def test_one_that_mixes_rows_is_found_among_several(checked, build):
    mixing = [tf.identity, lambda x: tf.roll(x, 1, 0)]
    with pytest.raises(ValueError, match="the augmentation"):
        checked(build("functional"), augmentation=mixing, augmentation_multiplicity=2)


def test_an_augmentation_of_each_row_is_not(checked, build):
    checked(build("functional"), augmentation=lambda x: x + tf.random.normal(tf.shape(x)))
    checked(build("functional"), augmentation=keras.layers.GaussianNoise(0.3))


@pytest.mark.parametrize("statistics", ["public", "blend", "example"])
def test_public_statistics_are_seen_to_be_private(checked, build, public, statistics):
    checked(build("functional", "public_batch", statistics=statistics), public_batch=public)


def test_lot_statistics_have_no_guarantee_anyway(checked, build, public, data, cross_entropy):
    trained = checked(build("functional", "public_batch", statistics="lot"), public_batch=public)
    trained.compile("sgd", cross_entropy)
    trained.fit(*data, verbose=0, epochs=1)
    assert not trained.ledger.guarantee_holds


def test_without_the_checks_the_statement_says_so(private, data, cross_entropy):
    trained = private(model_with(Centred()), validate=False)
    trained.compile("sgd", cross_entropy)
    trained.fit(*data, verbose=0, epochs=1)
    assert "its checks were switched off" in trained.privacy_statement()


def test_what_cannot_be_checked_is_said_twice(checked, data, cross_entropy):
    class Choosy(keras.Model):
        def __init__(self):
            super().__init__()
            self.head = keras.layers.Dense(3)

        def call(self, inputs):
            tf.debugging.assert_less(inputs, 10.0, "the sensor gives less than 10")
            return self.head(inputs)

    trained = checked(Choosy())
    trained.compile("sgd", cross_entropy)
    with pytest.warns(UserWarning, match="could not be checked"):
        trained.fit(*data, verbose=0, epochs=1)
    assert trained.ledger.updates == 4
    assert "not checked for" in trained.privacy_statement()


@pytest.mark.slow
def test_checking_changes_nothing(checked, build, data, cross_entropy):
    """Neither weights nor the random numbers that a user draws."""

    def numbers(**settings):
        keras.utils.set_random_seed(3)
        model = build("functional")
        trained = checked(model, insecure_seed=1, **settings)
        trained.compile("sgd", cross_entropy)
        trained.fit(*data, verbose=0, epochs=1)
        return np.concatenate([w.ravel() for w in model.get_weights()]), tf.random.normal([4])

    for plain, probed in zip(numbers(validate=False), numbers(), strict=True):
        np.testing.assert_array_equal(plain, probed)
