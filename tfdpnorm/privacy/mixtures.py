"""Privacy losses of mixtures of Gaussians: what an update releases of several examples of a person.

A `Pair` is P = sum_j w_j N(p_j, z^2) against Q = sum_j w_j N(q_j, z^2), in units of the clipping
norm, where p_j does not fall with j and q_j does not rise: then P / Q does not fall. `losses_of`
puts its privacy loss on a grid, `Losses`, so that composing it never states too little.
dp_accounting's own classes add up a grid number by number, which takes seconds for large losses.
"""

import dataclasses
import functools
import math

import numpy as np
from dp_accounting.pld import common
from scipy import signal, special

_TAIL = 10.0  # Standard deviations; what lies beyond has probability 1e-23 and counts as exposed.
_LEFT_OUT = 1e-24  # Weight of components that are left out and count as exposed.
_MOST_NUMBERS = 8_000_000  # Points of a grid times components.
_TABLE = 4_096
_MOST_STEPS = 60
_PRECISION = 1e-13
# Bounds by Renyi divergences beyond which losses are not worth computing: there is no epsilon below
# that at which exp overflows. Such guarantees are worthless.
HOPELESS = 3_000
LARGEST_EXPONENT = 700.0
# What the Fourier transforms of a composition may take from delta, by rounding, for each update: up
# to 0.15 units of the last place of 1 were seen.
_LOST_TO_ROUNDING = 64 * 2.0**-53
# The probability in the tails that a composition may leave out, and counts as infinite losses.
_LOST = 1e-15


@dataclasses.dataclass(frozen=True)
class Losses:
    """The distribution of a privacy loss.

    Attributes:
        interval: Of the grid, in nats.
        first: The smallest loss, in intervals, an int.
        masses: [n] probabilities of the losses (first + i) interval.
        infinite: Probability of an infinite loss.
    """

    interval: float
    first: int
    masses: np.ndarray
    infinite: float

    def repeated(self, times):
        """The loss of so many such mechanisms, >= 1, composed: `Losses`."""
        if times == 1:
            return self
        offset, masses = common.self_convolve(self.masses, times, _LOST)
        infinite = _LOST - math.expm1(times * math.log1p(-min(self.infinite, 1 - 1e-16)))
        return Losses(self.interval, times * self.first + offset, np.array(masses), infinite)

    def composed(self, other):
        """The loss of this mechanism and another, whose grid has the same interval: `Losses`."""
        masses = signal.fftconvolve(self.masses, other.masses)
        infinite = self.infinite + other.infinite
        return Losses(self.interval, self.first + other.first, masses, infinite)

    def mixed(self, other, share):
        """The loss if this mechanism is chosen with probability 1 - `share`, else the other.

        Which of them it is, is in the open, and does not depend on the data. Both grids have the
        same interval.
        """
        first = min(self.first, other.first)
        last = max(self.first + len(self.masses), other.first + len(other.masses))
        masses = np.zeros(last - first)
        for losses, weight in ((self, 1 - share), (other, share)):
            start = losses.first - first
            masses[start : start + len(losses.masses)] += weight * losses.masses
        infinite = (1 - share) * self.infinite + share * other.infinite
        return Losses(self.interval, first, masses, infinite)

    def deltas(self, epsilons):
        """The least delta at each of `epsilons` [n] in [0, 700], an array [n]."""
        start = max(0, -self.first)  # Negative losses are above no such epsilon.
        masses = self.masses[start:]
        losses = (self.first + start + np.arange(len(masses))) * self.interval
        above = _sums_of_tails(masses)
        discounted = _sums_of_tails(masses * np.exp(-losses))
        place = np.searchsorted(losses, epsilons, side="right")
        return self.infinite + above[place] - np.exp(epsilons) * discounted[place]


def _sums_of_tails(values):
    """[n + 1] sums from each position on."""
    return np.append(np.cumsum(values[::-1])[::-1], 0.0)


@dataclasses.dataclass(frozen=True)
class Pair:
    """P and Q of the module's head; `removed` and `added` make them.

    Attributes:
        log_weights: [J] logarithms of w_j.
        above: [J] the p_j, >= 0.
        below: [J] the q_j, <= 0.
        noise_multiplier: z > 0.
        exposed: Weight of the components that are left out.
    """

    log_weights: np.ndarray
    above: np.ndarray
    below: np.ndarray
    noise_multiplier: float
    exposed: float

    def loss(self, x):
        """log(P / Q) at x [n], and its derivative, >= 0: a pair of arrays [n]."""
        log_p, slope_p = self.log_density(x, self.above)
        log_q, slope_q = self.log_density(x, self.below)
        return log_p - log_q, slope_p - slope_q

    def log_density(self, x, means):
        """log of sum_j w_j N(means_j, z^2), over N(0, z^2), at x [n], and its derivative."""
        if not means.any():
            return math.log(np.exp(self.log_weights).sum()) + 0 * x, 0 * x
        z = self.noise_multiplier
        terms = self.log_weights + (x[:, None] - means / 2) * (means / z**2)
        largest = terms.max(axis=1)
        shares = np.exp(terms - largest[:, None])
        total = shares.sum(axis=1)
        return largest + np.log(total), shares @ means / (z**2 * total)


