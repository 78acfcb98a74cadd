"""Lots that are laid out by hand."""

import numpy as np
import tensorflow as tf


def laid_out(array, batches, rows):
    """The rows of an array, with zeros behind them, as a tensor [batches, rows, ...]."""
    spare = batches * rows - len(array)
    array = np.concatenate([array, np.zeros((spare, *array.shape[1:]), array.dtype)])
    return tf.constant(array.reshape(batches, rows, *array.shape[1:]))
