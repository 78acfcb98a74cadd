"""Additions to the accountant's delta: the events that its theorems leave out, in one place.

A guarantee whose delta they change noticeably is none: see `excess`.
"""

import math
import warnings

from tfdpnorm import arguments
from tfdpnorm.errors import PrivacyError, PrivacyWarning
from tfdpnorm.privacy.rounding import ceil_text, delta_text

# How many noisy numbers the figures are for: weights times updates, in a search of all trials.
GRID_NUMBERS = 1e11
# The largest share of delta that may be added to it.
MOST_ADDED = 0.1

# Numbers per step of the grid, at most; and the radii up to which the bounds hold.
_MOST_STEPS = 64
_LEAST_STEPS = 32
_RADIUS = 12.0
# A noised number's error, over the radius of its pair.
_ERROR = 2.0**-47
# About what is added to delta, over delta.
_GROWTH = 1e-3
# The probability that a pair lies outside, or that its bits are too few.
_TAIL = 1e-30


def added_to_delta(ledger, epsilon):
    """Returns what is added to delta, a dict from a reason in words to a probability.

    What rounding adds grows with `epsilon`, that of all phases, for an example or such a person.
    """
    plan, added = ledger.plan, {}
    if ledger.settings.get("noise_grid"):
        added["noise rounded to a grid"] = rounding_loss(ledger, epsilon)[1]
    if plan.earlier:
        added["the earlier phases"] = sum(phase.added_delta for phase in plan.earlier)
    return added


def total(added):
    """Returns the sum of what is added, a probability."""
    return min(1.0, sum(added.values()))


def rounding_loss(ledger, epsilon):
    """Returns what noise on a grid adds to epsilon and to delta, a pair; see `added_to_delta`."""
    numbers = GRID_NUMBERS * (1 + len(ledger.plan.earlier))
    return floating_point_loss(numbers, epsilon, ledger.plan.delta)


def excess(ledger, epsilon):
    """Returns why no guarantee holds with that epsilon, if too much is added to delta, or None."""
    if math.isinf(epsilon):
        return None
    return too_much(total(added_to_delta(ledger, epsilon)), epsilon, ledger.plan.delta)


def too_much(added, epsilon, delta):
    """Returns why no guarantee holds where so much is added to delta, or None."""
    if added <= MOST_ADDED * delta:
        return None
    text = delta_text(delta)
    return (
        f"at epsilon = {ceil_text(epsilon)}, what rounding can add to delta = "
        f"{text} is {ceil_text(added, 2)}, more than a tenth of it, so that this delta does not "
        "hold"
    )


def added_to_phases(phases, epsilon, delta):
    """Returns what is added to the delta of several `Phase`s together, and `too_much` of it.

    `epsilon` and `delta` are those of all of them composed.
    """
    of_each = sum(phase.added_delta for phase in phases)
    of_all = floating_point_loss(GRID_NUMBERS * len(phases), epsilon, delta)[1]
    added = min(1.0, of_each + of_all)
    return added, None if math.isinf(epsilon) else too_much(added, epsilon, delta)


def check_plan(ledger):
    """Rejects the budget of a run that has not begun if no guarantee would hold, as `excess` says.

    Where the noise was given, and not calibrated to a budget, it only warns.
    """
    reason = excess(ledger, ledger.claimed_epsilon(whole_plan=True))
    if reason is None or not ledger.state.guarantee_holds:
        return
    said = f"No guarantee would hold: {reason}. "
    if ledger.plan.epsilon_target is not None:
        remedy = "Choose a smaller epsilon for the budget."
        if ledger.state.search is None:
            remedy = (
                "For a baseline without a guarantee, pass epsilon=math.inf; for a guarantee, a "
                "smaller epsilon."
            )
        raise PrivacyError(said + remedy)
    warnings.warn(f"{said}Choose more noise, or fewer updates.", PrivacyWarning, stacklevel=3)


def floating_point_loss(numbers, epsilon, delta):
    """Bounds what rounding in float64 adds to an (epsilon, delta) of exact Gaussian noise.

    Each pair of noisy numbers has the distribution of the exact mechanism up to a factor of
    exp(+-c), c = `pair_loss()`. Over m pairs, adaptively chosen sums included, the logarithm of the
    ratio is a sum of m terms within [-c, c] with means of at most c (e^c - 1), so that by Azuma's
    inequality it exceeds

        a = c sqrt(2 m ln(1 / t)) + m c (e^c - 1)

    with a probability of at most t. Going from the computed mechanism to the exact one, to that of
    the neighbouring data, and back, gives (epsilon + 2 a, e^a delta + (1 + e^(a + epsilon)) t).

    Args:
        numbers: How many numbers are noised in all: coordinates times updates, >= 0.
        epsilon: That of exact noise, >= 0; may be infinite.
        delta: That of exact noise, in (0, 1).

    Returns:
        Pair of floats: what is to be added to epsilon and to delta.

    Raises:
        ValueError: for a number out of its range.

    Reference:
        Dwork, Rothblum and Vadhan (2010), "Boosting and differential privacy", Theorem III.3, for
        the composition.
    """
    numbers = arguments.nonnegative("numbers", numbers)
    pairs, c = numbers / 2, pair_loss()
    if numbers == 0 or math.isinf(epsilon):
        return 0.0, 0.0
    # Half of the addition to delta is for t.
    weight = _log_1p_exp(epsilon + 1)
    log_t = math.log(_GROWTH * delta / 2) - weight
    a = min(pairs * c, c * math.sqrt(-2 * pairs * log_t) + pairs * c * math.expm1(c))
    lost = math.exp(log_t + _log_1p_exp(epsilon + a))
    tails = math.exp(min(math.log(pairs * _TAIL) + _log_1p_exp(epsilon + a), 0.0))
    return 2 * a, min(1.0, math.expm1(a) * delta + lost + tails)


def pair_loss():
    """The largest |ln| of the ratio of probabilities, computed to exact, of a pair of numbers."""
    error = _MOST_STEPS * _RADIUS * _ERROR
    return 2 * cell_loss(error, _LEAST_STEPS)


def cell_loss(error, steps):
    """How far moving the ends of a cell changes the logarithm of its probability, at most.

    The density of N(0, steps^2) changes by a factor of at most e^(width x radius / steps) within a
    cell at up to `_RADIUS` standard deviations. Each end is moved by `error`; both numbers are in
    units of the cell's width.
    """
    relative = 2 * error * math.exp((1 + 2 * error) * _RADIUS / steps)
    return -math.log1p(-relative)


def _log_1p_exp(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))
