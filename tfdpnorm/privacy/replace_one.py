"""Epsilon of DP-SGD for replacing one example, on Poisson-sampled lots: by RDP and by PLD.

Of an update, the worst pair of outputs is

    P = (1 - q) N(0, z^2) + q N(+1, z^2)  against  Q = (1 - q) N(0, z^2) + q N(-1, z^2),

in units of the clipping norm: if the example is in the lot, its gradient and that of the other one
point in opposite directions. That no other pair is worse, whatever the gradients and at every
epsilon, is shown in BUILD_NOTES, "Ermis & Cemgil: accounting". So epsilon of T updates is that of
P and Q composed T times (Zhu, Dong & Wang 2022, Theorem 10), and holds.

Not for lots of a fixed size: replacing an example then moves the others' chances as well.
"""

import functools
import math

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from scipy import special

from tfdpnorm import arguments
from tfdpnorm.choices import ACCOUNTANTS
from tfdpnorm.privacy.accountants import (
    RDP_ORDERS,
    delta_for_pld,
    dp_sgd_event,
    pld_interval,
    rdp_of,
    rdp_to_epsilon,
)

_TAIL = 10.0  # Standard deviations; what lies beyond has probability 1e-23 and counts as exposed.
_MOST_POINTS = 2_000_000


def replace_one_epsilon(sampling_rate, noise_multiplier, updates, delta, accountant="rdp"):
    """Epsilon that `accountant` certifies for replacing one example.

    Args:
        sampling_rate: q in (0, 1]; the lots are Poisson-sampled.
        noise_multiplier: z >= 0: standard deviation of the noise over the clipping norm. One
            example changes the sum by up to 2 clipping norms.
        updates: T >= 1.
        delta: 0 < delta < 1.
        accountant: "rdp" or "pld".

    Returns:
        Epsilon >= 0, a float; infinite without noise.

    Raises:
        ValueError: if an argument is outside of its range, or "pld" cannot compute it.
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
    interval, delta = pld_interval(by_rdp, updates), delta_for_pld(delta, updates)
    # P and Q mirror each other: one distribution serves both directions.
    loss = PrivacyLossDistribution(_loss_pmf(rate, noise, interval))
    return float(loss.self_compose(updates).get_epsilon_for_delta(delta))


def pair_delta(epsilon, sampling_rate, noise_multiplier):
    """The least delta of one update at each epsilon: the hockey-stick divergence of P and Q.

    P / Q increases, so that the divergence is P(x > t) - exp(epsilon) Q(x > t), t being where the
    ratio is exp(epsilon).

    Args:
        epsilon: Array of any shape, any sign.
        sampling_rate: q in (0, 1].
        noise_multiplier: z > 0.

    Returns:
        Array of the shape of `epsilon`.
    """
    epsilon, z = np.asarray(epsilon, float), noise_multiplier
    t = _where_the_loss_is(epsilon, sampling_rate, z)
    # exp(epsilon) times a tail is taken as the exponential of a sum: either may overflow.
    both = special.log_ndtr(-t / z)
    near, far = special.log_ndtr((1 - t) / z), special.log_ndtr((-1 - t) / z)
    with np.errstate(over="ignore"):
        shared = np.where(epsilon < 1, -np.expm1(np.minimum(epsilon, 1)) * np.exp(both), 0.0)
        shared = np.where(epsilon < 1, shared, np.exp(both) - np.exp(epsilon + both))
    own = np.exp(near) - np.exp(epsilon + far)
    return np.clip((1 - sampling_rate) * shared + sampling_rate * own, 0.0, 1.0)


def _where_the_loss_is(epsilon, rate, z):
    """x at which log(P / Q) = epsilon.

    With r = (1 - q) / q exp(1 / 2z^2) sinh(epsilon / 2), it is z^2 (epsilon / 2 + asinh(r)).
    """
    if rate == 1:
        return z**2 * epsilon / 2
    half = np.abs(epsilon) / 2
    with np.errstate(divide="ignore", over="ignore"):
        log_sinh = np.where(half < 1, np.log(np.sinh(np.minimum(half, 1))), 0.0)
        log_sinh = np.where(half < 1, log_sinh, half + np.log1p(-np.exp(-2 * half)) - math.log(2))
        log_r = math.log1p(-rate) - math.log(rate) + 1 / (2 * z**2) + log_sinh
        asinh = np.where(log_r < 30, np.arcsinh(np.exp(np.minimum(log_r, 30))), log_r + math.log(2))
    return z**2 * (epsilon / 2 + np.sign(epsilon) * asinh)


def _loss(x, rate, z):
    """log(P / Q) at x."""
    log_p = np.logaddexp(math.log1p(-rate), math.log(rate) + (2 * x - 1) / (2 * z**2))
    log_q = np.logaddexp(math.log1p(-rate), math.log(rate) + (-2 * x - 1) / (2 * z**2))
    return log_p - log_q


def _loss_pmf(rate, z, interval):
    """The privacy loss of one update, by Doroshenko et al. (2022), Algorithm 1: rounded upwards."""
    furthest = 1 + _TAIL * z
    end = 2 * furthest / z**2 if rate == 1 else float(_loss(furthest, rate, z))
    interval = max(interval, 2 * end / _MOST_POINTS)
    count = math.ceil(end / interval)
    points = np.arange(-count, count + 1)
    deltas = pair_delta(points * interval, rate, z)
    # Rounding must not make delta rise; the larger value is the safe one.
    deltas = np.maximum.accumulate(deltas[::-1])[::-1]
    with np.errstate(over="ignore"):  # Its exp(interval), where z is tiny.
        return pld_pmf.create_pmf_pessimistic_connect_dots(interval, points, deltas)


@functools.lru_cache(maxsize=64)
def _rdp(rate, z):
    """The Renyi divergence of one update at each of RDP_ORDERS, [len(RDP_ORDERS)]."""
    unsampled = rdp_of(dp_sgd_event(1, z / 2, 1))
    step = min(z, z**2) / 4
    if rate == 1 or 2 * RDP_ORDERS[-1] / step > _MOST_POINTS:  # Sampling never costs.
        return unsampled
    found = [_divergence(order, rate, z, step) for order in RDP_ORDERS]
    return np.minimum(found, unsampled)


def _divergence(order, rate, z, step):
    """log E_Q[(P / Q)^order] / (order - 1), by the trapezoidal rule.

    The integrand is analytic near the real line: the next singularity is at the height pi z^2, so
    that the error falls like exp(-2 pi^2 z^2 / step) and is far below that of float64.
    """
    x = np.arange(-1 - 12 * z, 2 * order + 12 * z, step)
    log_base = -(x**2) / (2 * z**2) - math.log(z * math.sqrt(2 * math.pi))
    with_it = math.log(rate) + (np.stack([2 * x, -2 * x]) - 1) / (2 * z**2)
    log_p, log_q = log_base + np.logaddexp(math.log1p(-rate), with_it)
    moment = special.logsumexp(order * log_p + (1 - order) * log_q) + math.log(step)
    return (max(moment, 0.0) + 1e-13) / (order - 1)  # What rounding may have taken off.
