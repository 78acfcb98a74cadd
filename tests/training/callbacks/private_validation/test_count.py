"""PrivateValidation: what it counts, and that no row moves the count by more than one."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.training.callbacks.private_validation.queries import count
from tfdpnorm.training.callbacks import private_validation
from tfdpnorm.training.callbacks.private_validation import PrivateValidation


class TestCount:
    def test_one_row_moves_it_by_at_most_one(self, build, private, public, validation):
        """Rows far off, too: under batch statistics of its own they would move the others."""
        trained = private(build(norm="public_batch"), public_batch=public)
        x, y = validation
        trained(x)
        before = PrivateValidation(x, y, noise_multiplier=1.0, batch_size=30)
        before.set_model(trained)
        right = before._judge(x, y)
        for row, scale in [(0, 1e6), (13, -3.0), (29, 1e30)]:
            x_after, y_after = x.copy(), y.copy()
            x_after[row] *= np.float32(scale)
            y_after[row] = (y[row] + 1) % 3
            after = before._judge(x_after, y_after)
            assert set(np.flatnonzero(after != right)) <= {row}
            assert abs(int(after.sum()) - int(right.sum())) <= 1

    def test_nan_is_wrong(self, validation):
        """Though NumPy's argmax finds NaN to be the largest."""
        weights = np.eye(5, 3, dtype=np.float32)
        weights[0, 0] = np.nan
        model = keras.Sequential([keras.layers.Dense(3, use_bias=False, input_shape=(5,))])
        model.set_weights([weights])
        x, y = np.ones((6, 5), np.float32), np.zeros(6, int)
        assert count(PrivateValidation(x, y, noise_multiplier=1), model) == 0
        single = keras.Sequential([keras.layers.Dense(1, use_bias=False, input_shape=(5,))])
        single.set_weights([weights[:, :1]])
        callback = PrivateValidation(x, y, noise_multiplier=1, from_logits=True)
        assert count(callback, single) == 0

    def test_forms_of_class_numbers(self, build, validation):
        x, y = validation
        model = build()
        expected = (model.predict(x, verbose=0).argmax(1) == y).sum()
        one_hot = keras.utils.to_categorical(y, 3)
        for given in (y, y[:, np.newaxis], one_hot, y.astype(np.float64)):
            assert count(PrivateValidation(x, given, noise_multiplier=1), model) == expected

    @each("from_logits, right, shape", [(True, 3, ()), (False, 2, (1,))])
    def test_single_outputs(self, from_logits, right, shape):
        """0.3 is class 1 as a logit, and class 0 as a probability."""
        model = keras.Sequential([keras.layers.Reshape(shape, input_shape=(1,))])
        x, y = np.array([[0.9], [0.3], [-0.1], [0.7]], np.float32), np.array([1, 1, 0, 0])
        callback = PrivateValidation(x, y, noise_multiplier=1, from_logits=from_logits)
        assert count(callback, model) == right

    def test_an_own_judgement_of_several_outputs(self, validation):
        left, right = keras.Input((2,)), keras.Input((3,))
        model = keras.Model(
            {"left": left, "right": right},
            [keras.layers.Dense(1)(left), keras.layers.Dense(2)(right)],
        )
        x = {"left": validation[0][:, :2], "right": validation[0][:, 2:]}
        callback = PrivateValidation(
            x,
            (validation[1], validation[1]),
            noise_multiplier=1,
            correct=lambda y, p: (y[0] == y[1]) & (p[0][:, 0] > p[1][:, 0]),
        )
        one, two = model.predict(x, verbose=0)
        assert count(callback, model) == (one[:, 0] > two[:, 0]).sum()


class Meeting(keras.layers.Layer):
    """Takes the mean of many rows away, in inference."""

    def call(self, x, training=None):
        if training:
            return x
        return tf.cond(tf.shape(x)[0] > 20, lambda: x - tf.reduce_mean(x, 0), lambda: x)


class Keeping(keras.layers.Layer):
    """Counts rows in inference."""

    def __init__(self):
        super().__init__()
        self.rows = tf.Variable(0.0, trainable=False)

    def call(self, x, training=None):
        if not training:
            self.rows.assign_add(1.0)
        return x


class TestRowsThatMeet:
    @pytest.mark.filterwarnings("ignore:Per-example independence")
    @pytest.mark.parametrize("batch_size", [8, 256])
    def test_they_are_asked_one_by_one(self, batch_size, private, data, validation, monkeypatch):
        network = keras.Sequential([keras.Input((5,)), Meeting(), keras.layers.Dense(3)])
        trained = private(network)
        asked = PrivateValidation(*validation, noise_multiplier=1.0, batch_size=batch_size)
        monkeypatch.setattr(private_validation, "_whole_noise", lambda stddev: 0)
        alone = np.concatenate([network.predict(x[np.newaxis], verbose=0) for x in validation[0]])
        right = np.mean(alone.argmax(axis=1) == validation[1])
        assert asked.measure(trained) == right
        assert trained.rows_to_predict_at_once(validation[0], batch_size) == (
            8 if batch_size == 8 else 1
        )

    @pytest.mark.filterwarnings("ignore:Per-example independence")
    def test_the_last_rows_are_looked_at_too(self, private, validation):
        """30 rows, 8 at a time, end with 6."""
        of_six = keras.layers.Lambda(
            lambda x: tf.cond(tf.shape(x)[0] == 6, lambda: x - tf.reduce_mean(x, 0), lambda: x)
        )
        trained = private(keras.Sequential([keras.Input((5,)), of_six, keras.layers.Dense(3)]))
        assert trained.rows_to_predict_at_once(validation[0], 8) == 1
        assert trained.rows_to_predict_at_once(validation[0], 10) == 10

    @pytest.mark.filterwarnings("ignore:Per-example independence")
    def test_a_model_that_keeps_something_is_rejected(self, private, validation):
        network = keras.Sequential([keras.Input((5,)), Keeping(), keras.layers.Dense(3)])
        trained = private(network)
        with pytest.raises(ValueError, match="Inference changes a variable"):
            PrivateValidation(*validation, noise_multiplier=1.0).measure(trained)
        assert trained.ledger.state.queries() == 0
