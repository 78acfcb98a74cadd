"""Epsilon of DP-SGD by two accountants: Renyi DP and privacy loss distributions.

Both give upper bounds on the true epsilon, for the relation add_or_remove_one and Poisson-sampled
batches. PLD is the tighter one (by about a tenth at common settings), RDP the faster one. A third
one is an `Accountant` here, and a name in `tfdpnorm.choices`.
"""

from __future__ import annotations

import functools
import logging
import math
from typing import TYPE_CHECKING

import dp_accounting
import numpy as np
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant, compute_epsilon

from tfdpnorm import arguments
from tfdpnorm.choices import ACCOUNTANTS
from tfdpnorm.privacy.mechanisms import Mechanism, overflows
from tfdpnorm.privacy.mixtures import (
    HOPELESS,
    LARGEST_EXPONENT,
    delta_lost_by_pld,
    deltas_by_overflows,
    losses_profile,
    pld_interval,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

# dp_accounting's warning of orders that it gives up on; rdp_of bounds them otherwise.
logging.getLogger("absl").addFilter(lambda record: "_compute_log_a_frac" not in str(record.msg))

# The fill between 64 and 1024, and the orders above, matter where epsilon is small: the best order
# is roughly 2 log(1/delta) / epsilon. More orders can only lower the reported epsilon.
_EXTRA_ORDERS = (76, 91, 108, 152, 181, 215, 304, 362, 431, 724, 1448, 2048)
RDP_ORDERS = tuple(sorted({*map(float, RdpAccountant().orders), *map(float, _EXTRA_ORDERS)}))
"""Renyi orders of the "rdp" accountant: those of dp_accounting and a few higher ones."""

# The probability of more overflows than are looked at one by one.
_UNSEEN = 1e-16
_MOST_OVERFLOWS = 60
_FEW_OVERFLOWS = 9
_ROUNDS = 4  # of looking closer for an epsilon
_LEAST_OF_PLD = 1e-4  # below, its grid is so fine that it takes ten seconds, for nothing

_GRID_RATIO = 1.15

# Enough to choose a discretisation interval or a starting point, at a quarter of the cost.
COARSE_RDP_ORDERS = (1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 11, 14, 19, 25, 33, 45, 63, 128, 256, 512)


def dp_sgd_event(
    sampling_rate: float, noise_multiplier: float, updates: int
) -> dp_accounting.DpEvent:
    """The event of `updates` noisy sums over Poisson-sampled batches (Abadi et al. 2016).

    Args:
        sampling_rate: Probability q with which each example enters a batch, in (0, 1]. With q = 1
            every batch is the whole data set and the event is the plain Gaussian one.
        noise_multiplier: Standard deviation of the noise on the sum of clipped gradients, divided
            by the clipping norm; 0, or from 1e-100 to 1e100. Zero makes the event non-private.
        updates: Number of optimizer updates, >= 0. Zero makes the event a no-op: nothing of the
            data has been released.

    Returns:
        A `dp_accounting.DpEvent`, for any accountant of that library.

    Raises:
        ValueError: if an argument is outside of its range.
    """
    sampling_rate = arguments.sampling_rate("sampling_rate", sampling_rate)
    noise_multiplier = arguments.noise_multiplier("noise_multiplier", noise_multiplier)
    updates = arguments.updates("updates", updates, at_least=0)
    if updates == 0:
        return dp_accounting.NoOpDpEvent()
    if noise_multiplier == 0:
        return dp_accounting.NonPrivateDpEvent()
    event = dp_accounting.GaussianDpEvent(noise_multiplier)
    if sampling_rate < 1:
        event = dp_accounting.PoissonSampledDpEvent(sampling_rate, event)
    return dp_accounting.SelfComposedDpEvent(event, updates)


def event_of(mechanisms: Sequence[Mechanism]) -> dp_accounting.DpEvent:
    """The event of some `Mechanism`s; raises NotImplementedError for limits before version 0.6."""
    found = []
    for each in mechanisms:
        event = dp_sgd_event(each.sampling_rate, each.noise_multiplier, each.count)
        if each.most_per_batch is not None and each.count and each.noise_multiplier:
            if not hasattr(dp_accounting, "TruncatedSubsampledGaussianDpEvent"):
                raise NotImplementedError(
                    "Expected dp-accounting 0.6 or later, which knows batches of at most S "
                    "examples. Install it, or plan with most_per_batch=num_examples."
                )
            event = dp_accounting.TruncatedSubsampledGaussianDpEvent(
                each.num_examples,
                each.sampling_rate,
                each.most_per_batch,
                each.noise_multiplier,
            )
            event = dp_accounting.SelfComposedDpEvent(event, each.count)
        found.append(event)
    return found[0] if len(found) == 1 else dp_accounting.ComposedDpEvent(found)


def epsilon_of(event: dp_accounting.DpEvent, delta: float, accountant: str = "rdp") -> float:
    """The epsilon that `accountant` certifies for `event` at `delta`.

    Args:
        event: What was done to the data, a `DpEvent`: such as the result of `dp_sgd_event`, or
            several of these composed.
        delta: 0 < delta < 1.
        accountant: "rdp" (Mironov 2017; Mironov, Talwar & Zhang 2019; converted by Canonne, Kamath
            & Steinke 2020, Proposition 12) or "pld" (Koskela, Jalko & Honkela 2020; Doroshenko et
            al. 2022).

    Returns:
        Epsilon >= 0, a float; infinite for a non-private event.

    Raises:
        ValueError: if `delta` or `accountant` is outside of its range, or "pld" cannot compute it.
        dp_accounting.UnsupportedEventError: if the accountant does not know a part of `event`.
    """
    return accountant_of(accountant).epsilon_of(event, arguments.open_unit("delta", delta))


def composed_epsilon(parts, delta, accountant):
    """Epsilon >= 0, a float, of Gaussian mechanisms; what was computed once is kept.

    Args:
        parts: Iterable of `Mechanism`s, or of their fields.
        delta: 0 < delta < 1.
        accountant: Its name.
    """
    parts = tuple(Mechanism(*part) for part in parts)
    parts = tuple(part for part in parts if part.count)
    if not parts:
        return 0.0
    if any(part.noise_multiplier == 0 for part in parts):
        return math.inf
    return accountant_of(accountant).epsilon(parts, delta)


class Accountant:
    """How epsilon is bounded.

    Each has the methods `epsilon_of(event, delta)`, of a `DpEvent`; `epsilon(parts, delta)`, of
    Gaussian mechanisms with noise, at least one, see `composed_epsilon`; and
    `deltas_by_overflows(mechanism, epsilon)`, a list of the deltas at `epsilon` of a `Mechanism`
    with 0, 1, 2 ... overflows besides.

    Attributes:
        in_words: Its name in statements.
        knows_searches: Whether it knows what the choice of the best of several runs costs.
        noise_by_rdp: The share of the noise by coarse Renyi DP that it needs, about: where a search
            for noise begins. None for no such guess, where each trial is quick.
        or_else: What else could reach a budget that it does not reach, in words.
    """

    in_words: str
    knows_searches = False
    noise_by_rdp: float | None = None
    or_else = ""

    def check(self, delta, updates):
        """Raises ValueError for a delta that it cannot compute with."""

    def reported_at(self, updates, planned):
        """The update count >= `updates` whose epsilon is stated for `updates`, of `planned`."""
        return updates


class _Rdp(Accountant):
    """Multiples of the divergences of an update (Mironov 2017, Proposition 1): about 0.1 ms."""

    in_words = "Renyi differential privacy (RDP)"
    knows_searches = True
    or_else = ', or accountant="pld"'

    def epsilon_of(self, event, delta):
        return rdp_to_epsilon(rdp_of(event), delta)

    def epsilon(self, parts, delta):
        least = rdp_to_epsilon(composed_rdp(parts), delta)
        if not overflows(parts) or not math.isfinite(least):
            return least
        return epsilon_at(rdp_profile(parts), delta, least)

    def deltas_by_overflows(self, mechanism, epsilon):
        profile = rdp_with_overflows([mechanism], [mechanism])
        return [profile(j, [epsilon])[0] for j in range(_FEW_OVERFLOWS)]


class _Pld(Accountant):
    """Compositions of a tenth of a second and more.

    So it keeps to a grid of update counts that ends at those planned. Neighbours on the grid are
    15 % apart. **Between grid points it states the value of the next one**: never below the epsilon
    of the updates made, above it by at most about the growth of epsilon over 15 % more updates
    (some 7 %), and exact at the planned last update.
    """

    in_words = "privacy loss distributions (PLD)"
    noise_by_rdp = 0.93

    def epsilon_of(self, event, delta):
        estimate = coarse_epsilon(event, delta)
        if estimate == 0 or math.isinf(estimate):
            return estimate
        return _pld_epsilon(event, delta, estimate)

    def epsilon(self, parts, delta):
        return _kept_pld_epsilon(parts, delta)

    def deltas_by_overflows(self, mechanism, epsilon):
        found = with_overflows(mechanism, epsilon)
        if found is None:
            return _ACCOUNTANTS["rdp"].deltas_by_overflows(mechanism, epsilon)
        return found

    def check(self, delta, updates):
        delta_for_pld(delta, updates)

    def reported_at(self, updates, planned):
        if updates == 0 or updates > planned:
            return updates
        grid = _grid(planned)
        return int(grid[np.searchsorted(grid, updates)])


_ACCOUNTANTS = {"rdp": _Rdp(), "pld": _Pld()}


def accountant_of(name):
    """The `Accountant` of a name; ValueError for an unknown one."""
    return _ACCOUNTANTS[arguments.choice("accountant", name, ACCOUNTANTS)]


def composed_rdp(parts):
    """Renyi divergences of `Mechanism`s without overflows, one for each of `RDP_ORDERS`."""
    return sum(part[2] * rdp_of_update(*part[:2]) for part in parts)


def rdp_profile(parts):
    """The profile of `Mechanism`s by Renyi divergences; see `tfdpnorm.privacy.profiles`.

    Whether an update overflows says nothing about an example, so that delta is a mean over their
    number; see `mean_over_overflows`.
    """
    expected = overflows(parts)
    if not expected:
        return of_rdp(composed_rdp(parts))
    deltas = rdp_with_overflows(parts, [part for part in parts if part.overflow()])
    most = 1
    while expected**most / math.factorial(most) > _UNSEEN and most < _MOST_OVERFLOWS:
        most += 1

    def profile(epsilons):
        return mean_over_overflows([deltas(j, epsilons) for j in range(most)], expected)

    return profile


def mean_over_overflows(deltas, expected):
    """A bound on the mean of delta over the number of overflows, whose mean is `expected`, m.

    `deltas` are a list, those at 0, 1, 2 ... overflows. The mean is the sum of their differences,
    each times the probability of so many or more, of which j have at most m^j / j!.
    """
    mean, last = deltas[0], deltas[0]
    for j, delta in enumerate([*deltas[1:], 1.0], start=1):
        more = np.maximum(delta, last)
        mean, last = mean + (more - last) * expected**j / math.factorial(j), more
    return np.minimum(mean, 1.0)


def with_overflows(mechanism, epsilon, rows=1):
    """The deltas by PLD at `epsilon` with 0, 1, 2 ... overflows besides, or None.

    For a person of `rows` examples. None where the losses cannot be computed.
    """
    # Half, for the epsilon of the result is computed where Renyi divergences are not hopeless.
    if not 0 < epsilon < LARGEST_EXPONENT / 2:
        return None
    interval = pld_interval(epsilon, mechanism.count)
    try:
        return deltas_by_overflows(mechanism, epsilon, interval, _FEW_OVERFLOWS, rows)
    except (ValueError, ArithmeticError, MemoryError):
        return None  # as in `_pld_epsilon`


def of_rdp(rdp):
    """The profile of Renyi divergences `rdp`, one for each of `RDP_ORDERS`."""
    return functools.partial(rdp_to_deltas, rdp)


def rdp_with_overflows(parts, limited):
    """A function from j and epsilons to deltas of `Mechanism`s and j overflows of the `limited`.

    Few orders are enough for these, and quicker.
    """
    rdp = composed_rdp(parts)
    rare = np.max([coarse_rdp_of_update(*part.overflowed[:2]) for part in limited], axis=0)
    few = sum(part[2] * coarse_rdp_of_update(*part[:2]) for part in parts)

    def deltas(number, epsilons):
        if not number:
            return rdp_to_deltas(rdp, epsilons)
        return rdp_to_deltas(few + number * rare, epsilons, COARSE_RDP_ORDERS)

    return deltas


def epsilon_at(profile, delta, least=0.0):
    """An epsilon of at least `least` at which a profile is at most `delta`, close to the least one.

    Infinite if there is none below 700, or 1,000 times `least`.
    """
    delta = arguments.open_unit("delta", delta)
    steps = np.append(0.0, np.geomspace(1e-7, 1e3, 60))
    asked = least * (1 + steps) if least else 0.7 * steps
    for _ in range(_ROUNDS):
        suffice = np.flatnonzero(profile(asked) <= delta)
        if not len(suffice):
            return math.inf
        first = suffice[0]
        found = float(asked[first])
        asked = np.linspace(asked[max(first - 1, 0)], found, 40)
    return found


@functools.lru_cache(maxsize=1024)
def _kept_pld_epsilon(parts, delta):
    expected = overflows(parts)
    if expected:
        events = [dp_sgd_event(*part[:3]) for part in parts]
        estimate = coarse_epsilon(dp_accounting.ComposedDpEvent(events), delta)
        updates = sum(part.count for part in parts)
        if estimate < _LEAST_OF_PLD:
            return _ACCOUNTANTS["rdp"].epsilon(parts, delta)
        if estimate < HOPELESS:
            delta_for_pld(delta, updates)
            found = epsilon_at(losses_profile(parts, pld_interval(estimate, updates)), delta)
            if math.isfinite(found):
                return found
        delta -= expected  # as if the results of an overflow were in the open
        if delta <= 0:
            return math.inf
    events = [dp_sgd_event(*part[:3]) for part in parts]
    event = events[0] if len(events) == 1 else dp_accounting.ComposedDpEvent(events)
    return epsilon_of(event, delta, "pld")


@functools.lru_cache(maxsize=64)
def _grid(last):
    """Ascending update counts from 1 to `last`, an int array; neighbours differ by at most 15 %.

    (Or by one update, where that is more.)
    """
    points = [last]
    while points[-1] > 1:
        points.append(min(points[-1] - 1, math.ceil(points[-1] / _GRID_RATIO)))
    return np.array(points[::-1])


def _pld_epsilon(event, delta, estimate):
    parts = list(_gaussian_parts(event))
    updates = sum(count for _, _, count in parts)
    interval, delta = pld_interval(estimate, updates), delta_for_pld(delta, updates)
    try:
        pld = PLDAccountant(value_discretization_interval=interval).compose(event)
        return float(pld.get_epsilon(delta))
    except (ValueError, ArithmeticError, MemoryError) as error:
        # No other interval helps: where deltas are equal over a wide range, as with noise
        # multipliers about 0.06, those that dp_accounting computes go up and down by rounding.
        why = "is lost to rounding"
        if isinstance(error, MemoryError):
            why = "does not fit into memory"
        got = "; ".join(
            f"{count} update(s) at sampling rate {rate:.6g} and noise multiplier {noise:.6g}"
            for rate, noise, count in parts
        )
        raise ValueError(
            f'The "pld" accountant cannot compute {got}: their privacy loss distribution {why}. '
            'Use "rdp", whose epsilon is a bound as well.'
        ) from None


def rdp_of(event, orders=RDP_ORDERS):
    """The Renyi divergence bound of `event` at each of `orders`, as a float array [len(orders)].

    Where one update leaks very little (sampling rate 1e-6 with noise multiplier 1000, say), the sum
    that dp_accounting computes cancels to rounding noise, zero and negative numbers included. So
    the result is never below the sum's own second-order term, which rounding cannot hurt.

    At orders that are not whole, later releases than 0.4.3 add up absolute values where the series
    alternates, and gives up on some: bounds that hold, up to infinity. So the result is never above
    two others that hold: that of the plain Gaussian mechanism, since sampling never costs, and the
    line between whole orders, since (order - 1) * RDP is convex in the order, and 0 at 1 (both from
    van Erven & Harremoes 2014, the first by joint quasi-convexity).

    """
    rdp = RdpAccountant(orders=orders).compose(event).rdp
    # NaN means that the bound is unknown, and an unknown bound is no bound.
    unknown = np.isnan(rdp)
    rdp = np.where(unknown, np.inf, rdp)
    orders = np.asarray(orders, dtype=float)
    floor, unsampled = np.zeros_like(rdp), np.zeros_like(rdp)
    for sampling_rate, noise_multiplier, count in _gaussian_parts(event):
        floor += count * _second_order_rdp(sampling_rate, noise_multiplier, orders)
        with np.errstate(divide="ignore", over="ignore"):
            unsampled += count * orders / 2 / np.square(np.float64(noise_multiplier))
    # By convexity from the whole orders, and infinite above the last one.
    whole = np.flatnonzero(orders == np.floor(orders))
    whole = whole[np.argsort(orders[whole])]
    knots = np.append(1.0, orders[whole])
    moments = np.append(0.0, np.maximum(rdp, floor)[whole] * (orders[whole] - 1))
    between = np.interp(orders, knots, moments, right=np.inf) / (orders - 1)
    rdp = np.minimum(rdp, np.where(np.isnan(between), np.inf, between))
    return np.where(unknown, np.inf, np.maximum(np.minimum(rdp, unsampled), floor))


@functools.lru_cache(maxsize=256)
def rdp_of_update(sampling_rate, noise_multiplier):
    """`rdp_of` a single update, kept: an array that cannot be written to. Updates add up."""
    rdp = rdp_of(dp_sgd_event(sampling_rate, noise_multiplier, 1))
    rdp.flags.writeable = False
    return rdp


@functools.lru_cache(maxsize=256)
def coarse_rdp_of_update(sampling_rate, noise_multiplier):
    """`rdp_of_update` at `COARSE_RDP_ORDERS`."""
    return rdp_of(dp_sgd_event(sampling_rate, noise_multiplier, 1), COARSE_RDP_ORDERS)


def rdp_to_epsilon(rdp, delta, orders=RDP_ORDERS):
    """The smallest epsilon that Renyi bounds `rdp` [len(orders)] give at `delta` (about 0.1 ms)."""
    return float(compute_epsilon(orders, rdp, delta)[0])


def rdp_to_deltas(rdp, epsilons, orders=RDP_ORDERS):
    """The smallest deltas that Renyi bounds give at `epsilons` [n], an array [n].

    As dp_accounting's compute_delta, to the bit, which takes a hundred times as long: by Canonne,
    Kamath & Steinke (2020), Proposition 12, and by sqrt(1 - exp(-KL)), since no Renyi divergence is
    below that of order 1.
    """
    slope, shift, subtracted = _constants(tuple(orders))
    rdp = np.asarray(rdp, float)
    by_order = slope * (rdp - np.asarray(epsilons)[:, np.newaxis] + shift) - subtracted
    log_deltas = np.minimum(by_order.min(axis=1), min(map(_log_delta_by_kl, rdp.tolist())))
    return np.array([math.exp(value) for value in np.minimum(log_deltas, 0)])


@functools.lru_cache(maxsize=4)
def _constants(orders):
    """Of `rdp_to_deltas`, an array for each: nothing follows from orders too close to 1."""
    subtracted = [math.log(o) if o > 1.01 else -math.inf for o in orders]
    slope, shift = [o - 1 for o in orders], [math.log1p(-1 / o) for o in orders]
    return np.array(slope), np.array(shift), np.array(subtracted)


def _log_delta_by_kl(divergence):
    if divergence == 0:
        return -math.inf
    left = math.exp(-divergence)
    return 0.5 * (math.log1p(-left) if left < 1 else math.log(divergence))


def coarse_epsilon(event, delta):
    """A valid but loose RDP epsilon from few orders: quick, for choosing where to look closer."""
    return rdp_to_epsilon(rdp_of(event, COARSE_RDP_ORDERS), delta, COARSE_RDP_ORDERS)


def delta_for_pld(delta, updates):
    """The delta that a PLD is asked for, so that its epsilon holds at `delta` in spite of rounding.

    Raises ValueError for a delta that rounding may take half of.
    """
    lost = delta_lost_by_pld(updates)
    if delta < 2 * lost:
        raise ValueError(
            f'Expected delta of at least {2 * lost:.2g} with the "pld" accountant and {updates:,} '
            f"update(s), whose composition may lose {lost:.2g} of it to rounding, got {delta!r}. "
            'Use "rdp", whose epsilon is a bound as well.'
        )
    return delta - lost


def _gaussian_parts(event, count=1):
    """Yields (sampling rate, noise multiplier, count) of every Gaussian mechanism in `event`.

    A mechanism of another kind counts as one without noise.
    """
    if isinstance(event, dp_accounting.SelfComposedDpEvent):
        yield from _gaussian_parts(event.event, count * event.count)
    elif isinstance(event, dp_accounting.ComposedDpEvent):
        for part in event.events:
            yield from _gaussian_parts(part, count)
    elif isinstance(event, dp_accounting.GaussianDpEvent):
        yield 1.0, event.noise_multiplier, count
    elif isinstance(event, dp_accounting.PoissonSampledDpEvent):
        if isinstance(event.event, dp_accounting.GaussianDpEvent):
            yield event.sampling_probability, event.event.noise_multiplier, count
        else:
            yield 1.0, 0.0, count
    elif not isinstance(event, dp_accounting.NoOpDpEvent):
        yield 1.0, 0.0, count


def _second_order_rdp(sampling_rate, noise_multiplier, orders):
    """The Poisson-sampled Gaussian's RDP up to second order in the sampling rate, [len(orders)].

    The moment of integer order a is E[(1 + q X)^a], where X + 1 is log-normal with mean 1 and has
    non-negative central moments (Mironov, Talwar & Zhang 2019, section 3.3); stopping after the
    second, 1 + a(a-1)/2 q^2 (exp(1/z^2) - 1), can only be too low. Between integers the divergence
    is at least that of the integer below. Below order 2 it is at most that of order 2, for which
    the formula is exact, and that bound is used only where rounding leaves no better one.
    """
    orders = np.asarray(orders, dtype=float)
    if noise_multiplier < 1:  # Rounding is harmless here, and exp(1/z^2) may overflow.
        return np.zeros_like(orders)
    variance = sampling_rate**2 * math.expm1(noise_multiplier**-2)
    whole = np.floor(np.maximum(orders, 2))
    second_order = np.log1p(whole * (whole - 1) / 2 * variance) / (whole - 1)
    return np.where((orders >= 2) | (variance < 1e-10), second_order, 0.0)
