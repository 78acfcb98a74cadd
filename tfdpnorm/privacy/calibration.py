"""The smallest noise that keeps a training run within a privacy budget."""

from __future__ import annotations

import functools
import math

from tfdpnorm import arguments
from tfdpnorm.errors import PrivacyError
from tfdpnorm.privacy.accountants import (
    accountant_of,
    coarse_epsilon,
    composed_epsilon,
    dp_sgd_event,
)
from tfdpnorm.privacy.budget import PrivacyBudget
from tfdpnorm.privacy.rounding import ceil_float

_AIM = 0.999  # The fraction of the target at which the search is content.
_PROMISED = 0.98  # The fraction below which it says that it failed.
_MOST_EVALUATIONS = 60
_MOST_ROUGH_EVALUATIONS = 10
_LARGEST_NOISE = 1e9
_SMALLEST_NOISE = 1e-4


def calibrate_noise_multiplier(
    budget: PrivacyBudget, sampling_rate: float, updates: int, accountant: str = "rdp"
) -> float:
    """The noise multiplier with which `updates` updates spend just about `budget`.

    The epsilon of the result, as `epsilon_of` computes it, is 0.98 to 1 times the target, and
    nearly always more than 0.999 times. The result has at most seven significant digits (rounded
    towards more noise), so that the number printed is the number used.

    Args:
        budget: The target, a `PrivacyBudget`.
        sampling_rate: Probability of each example to be in a batch, in (0, 1].
        updates: Number of optimizer updates, >= 1.
        accountant: "rdp" (a fraction of a second) or "pld" (up to a few seconds).

    Returns:
        The noise multiplier, a float: noise on the sum of clipped gradients over the clipping norm.
        0.0 for an infinite epsilon.

    Raises:
        ValueError: if an argument is outside of its range, or no noise multiplier brings the
            accountant into the promised interval. Only extreme targets have none: Renyi orders end
            somewhere, and with them the smallest epsilon that "rdp" can certify.
    """
    arguments.instance(
        "budget", budget, PrivacyBudget, remedy="Write PrivacyBudget(epsilon=..., delta=...)."
    )
    if budget.delta is None:
        raise ValueError(
            "The budget has no delta, and the number of examples that would give it is not known "
            "here. Write PrivacyBudget(epsilon, delta), with a plan's own: plan.delta."
        )
    sampling_rate = arguments.sampling_rate("sampling_rate", sampling_rate)
    updates = arguments.updates("updates", updates, at_least=1)
    accountant_of(accountant)
    if math.isinf(budget.epsilon):
        return 0.0
    return _calibrated(budget, sampling_rate, updates, accountant)


@functools.lru_cache(maxsize=256)  # searches and resumed runs ask for the same again
def _calibrated(budget, sampling_rate, updates, accountant):
    def reached(noise_multiplier):
        part = (sampling_rate, noise_multiplier, updates)
        return composed_epsilon([part], budget.delta, accountant)

    guess, by = first_guess(budget, sampling_rate, updates), accountant_of(accountant)
    if by.noise_by_rdp is not None:

        def roughly_reached(noise_multiplier):
            event = dp_sgd_event(sampling_rate, noise_multiplier, updates)
            return coarse_epsilon(event, budget.delta)

        rough = _search(roughly_reached, budget.epsilon, guess, 0.9, _MOST_ROUGH_EVALUATIONS)
        guess = by.noise_by_rdp * rough[0]
    return noise_reaching(reached, budget, sampling_rate, updates, accountant, guess, by.or_else)


def noise_of_plan(plan, budget, guess=None):
    """The noise multiplier with which all updates of a `PrivacyPlan` and earlier phases spend it.

    `guess` is the one without what the limit on batches costs, if that is known. Raises
    PrivacyError if the phases have spent the budget.
    """
    known = (budget, plan.sampling_rate, plan.steps, plan.accountant)
    updates, earlier = plan.mechanism(plan.steps), plan.earlier_mechanisms
    if math.isinf(budget.epsilon):
        return 0.0
    if not earlier and not updates.overflow():
        return calibrate_noise_multiplier(*known)
    spent = composed_epsilon(earlier, budget.delta, plan.accountant)
    if spent >= _AIM * budget.epsilon:
        raise PrivacyError(
            f"Expected a budget larger than that spent in the earlier phases, epsilon {spent:.6g} "
            f"at delta={budget.delta:.3g}, got epsilon={budget.epsilon:g}. The budget covers all "
            "phases together: increase it."
        )

    def reached(noise_multiplier):
        own = updates._replace(noise_multiplier=noise_multiplier)
        return composed_epsilon([*earlier, own], budget.delta, plan.accountant)

    # The limit costs a thousandth of epsilon; phases, or a limit that was given, may cost more.
    guess = 1.2 * calibrate_noise_multiplier(*known) if guess is None else 1.0005 * guess
    return noise_reaching(reached, *known, guess, accountant_of(plan.accountant).or_else)


