"""A model of two linear layers, and its clipped gradient sum in NumPy."""

import math

import numpy as np
from tensorflow import keras

from tests.lots import laid_out
from tfdpnorm.data import Lot

FEATURES, HIDDEN, OUTPUTS = 4, 3, 2


def linear_model():
    """Keras model, [rows, 4] to [rows, 2]; for the loss "mse"."""
    return keras.Sequential(
        [keras.Input((FEATURES,)), keras.layers.Dense(HIDDEN), keras.layers.Dense(OUTPUTS)]
    )


def lot_of(x, y, sample_weight=None, rows=None):
    """A `Lot` of all rows given, in physical batches of `rows`."""
    rows = min(rows or len(x), len(x))
    count = -(-len(x) // rows)
    ones = np.ones(len(x), np.float32)
    weight = ones if sample_weight is None else np.asarray(sample_weight, np.float32)
    return Lot(*(laid_out(each, count, rows) for each in (x, y, weight, ones)))


def clipped_rows(weights, x, y, clip, clipping="flat", clip_function="abadi"):
    """The clipped gradients of `linear_model` by each row, [rows, weights], in float64."""
    w1, b1, w2, b2 = (np.asarray(w, np.float64) for w in weights)
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    hidden = x @ w1 + b1
    error = (hidden @ w2 + b2 - y) * 2 / OUTPUTS
    back = error @ w2.T
    rows = len(x)
    first = np.concatenate([np.einsum("ni,nj->nij", x, back).reshape(rows, -1), back], 1)
    second = np.concatenate([np.einsum("ni,nj->nij", hidden, error).reshape(rows, -1), error], 1)
    if clipping == "flat":
        return _clipped(np.concatenate([first, second], 1), clip, clip_function)
    share = clip / math.sqrt(2)
    return np.concatenate([_clipped(g, share, clip_function) for g in (first, second)], 1)


def _clipped(gradients, clip, clip_function):
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    if clip_function == "automatic":
        return gradients * (clip / (norms + 0.01))
    return gradients * np.minimum(1.0, clip / np.maximum(norms, 1e-300))


def vector(tensors):
    """Tensors as one NumPy vector in float64."""
    return np.concatenate([np.asarray(t, np.float64).ravel() for t in tensors])
