"""Epsilon of DP-SGD for replacing one example, on Poisson-sampled batches: by RDP and by PLD.

Of an update, the worst pair of outputs is

    P = (1 - q) N(0, z^2) + q N(+1, z^2)  against  Q = (1 - q) N(0, z^2) + q N(-1, z^2),

in units of the clipping norm: if the example is in the batch, its gradient and that of the other
one point in opposite directions. That no other pair is worse, whatever the gradients and at every
epsilon, is shown in docs/guarantee.md, "Replacing an example". So epsilon of T updates is that of
P and Q composed T times (Zhu, Dong & Wang 2022, Theorem 10), and holds.

Not for batches of a fixed size: replacing an example then moves the others' chances as well.
"""

import dataclasses
import functools
import math

import numpy as np
from scipy import special

from tfdpnorm import arguments
from tfdpnorm.choices import ACCOUNTANTS
from tfdpnorm.privacy.accountants import (
    RDP_ORDERS,
    delta_for_pld,
    dp_sgd_event,
    epsilon_at,
    rdp_of,
    rdp_to_epsilon,
)
from tfdpnorm.privacy.mixtures import composed_losses, of_losses, pld_interval, removed

_MOST_POINTS = 2_000_000


def replace_one_epsilon(sampling_rate, noise_multiplier, updates, delta, accountant="rdp"):
    """Epsilon that `accountant`, "rdp" or "pld", certifies for replacing one example.

    Batches are Poisson-sampled. The noise multiplier is over the clipping norm; one example changes
    the sum by up to 2 clipping norms. Infinite without noise.
    """
    rate = arguments.sampling_rate("sampling_rate", sampling_rate)
    noise = arguments.noise_multiplier("noise_multiplier", noise_multiplier)
    updates = arguments.updates("updates", updates, at_least=1)
    delta = arguments.open_unit("delta", delta)
    arguments.choice("accountant", accountant, ACCOUNTANTS)
    if noise == 0:
        return math.inf
    by_rdp = rdp_to_epsilon(updates * _rdp(rate, noise), delta)
    if accountant == "rdp" or by_rdp == 0:
        return by_rdp
    delta_for_pld(delta, updates)
    interval = pld_interval(by_rdp, updates)
    # P and Q mirror each other: one distribution serves both directions.
    losses = composed_losses([(replaced(rate, noise), updates)], interval)
    return epsilon_at(of_losses([losses], updates), delta)


def replaced(rate, noise_multiplier, rows=1):
    """The `Pair` of a person's rows and those of another one, whose gradients are opposite."""
    pair = removed(rate, noise_multiplier, rows)
    return dataclasses.replace(pair, below=-pair.above)


@functools.lru_cache(maxsize=64)
def _rdp(rate, z):
    """The Renyi divergence of one update at each of RDP_ORDERS, [len(RDP_ORDERS)]."""
    unsampled = rdp_of(dp_sgd_event(1, z / 2, 1))
    step = min(z, z**2) / 4
    if rate == 1 or 2 * RDP_ORDERS[-1] / step > _MOST_POINTS:  # Sampling never costs.
        return unsampled
    found = [_divergence(order, replaced(rate, z), step) for order in RDP_ORDERS]
    return np.minimum(found, unsampled)


def _divergence(order, pair, step):
    """log E_Q[(P / Q)^order] / (order - 1), by the trapezoidal rule.

    The integrand is analytic near the real line: the next singularity is at the height pi z^2, so
    that the error falls like exp(-2 pi^2 z^2 / step) and is far below that of float64.
    """
    z = pair.noise_multiplier
    x = np.arange(-1 - 12 * z, 2 * order + 12 * z, step)
    log_base = -(x**2) / (2 * z**2) - math.log(z * math.sqrt(2 * math.pi))
    log_p, log_q = (pair.log_density(x, means)[0] for means in (pair.above, pair.below))
    moment = special.logsumexp(log_base + order * log_p + (1 - order) * log_q) + math.log(step)
    return (max(moment, 0.0) + 1e-13) / (order - 1)  # What rounding may have taken off.
