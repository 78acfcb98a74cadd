"""Masks in the loss of each example: its own steps, whatever the others' masks."""

import warnings

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.training.losses import PerExampleLoss, example_means

VALUES = np.arange(1.0, 13.0, dtype=np.float32).reshape(3, 4)
MASK = np.array([[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]], bool)


def test_the_mean_is_over_the_examples_own_valid_steps():
    means = example_means(tf.constant(VALUES), tf.constant(MASK))
    np.testing.assert_allclose(means, [1.5, 6.5, 0.0])


def test_examples_do_not_change_divisors_of_others():
    """A count over the batch would be released without noise, and is no loss of one example."""
    before = example_means(tf.constant(VALUES), tf.constant(MASK))
    for row in range(3):
        changed = MASK.copy()
        changed[row] = ~changed[row]
        after = example_means(tf.constant(VALUES), tf.constant(changed))
        others = np.arange(3) != row
        np.testing.assert_array_equal(after.numpy()[others], before.numpy()[others])


def test_masked_steps_may_be_nan():
    values = np.where(MASK, VALUES, np.nan).astype(np.float32)
    np.testing.assert_allclose(example_means(tf.constant(values), tf.constant(MASK)), [1.5, 6.5, 0])


def test_shapes_of_masks():
    for mask, expected in ((MASK[..., None], [1.5, 6.5, 0]), (MASK[:, 0], [2.5, 6.5, 0])):
        np.testing.assert_allclose(example_means(tf.constant(VALUES), tf.constant(mask)), expected)
    with pytest.raises(ValueError, match="mask"):
        example_means(tf.constant(VALUES), tf.constant(MASK[:, :1]))


def test_masks_of_predictions_and_loss_are_both_used():
    logits = np.random.default_rng(0).normal(size=(3, 4, 2)).astype(np.float32)
    y = np.array([[0, -1, 1, 0], [1, 0, -1, 0], [0, 0, 0, 0]])
    predictions = tf.constant(logits)
    predictions._keras_mask = tf.constant(MASK)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    loss = PerExampleLoss(loss)
    with pytest.warns(UserWarning, match="valid steps"):
        values = loss(tf.constant(y), predictions)
    each = (
        np.log(np.exp(logits).sum(-1))
        - np.take_along_axis(logits, np.maximum(y, 0)[..., None], -1)[..., 0]
    )
    valid = MASK & (y != -1)
    expected = (each * valid).sum(1) / np.maximum(valid.sum(1), 1)
    np.testing.assert_allclose(values, expected, rtol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss(tf.constant(y), predictions)
