"""Masked steps of recurrent layers, in every way that Keras runs them, against single examples."""

import itertools

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.gradients.looped_reference import looped_sum, relative_error
from tfdpnorm.gradients import book_keeping
from tfdpnorm.keras_compat.variables import KERAS_3

layers = keras.layers
STEPS, FEATURES, UNITS = 5, 3, 2
# First, middle and last steps that do not count; all of them; and none.
MASK = [[0, 0, 1, 1, 1], [1, 1, 0, 1, 1], [1, 1, 1, 0, 0], [0, 1, 0, 0, 1], [0] * 5, [1] * 5]


class Masked(keras.Model):
    """Recurrent layers on pairs of sequences and masks, [rows, steps, ...] each, side by side."""

    def __init__(self, layers):
        super().__init__()
        self.all = layers

    def call(self, inputs):
        x, mask = inputs
        found, mask = [], tf.cast(mask, tf.bool)
        for layer in self.all:
            if getattr(layer, "time_major", False):
                y = layer(tf.transpose(x, [1, 0, 2]), mask=tf.transpose(mask))
                y = tf.transpose(y, [1, 0, 2]) if layer.return_sequences else y
            else:
                y = layer(x, mask=mask)
            found.append(tf.reshape(y, [tf.shape(y)[0], y.shape[1:].num_elements()]))
        return tf.concat(found, 1)


def assert_equals_single_examples(*layers):
    rng = np.random.default_rng(0)
    model, count = Masked(layers), len(MASK)
    x = rng.normal(size=(count, STEPS, FEATURES)).astype(np.float32)
    inputs = (tf.constant(x), tf.constant(MASK, tf.float32))
    model(inputs)
    for weight in model.trainable_variables:
        weight.assign(rng.normal(size=weight.shape))
    # Another number for each output, so that none stands for another.
    numbers = tf.constant(rng.normal(size=model(inputs).shape[1:]), tf.float32)

    def loss_fn(x, y, sample_weight):
        outputs = model(x, training=True)
        losses = tf.reduce_sum(tf.square(outputs - numbers), list(range(1, outputs.shape.rank)))
        return losses * sample_weight, outputs

    rows = (inputs, tf.zeros([count]), tf.ones([count]), np.ones(count, np.float32))
    for clip in (0.5, 1e6):
        actual = book_keeping(model, loss_fn, rows, model.trainable_variables, clip)
        expected = looped_sum(loss_fn, rows, model.trainable_variables, clip)
        assert relative_error([g.numpy() for g in actual.gradients], expected) < 1e-5
        np.testing.assert_allclose(actual.predictions, loss_fn(*rows[:3])[1], atol=1e-5)


@each("kind", [layers.LSTM, layers.GRU, layers.SimpleRNN])
def test_masked_steps_equal_single_examples(kind):
    names = ("return_sequences", "go_backwards", "zero_output_for_mask")
    of = []
    for values in itertools.product((False, True), repeat=3):
        options = dict(zip(names, values, strict=True))
        if options["return_sequences"] or not options["zero_output_for_mask"]:
            of.append(kind(UNITS, unroll=True, **options))  # Keras itself fails otherwise
    of.append(kind(UNITS, return_sequences=True, go_backwards=True, zero_output_for_mask=True))
    assert_equals_single_examples(*of)


def test_other_ways_through_the_steps_equal_single_examples():
    options = dict(unroll=True, return_sequences=True)
    backwards = dict(options, go_backwards=True, zero_output_for_mask=True)
    of = [
        layers.GRU(UNITS, reset_after=False, **backwards),
        layers.LSTM(UNITS, implementation=1, **backwards),
        layers.Bidirectional(layers.LSTM(UNITS, **options)),
        layers.Bidirectional(layers.SimpleRNN(UNITS)),
    ]
    if not KERAS_3:  # which has no time_major
        of.append(layers.SimpleRNN(UNITS, time_major=True, **backwards))
    assert_equals_single_examples(*of)
