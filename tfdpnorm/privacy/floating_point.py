"""How much float64 arithmetic adds to the privacy loss of noise that is rounded to a grid.

docs/exact_noise.md has the argument.
"""

import math

from tfdpnorm import arguments

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
    cell at up to `_RADIUS` standard deviations.

    Args:
        error: By how much each end is moved, in units of the cell's width; small.
        steps: The standard deviation in these units.
    """
    relative = 2 * error * math.exp((1 + 2 * error) * _RADIUS / steps)
    return -math.log1p(-relative)


def _log_1p_exp(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))
