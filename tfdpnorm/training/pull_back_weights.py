"""What gammas and betas weigh in the clip, computed from public numbers alone.

The pull-back adds noise of the gradients by gamma and beta to those by the other weights, the
kernels. A weight w_l on layer l's before the clip divides that noise by w_l, for a share of the
clipping norm. Let d be the number of the kernels' weights, a_l the power that unit noise on layer
l's gammas and betas reaches in the kernels, and G and G_l the sizes of the gradients of an example
by the kernels and by layer l. The kernels' noise has the power d + sum_l a_l / w_l^2, and they keep
the share G^2 / (G^2 + sum_l w_l^2 G_l^2) of the clipping norm. The power over the share is least
for

    w_l^2 = (G / G_l) sqrt(a_l / d).

BUILD_NOTES.md has measurements.
"""

import numpy as np
import tensorflow as tf

from tfdpnorm.keras_compat.variables import raw
from tfdpnorm.layers import use_pass
from tfdpnorm.layers.public_batch_normalization import called_with_public_moments

_DRAWS = 16
_RANGE = (0.1, 100.0)


def pull_back_weights(streams, variables, seed=0):
    """Returns w_l of each layer whose public statistics are pulled back.

    Args:
        streams: `tfdpnorm.training.public_rows.Streams` that `pulls_back`.
        variables: The trained variables.
        seed: Of the random directions that powers are measured by.

    Returns:
        List of floats, one for each of the layers in the order of the public pass; 1 where nothing
        is pulled back.
    """
    layers = streams.pulled_back_layers()
    read = {raw(v).ref() for layer in layers for v in (layer.gamma, layer.beta)}
    kernels = [v for v in variables if v.ref() not in read]
    rng = np.random.default_rng(seed)
    powers = _powers(streams, kernels, layers, rng)
    sizes, of_kernels = _sizes(streams, kernels, layers, rng)
    count = sum(int(np.prod(v.shape)) for v in kernels)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = (of_kernels / sizes) ** 0.5 * (powers / count) ** 0.25
    return [float(w) if np.isfinite(w) and w > 0 else 1.0 for w in np.clip(weights, *_RANGE)]


def _normal(rng, variable):
    return tf.constant(rng.standard_normal(variable.shape), variable.dtype)


def _powers(streams, kernels, layers, rng):
    """a_l of each layer: noise on the kernels moves mu and v by as much as theirs moves kernels."""
    total = np.zeros(len(layers))
    for _ in range(_DRAWS):
        with tf.autodiff.ForwardAccumulator(kernels, [_normal(rng, v) for v in kernels]) as forward:
            statistics = streams.public_pass(training=True)
        for at, layer in enumerate(layers):
            (moments,) = statistics.of_layer(layer)
            mean, variance = forward.jvp([moments.mean, moments.variance])
            inverse = 1.0 / (moments.variance + layer.epsilon)
            gamma = tf.cast(layer.gamma, moments.mean.dtype)
            for part in (gamma * tf.sqrt(inverse) * mean, 0.5 * gamma * inverse * variance):
                total[at] += float(tf.reduce_sum(tf.square(part)))
    return total / _DRAWS


def _sizes(streams, kernels, layers, rng):
    """G_l of each layer, and G, both in the same unknown unit.

    Of random sums of a row's outputs, with random signs: then the square of their gradient over all
    rows is the sum of those of the rows.
    """
    statistics = streams.public_pass(training=True)
    pairs = [v for layer in layers for v in (raw(layer.gamma), raw(layer.beta))]
    watched = [*kernels, *pairs]
    squares = np.zeros(len(watched))
    for _ in range(_DRAWS):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(watched)
            with use_pass(statistics):
                outputs = called_with_public_moments(streams.model, streams.public_batch, True)
            outputs = [t for t in tf.nest.flatten(outputs) if t.dtype.is_floating]
            drawn = tf.add_n([tf.reduce_sum(t * _normal(rng, t)) for t in outputs])
        found = tape.gradient(drawn, watched, unconnected_gradients="zero")
        squares += [float(tf.reduce_sum(tf.square(tf.convert_to_tensor(g)))) for g in found]
    of_pairs = squares[len(kernels) :].reshape(-1, 2).sum(axis=1)
    return np.sqrt(of_pairs), np.sqrt(squares[: len(kernels)].sum())