def removed(rate, noise_multiplier, rows=1):
    """The `Pair` with a person of `rows` rows, each drawn with probability `rate`, and without.

    Reference:
        Ganesh (2024), "Tight group-level DP guarantees for DP-SGD with sampling via mixture of
        Gaussians mechanisms"; docs/guarantee.md has a proof.
    """
    log_weights, drawn, exposed = _drawn_rows(rate, rows)
    return Pair(log_weights, drawn, 0 * drawn, noise_multiplier, exposed)


def added(rate, noise_multiplier, rows=1):
    """The `Pair` without such a person and with: `removed` the other way round, and mirrored."""
    log_weights, drawn, _ = _drawn_rows(rate, rows)
    # Components that Q lacks make P / Q larger: nothing else is to be exposed for them.
    return Pair(log_weights, 0 * drawn, -drawn, noise_multiplier, 0.0)


def _drawn_rows(rate, rows):
    """How many of a person's rows are drawn: logarithms of probabilities [J], numbers [J], rest.

    The numbers that come out with a probability of at most `_LEFT_OUT` in all are left out.
    """
    drawn = np.arange(rows + 1.0)
    if rate == 1:
        return np.zeros(1), drawn[-1:], 0.0
    chosen = np.array([math.log(math.comb(rows, j)) for j in range(rows + 1)])
    log_weights = chosen + drawn * math.log(rate) + (rows - drawn) * math.log1p(-rate)
    tail = np.cumsum(np.exp(log_weights)[::-1])[::-1]
    kept = tail > _LEFT_OUT
    return log_weights[kept], drawn[kept], float(tail[~kept].max(initial=0.0))


def losses_profile(mechanisms, interval, rows=1):
    """The profile of mechanisms composed by their privacy losses, for a person of `rows` examples.

    Args:
        mechanisms: `Mechanism`s, each with a count >= 1.
        interval: Of the grid, in nats, > 0; wider where a grid would have too many points.
        rows: Of the person, >= 1.
    """
    directions = []
    for pair in (removed, added):
        parts = []
        for each in mechanisms:
            parts.append((pair(*each[:2], rows), each.count))
            if share := each.overflow(rows):
                parts[-1] += (pair(*each.overflowed[:2], rows), share)
        directions.append(composed_losses(parts, interval))
    return of_losses(directions, sum(each.count for each in mechanisms))


def deltas_by_overflows(mechanism, epsilon, interval, most, rows=1):
    """The delta at `epsilon` with 0 to `most` - 1 overflows besides the updates of a `Mechanism`.

    `interval` and `rows` are as in `losses_profile`. Returns a list.
    """
    directions = []
    for pair in (removed, added):
        half = pair(*mechanism.overflowed[:2], rows)
        wide = max(interval, _least_interval(half))
        losses = composed_losses([(pair(*mechanism[:2], rows), mechanism.count)], wide)
        half, found = losses_of(half, losses.interval), []
        for _ in range(most):
            found.append(losses.deltas(np.array([epsilon]))[0])
            losses = losses.composed(half)
        directions.append(found)
    lost = delta_lost_by_pld(mechanism.count + most)
    return [min(1.0, delta + lost) for delta in np.max(directions, axis=0)]


def of_losses(directions, updates):
    """The profile of privacy `Losses`, with what is protected and without.

    They are composed of `updates` mechanisms, whose rounding is added.
    """

    def profile(epsilons):
        asked = np.minimum(epsilons, LARGEST_EXPONENT)  # delta falls with epsilon
        deltas = np.max([losses.deltas(asked) for losses in directions], axis=0)
        return np.clip(deltas + delta_lost_by_pld(updates), 0.0, 1.0)

    return profile


def composed_losses(parts, interval):
    """The privacy loss of mechanisms composed, `Losses`, never too small.

    Args:
        parts: List of (`Pair`, count >= 1); or (`Pair`, count, another `Pair`, share), where an
            update is of the other kind with that probability.
        interval: Of the grid, in nats, > 0; wider where a grid would have too many points.
    """
    pairs = [each for part in parts for each in part if isinstance(each, Pair)]
    interval = max(interval, *map(_least_interval, pairs))

    def of_one(pair, count, other=None, share=0.0):
        losses = losses_of(pair, interval)
        if other is not None:
            losses = losses.mixed(losses_of(other, interval), share)
        return losses.repeated(count)

    return functools.reduce(Losses.composed, [of_one(*part) for part in parts])


