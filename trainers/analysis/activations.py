"""How the activations of a residual block are scaled: its two paths, and what leaves it."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.models import number_of_calls
from tfdpnorm.layers import ScaleNorm


class Moments(NamedTuple):
    """The distribution of the numbers of an activation: how many each bin holds, [bins].

    `edges` are those of the bins, [bins + 1]; `mean` and `stddev` are of all numbers.
    """

    counts: np.ndarray
    edges: np.ndarray
    mean: float
    stddev: float


class BlockActivations(NamedTuple):
    """`Moments` of V_R, V_F and V_A in the terms of Klause et al. (2022), Figure 1.

    These are the residual (skip) path, the path of the convolutions, and their sum, after
    `ScaleNorm` where the block has it.
    """

    residual: Moments
    convolutional: Moments
    output: Moments


def residual_additions(model):
    """The layers that add up the two paths of a residual block, in the order of a functional model.

    Blocks of a model inside the model are not found: give that model. A layer that is called more
    than once is left out, since its inputs are not those of one block.
    """
    return [
        layer
        for layer in model.layers
        if isinstance(layer, (keras.layers.Add, ScaleNorm))
        and number_of_calls(layer) == 1
        and isinstance(layer.input, (list, tuple))
        and len(layer.input) == 2
    ]


def block_activations(model, layer, x, batch_size=256, bins=200, limits=(-5.0, 5.0)):
    """The distributions of a residual block's activations in inference.

    `layer` is one of `residual_additions(model)`. Its inputs are taken to be the convolutional path
    and the residual path, in this order, as in `tfdpnorm.models`. `x` is [rows, ...]. The bins
    cover `limits`; numbers beyond are counted in the first and the last one.
    """
    convolutional, residual = layer.input
    paths = keras.Model(model.inputs, [residual, convolutional, layer.output])
    edges = np.linspace(*limits, bins + 1)
    counts, sums = np.zeros((3, bins), np.int64), np.zeros((3, 3))  # of 1, of values, of squares
    for begin in range(0, len(x), batch_size):
        found = paths(tf.constant(x[begin : begin + batch_size]), training=False)
        for place, values in enumerate(np.asarray(path, np.float64) for path in found):
            counts[place] += np.histogram(np.clip(values, *limits), edges)[0]
            sums[place] += values.size, values.sum(), np.square(values).sum()
    numbers, means = sums[:, 0], sums[:, 1] / sums[:, 0]
    stddevs = np.sqrt(np.maximum(sums[:, 2] / numbers - means**2, 0.0))
    of_paths = zip(counts, means, stddevs, strict=True)
    return BlockActivations(*(Moments(c, edges, float(m), float(s)) for c, m, s in of_paths))
