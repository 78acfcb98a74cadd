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
from tfdpnorm.layers import use_pass
from tfdpnorm.layers.public_batch_normalization import called_with_public_moments
from tfdpnorm.layers.pulled_back_noise import pulled_back_powers, squared_norm, standard_normal

_DRAWS = 4  # w depends on the fourth root of the draws
# Never below 1: where gammas and betas have so large gradients, they need no less precision.
_RANGE = (1.0, 30.0)


def automatic_weight(model, layers, public_rows):
    """Returns w at the present weights, from 1 to 30; 1 if the model has nothing else to train.

    `layers` are those whose moments are pulled back; `public_rows` is a structure of [M, ...].

    Privacy:
        Depends on weights and public rows alone. Clipping comes after the weight, so that the
        guarantee is the same for any.
    """
    own = [raw(variable) for layer in layers for variable in (layer.gamma, layer.beta)]
    refs = {variable.ref() for variable in own}
    others = [v for v in trainable_variables(model) if v.ref() not in refs]
    if not others:
        return _RANGE[0]
    rng = np.random.default_rng(0)
    powers, statistics = pulled_back_powers(model, public_rows, others, _DRAWS, rng)
    # G^2 and H^2 in one unknown unit: squared gradients of random sums of the outputs. In the mean
    # the square of such a gradient is the sum of the squares of single rows.
    variables = [*others, *own]
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        tape.watch(variables)
        with use_pass(statistics):
            outputs = called_with_public_moments(model, public_rows, training=False)
        outputs = [t for t in tf.nest.flatten(outputs) if t.dtype.is_floating]
        sums = [
            tf.add_n([tf.reduce_sum(t * standard_normal(rng, t)) for t in outputs])
            for _ in range(_DRAWS)
        ]
    found = np.zeros(len(variables))
    for total in sums:
        parts = tape.gradient(total, variables, unconnected_gradients="zero")
        found += [squared_norm(part) for part in parts]
    of_others, of_own = found[: len(others)].sum(), found[len(others) :].sum()
    noise = (powers.sum() + _count(own)) / _count(others)
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = (np.float64(of_others) / of_own * noise) ** 0.25 if of_own else 1.0
    return round(float(np.clip(np.nan_to_num(weight, nan=1.0), *_RANGE)), 1)


def _count(variables):
    return sum(int(np.prod(variable.shape)) for variable in variables)
