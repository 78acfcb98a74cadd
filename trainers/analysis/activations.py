"""How the activations of a residual block are scaled: its two paths, and what leaves it."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import arguments
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

    `layer` is one of `residual_additions(model)`, or its name. Its inputs are taken to be the
    convolutional path and the residual path, in this order, as in `tfdpnorm.models`. `x` is [rows,
    ...], or a structure of such arrays. The bins cover `limits`; numbers beyond are counted in the
    first and the last one.
    """
    known = {found.name: found for found in residual_additions(model)}
    name = layer if isinstance(layer, str) else layer.name
    if name not in known:
        raise ValueError(
            f"Expected a layer that adds the paths of a residual block, got {name!r}. In model "
            f"{model.name!r} they are: {', '.join(known) or 'none'}."
        )
    rows = len(tf.nest.flatten(x)[0])
    if not rows:
        raise ValueError("There are no rows to summarise. Pass at least one.")
    arguments.integer("batch_size", batch_size, at_least=1)
    convolutional, residual = known[name].input
    paths = keras.Model(model.inputs, [residual, convolutional, known[name].output])
    edges = np.linspace(*limits, bins + 1)
    sums = [_Sums(edges) for _ in paths.outputs]
    for begin in range(0, rows, batch_size):
        part = tf.nest.map_structure(
            lambda of_input, begin=begin: tf.constant(of_input[begin : begin + batch_size]), x
        )
        found = paths(part, training=False)
        for of_path, values in zip(sums, found, strict=True):
            of_path.add(np.asarray(values, np.float64))
    return BlockActivations(*(of_path.moments() for of_path in sums))


class _Sums:
    def __init__(self, edges):
        self._edges = edges
        self._counts = np.zeros(len(edges) - 1, np.int64)
        self._numbers = self._sum = self._squares = 0.0

    def add(self, values):
        kept = np.clip(values, self._edges[0], self._edges[-1])
        self._counts += np.histogram(kept, self._edges)[0]
        self._numbers += values.size
        self._sum += values.sum()
        self._squares += np.square(values).sum()

    def moments(self):
        mean = self._sum / self._numbers
        variance = max(self._squares / self._numbers - mean**2, 0.0)
        return Moments(self._counts, self._edges, float(mean), float(np.sqrt(variance)))