def noise_reaching(reached, budget, sampling_rate, updates, accountant, guess, or_else=""):
    """The least noise multiplier at which an accountant certifies a finite budget, a float.

    `reached` is a decreasing function from it to epsilon, `guess` where to begin. The other
    arguments are for the text of the ValueError, if none is in the promised interval.
    """
    noise_multiplier, epsilon = _search(reached, budget.epsilon, guess, _AIM, _MOST_EVALUATIONS)
    if not _PROMISED * budget.epsilon <= epsilon <= budget.epsilon:
        raise ValueError(
            f"Expected a noise multiplier with epsilon in [{_PROMISED * budget.epsilon:.6g}, "
            f"{budget.epsilon:.6g}] at delta={budget.delta:.3g}, updates={updates}, "
            f"sampling_rate={sampling_rate:.6g}, got epsilon={epsilon:.6g} from the "
            f"{accountant} accountant at noise multiplier {noise_multiplier:.6g}, the "
            "closest it has. Give a smaller delta if epsilon is 0 there, or else a larger epsilon"
            f"{or_else}."
        )
    return noise_multiplier


def first_guess(budget, sampling_rate, updates):
    """The noise multiplier by the central limit theorem (Bu, Dong, Long & Su 2020, Corollary 4).

    mu = q sqrt(T (exp(1/z^2) - 1)), with mu from epsilon by the zero-concentrated conversion
    epsilon = mu^2 / 2 + mu sqrt(2 log(1/delta)). A starting point only: it is not a bound.
    """
    log_term = -2 * math.log(budget.delta)
    mu = 2 * budget.epsilon / (math.sqrt(log_term + 2 * budget.epsilon) + math.sqrt(log_term))
    spread = math.log1p(mu**2 / max(sampling_rate**2 * updates, 1e-300))
    guess = 1 / math.sqrt(spread) if spread > 0 else math.inf
    return min(max(guess, 2 * _SMALLEST_NOISE), _LARGEST_NOISE / 2)


def _search(reached, target, guess, aim, evaluations):
    """Finds z with reached(z) in [aim * target, target], for a decreasing function `reached`.

    Returns z and reached(z). Where a jump of `reached` hides the interval, z is the smallest one
    known whose value does not exceed the target, or the last one tried if there is none.
    """
    aimed_at = math.log(target * (1 + aim) / 2)
    low = high = None  # Points with epsilon above, and not above, the target.
    trial = math.log(guess)
    for evaluation in range(evaluations):
        noise_multiplier = ceil_float(math.exp(trial), 7)
        epsilon = reached(noise_multiplier)
        if aim * target <= epsilon <= target:
            return noise_multiplier, epsilon
        log_epsilon = math.log(max(epsilon, 1e-300))
        point = (math.log(noise_multiplier), log_epsilon, noise_multiplier, epsilon)
        if epsilon > target:
            low = point
        else:
            high = point
        if low is None or high is None:
            # Epsilon is about proportional to 1 / z where noise is large, steeper where it is
            # small; a widening step makes sure that the bracket is found either way.
            step = point[1] - aimed_at
            least = 0.02 * 2 ** min(evaluation, 6)
            trial = point[0] + math.copysign(min(max(abs(step), least), 3.0), step)
            if not math.log(_SMALLEST_NOISE) <= trial <= math.log(_LARGEST_NOISE):
                break
        else:
            gap = high[0] - low[0]
            if gap < 3e-6:  # Epsilon jumps here, or it would have been met by now.
                break
            # False position in log-log coordinates, where the curve is nearly straight. Halve
            # where an end has no logarithm, and at every third step, so that both ends move.
            fraction = 0.5
            if evaluation % 3 != 2 and high[3] > 0 and math.isfinite(low[3]):
                fraction = min(max((low[1] - aimed_at) / (low[1] - high[1]), 0.01), 0.99)
            trial = low[0] + fraction * gap
    _, _, noise_multiplier, epsilon = high or low
    return noise_multiplier, epsilon
