"""Lots that are laid out by hand."""

import numpy as np
import tensorflow as tf


def laid_out(array, batches, rows):
    """The rows of an array in slots of a tensor [batches, rows, ...], with zeros among them.

    Arrays of equal length get the same slots: mixed, and always the same.
    """
    slots = np.random.default_rng(batches).permutation(batches * rows)[: len(array)]
    full = np.zeros((batches * rows, *array.shape[1:]), array.dtype)
    full[slots] = array
    return tf.constant(full.reshape(batches, rows, *array.shape[1:]))