def delta_lost_by_pld(updates):
    """The most that rounding takes from delta in the composition of `updates` >= 1 mechanisms."""
    return _LOST_TO_ROUNDING * updates


def pld_interval(epsilon, updates):
    """The discretisation interval, in nats of privacy loss, for a PLD of about `epsilon`.

    Rounding is always upwards: a wide interval costs tightness and never soundness. What rounding
    adds grows like updates * interval**2. A fixed interval that serves 4,000 updates well is
    several per cent loose at 40,000; hence the second bound. Above epsilon 1,000 the interval grows
    with epsilon, which bounds memory. `epsilon` is an estimate of the result, > 0 and finite.
    """
    if epsilon >= 30:
        interval = max(1e-2, 1e-5 * epsilon)
    elif epsilon >= 1:
        interval = 1e-3
    elif epsilon >= 0.2:
        interval = 1e-4
    else:
        interval = 1e-5
    return min(interval, 0.02 * epsilon / math.sqrt(max(updates, 1)))


def losses_of(pair, interval):
    """The distribution of log(P / Q) under P on a grid, `Losses`, never too small.

    The line is cut where the loss is a multiple of `interval`. What P and Q have between two cuts,
    p and q, goes to the two losses so that neither changes: to the upper one

        (p - exp(lower loss) q) / (1 - exp(-interval))    of P,

    and the rest of p to the lower one. Merging the two would give back p and q, so that no
    hockey-stick divergence gets smaller (Doroshenko et al. 2022, "Connect the dots"). What P has
    beyond the last cut, and `exposed`, counts as certainly recognised.

    Args:
        pair: `Pair`.
        interval: Of the grid, in nats, > 0.
    """
    z, ends = pair.noise_multiplier, _ends(pair)
    first, last = pair.loss(ends)[0] / interval
    points = np.arange(math.floor(first), math.ceil(last) + 1)
    losses = points * interval
    cuts = np.concatenate([[-np.inf], _where(pair, losses[1:-1], ends), ends[1:]])
    p, q = _masses(pair, pair.above, cuts), _masses(pair, pair.below, cuts)
    with np.errstate(divide="ignore", over="ignore"):
        scaled = np.exp(losses[:-1] + np.log(q))
    upper = np.clip((p - scaled) / -math.expm1(-interval), 0.0, p)
    masses = np.append(p - upper, 0.0)
    masses[1:] += upper
    beyond = np.exp(pair.log_weights) @ special.ndtr((pair.above - ends[1]) / z)
    return Losses(interval, int(points[0]), masses, float(beyond) + pair.exposed)


def _ends(pair):
    """The range of x in which the losses are distinguished, [2]."""
    beyond = _TAIL * pair.noise_multiplier
    return np.array([pair.below.min() - beyond, pair.above.max() + beyond])


def _least_interval(pair):
    first, last = pair.loss(_ends(pair))[0]
    return (last - first) * len(pair.log_weights) / _MOST_NUMBERS


def _where(pair, losses, ends):
    """The x at which log(P / Q) has given values, all of them between those at two `ends`.

    By Newton's method from a table; where that leaves what is known to hold x, by halving.
    """
    table = np.linspace(*ends, _TABLE)
    known = np.maximum.accumulate(pair.loss(table)[0])
    cell = np.clip(np.searchsorted(known, losses), 1, len(table) - 1)
    low, high = table[cell - 1], table[cell]
    x = np.clip(np.interp(losses, known, table), low, high)
    for _ in range(_MOST_STEPS):
        value, slope = pair.loss(x)
        low, high = np.where(value <= losses, x, low), np.where(value >= losses, x, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            following = x - (value - losses) / slope
        inside = (following >= low) & (following <= high)
        following = np.where(inside, following, (low + high) / 2)
        found = np.abs(value - losses) <= _PRECISION * (1 + np.abs(losses))
        x = np.where(found, x, following)
        if found.all():
            break
    return x


def _masses(pair, means, cuts):
    """The mass of sum_j w_j N(means_j, z^2) between neighbouring `cuts` [n + 1], an array [n]."""
    masses = np.zeros(len(cuts) - 1)
    for log_weight, mean in zip(pair.log_weights, means, strict=True):
        u = (cuts - mean) / pair.noise_multiplier
        # From the nearer end, so that small masses are as precise as large ones.
        from_below, from_above = np.diff(special.ndtr(u)), -np.diff(special.ndtr(-u))
        masses += math.exp(log_weight) * np.where(u[1:] > 0, from_above, from_below)
    return masses
