"""The weight of gammas and betas in the clipped vector, from public numbers alone.

A weight w multiplies the gradients with respect to gammas and betas of public-batch layers before
clipping, and divides them after the noise. In units of the noise of one number, the noise of all
trained numbers then has the power

    d + (a + b) / w^2,

with d the number of the other weights, b that of gammas and betas, and a the power that their noise
has once it is pulled back to the other weights. The price is a share of the clipping norm: with
typical gradient norms G of the other weights and H of gammas and betas, the others keep
G^2 / (G^2 + w^2 H^2) of it. The noise over that share is least for

    w^2 = (G / H) sqrt((a + b) / d).
"""

import numpy as np
import tensorflow as tf

from tfdpnorm.keras_compat.variables import raw, trainable_variables
from tfdpnorm.layers import PublicStatistics, pull_back, record_pass, use_pass
from tfdpnorm.layers.public_batch_normalization import called_with_public_moments

_DRAWS = 4  # w depends on the fourth root of what is drawn
# Never below 1: where gammas and betas have so large gradients, they need no less precision.
_RANGE = (1.0, 30.0)


def automatic_weight(model, layers, public_rows):
    """Returns w for a model and its public rows, at the present weights.

    Privacy:
        Depends on weights and public rows alone. Clipping comes after the weight, so that the
        guarantee is the same for any.

    Args:
        model: A Keras model.
        layers: Its layers whose moments are pulled back, a list.
        public_rows: A structure of tensors [M, ...].

    Returns:
        A float from 1 to 30, with one decimal; 1 if the model has nothing else to train.
    """
    own = [raw(variable) for layer in layers for variable in (layer.gamma, layer.beta)]
    refs = {variable.ref() for variable in own}
    others = [v for v in trainable_variables(model) if v.ref() not in refs]
    if not others:
        return _RANGE[0]
    rng = np.random.default_rng(0)
    pulled_back = of_own = of_others = 0.0
    for _ in range(_DRAWS):
        statistics, tape = _public_pass(model, public_rows, others)
        pulled_back += _power(pull_back(tape, statistics, lambda v: _normal(rng, v), others))
        parts = _gradient(model, public_rows, statistics, [*others, *own], rng)
        of_others += _power(parts[: len(others)])
        of_own += _power(parts[len(others) :])
    noise = (pulled_back / _DRAWS + _count(own)) / _count(others)
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = (np.float64(of_others) / of_own * noise) ** 0.25 if of_own else 1.0
    # Rounded, so that several processes settle on the same one.
    return round(float(np.clip(np.nan_to_num(weight, nan=1.0), *_RANGE)), 1)


def _public_pass(model, rows, variables):
    statistics = PublicStatistics()
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(variables)
        with record_pass(statistics):
            called_with_public_moments(model, rows, training=False)
    return statistics, tape


def _gradient(model, rows, statistics, variables, rng):
    """The gradient of a random sum of outputs; its square is, in the mean, that of single rows."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(variables)
        with use_pass(statistics):
            outputs = called_with_public_moments(model, rows, training=False)
        outputs = [t for t in tf.nest.flatten(outputs) if t.dtype.is_floating]
        total = tf.add_n([tf.reduce_sum(t * _normal(rng, t)) for t in outputs])
    return tape.gradient(total, variables, unconnected_gradients="zero")


def _normal(rng, like):
    return tf.constant(rng.standard_normal(like.shape), like.dtype)


def _power(parts):
    dense = (tf.cast(tf.convert_to_tensor(part), tf.float64) for part in parts)
    return sum(float(tf.reduce_sum(tf.square(part))) for part in dense)


def _count(variables):
    return sum(int(np.prod(variable.shape)) for variable in variables)
