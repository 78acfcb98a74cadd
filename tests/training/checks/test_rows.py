"""Private training rejects what lets an example change another's gradient, before any update."""

import types

import pytest
import tensorflow as tf
from tensorflow import keras


class Centred(keras.layers.Layer):
    """Subtracts the mean of the batch, where no list of known layers looks for it."""

    def call(self, inputs):
        return inputs - tf.reduce_mean(inputs, axis=0, keepdims=True)


def model_with(layer):
    first, last = keras.layers.Dense(4), keras.layers.Dense(3)
    return keras.Sequential([keras.Input((5,)), first, layer, last])


def test_a_loss_that_looks_at_other_rows_is_rejected_by_fit(private, build, data):
    def relative(y, predictions):
        losses = tf.keras.losses.sparse_categorical_crossentropy(y, predictions, from_logits=True)
        return losses / tf.reduce_max(losses)

    trained = private(build("functional"))
    trained.compile("sgd", relative)
    with pytest.raises(ValueError, match="the losses.*works along the axis of the examples"):
        trained.fit(*data, verbose=0)
    assert trained.ledger.updates == 0
    trained.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    trained.fit(*data, verbose=0, epochs=1)
    assert trained.ledger.updates == 4


def statement_of(private, data, loss):
    private.compile("sgd", loss)
    x, y = data
    private.fit(x, y, verbose=0, epochs=1)
    assert private.ledger.updates == 4
    return " ".join(private.privacy_statement().split())


class TestTheOneJudge:
    """Each way on which a run comes to its first update, and what the statement then says."""

    NOTHING = "per-example independence, which clipping requires, was not verified: "

    def test_verified_models_have_a_guarantee(self, private, build, data, cross_entropy):
        said = statement_of(private(build("functional")), data, cross_entropy)
        assert "verified from the graph" in said and "NO GUARANTEE" not in said

    def test_without_the_checks_there_is_no_guarantee(self, private, build, data, cross_entropy):
        for model in (model_with(Centred()), build("subclassed"), build("functional")):
            said = statement_of(private(model, validate=False), data, cross_entropy)
            assert said.startswith("NO GUARANTEE")
            assert self.NOTHING + "its checks were switched off (validate=False)" in said

    def test_rows_of_unknown_number_are_no_guarantee(self, compiled, private, build, data):
        private = compiled(build("functional"))
        private.independence_checks.judge(None, None)
        (reason,) = private.ledger.state.sentences("no_guarantee")
        assert self.NOTHING + "the number of rows of a batch was not known" in reason

    def test_sums_of_engines_of_others_are_no_guarantee(self, compiled, private, build):
        private = compiled(build("functional"))
        foreign = {"one_pass": False, "runs_rows_apart": False, "name": "tfp_vectorized"}
        private._update.engine.now = types.SimpleNamespace(**foreign)
        private.independence_checks.judge(types.SimpleNamespace(holds=True), 4)
        (reason,) = private.ledger.state.sentences("no_guarantee")
        assert "'tfp_vectorized' of TensorFlow Privacy" in reason

    @pytest.mark.needs_tensorflow_privacy
    def test_engines_of_tensorflow_privacy_are_not_verified(
        self, private, build, data, cross_entropy
    ):
        said = statement_of(private(build(), engine="tfp_vectorized"), data, cross_entropy)
        assert said.startswith("NO GUARANTEE") and "'tfp_vectorized' of TensorFlow Privacy" in said
