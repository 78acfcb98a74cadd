"""How far the moments of public rows lie from those of private rows, layer by layer."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.variables import path, raw
from tfdpnorm.layers import PublicBatchNormalization, PublicStatistics, record_pass, use_pass
from tfdpnorm.layers.pulled_back_noise import pulled_back_powers


class LayerMismatch(NamedTuple):
    """How the inputs of a `PublicBatchNormalization` compare between public and private rows.

    Attributes:
        shift: Root mean square over channels of the difference of the means, in standard deviations
            of the public rows.
        scale: Geometric mean over channels of the private standard deviation over the public one.
        uneven: Standard deviation over channels of the logarithm of that ratio. What is the same
            for all channels, the next layers can learn.
        correlation: Frobenius norm of the difference of the channels' correlation matrices, over
            that of the private one.
        amplification: The largest 1 / (public variance + epsilon).
    """

    layer: str
    shift: float
    scale: float
    uneven: float
    correlation: float
    amplification: float


def moment_mismatch(model, public_x, private_x):
    """Compares moments of a network's activations on public and on private rows: `LayerMismatch`es.

    Both are those of the network in training: private rows are normalised by the public rows'
    moments at every layer. The functional `model` calls each `PublicBatchNormalization` once. Rows
    are [M, ...] and [N, ...].

    Privacy:
        NOT private: the numbers depend on the private rows, without noise.
    """
    layers = [x for x in model.layers if isinstance(x, PublicBatchNormalization)]
    before = keras.Model(model.inputs, [layer.input for layer in layers] + [model.outputs])
    statistics = PublicStatistics()
    with record_pass(statistics):
        *public, _ = before(tf.convert_to_tensor(public_x), training=False)
    with use_pass(statistics):
        *private, _ = before(tf.convert_to_tensor(private_x), training=False)
    return [
        _mismatch(layer, _by_channel(a, layer), _by_channel(b, layer))
        for layer, a, b in zip(layers, public, private, strict=True)
    ]


def noise_through_statistics(model, public_x, *, draws=4, seed=0):
    """How much noise the pull-back adds to that of the clipped sum, the mean over some draws.

    Standard normal noise on the gradients with respect to gamma and beta is pulled back to the
    kernels, which have standard normal noise of their own. A `pull_back_weight` w divides the
    result by w. Nothing but public rows, [M, ...], is looked at. Returns a dict from the name of
    each kernel that public moments depend on to the root mean square of the noise that is added to
    each of its numbers.
    """
    named = {path(v): raw(v) for v in model.trainable_variables if len(v.shape) > 1}
    kernels = list(named.values())
    rng = np.random.default_rng(seed)
    rows = tf.nest.map_structure(tf.convert_to_tensor, public_x)
    powers, _ = pulled_back_powers(model, rows, kernels, draws, rng)
    sizes = [np.prod(kernel.shape) for kernel in kernels]
    roots = np.sqrt(powers / sizes)
    return {name: float(root) for name, root in zip(named, roots, strict=True) if root}


def _by_channel(values, layer):
    values = np.moveaxis(np.asarray(values, np.float64), layer.axis, -1)
    return values.reshape(-1, values.shape[-1])


def _mismatch(layer, public, private):
    variance = public.var(axis=0) + layer.epsilon
    shift = (private.mean(axis=0) - public.mean(axis=0)) / np.sqrt(variance)
    ratio = 0.5 * np.log((private.var(axis=0) + layer.epsilon) / variance)
    ours, theirs = _correlations(private), _correlations(public)
    return LayerMismatch(
        layer.name,
        shift=float(np.sqrt(np.mean(shift**2))),
        scale=float(np.exp(ratio.mean())),
        uneven=float(ratio.std()),
        correlation=float(np.linalg.norm(ours - theirs) / np.linalg.norm(ours)),
        amplification=float(1 / variance.min()),
    )


def _correlations(values):
    centred = values - values.mean(axis=0)
    return (
        (centred / (centred.std(axis=0) + 1e-6)).T
        @ centred
        / (len(values) * (centred.std(axis=0) + 1e-6))
    )
