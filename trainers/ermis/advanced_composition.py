"""Advanced composition with amplification by sampling: "DPVD-AC" of Ermis & Cemgil (2017).

Each update is (epsilon_i, delta_i)-DP on its batch by the Gaussian theorem; sampling makes that
smaller; advanced composition (Dwork & Roth 2014, Theorem 3.20) adds up T updates:

    epsilon = sqrt(2 T log(1 / delta')) e + T e (exp(e) - 1),  e = log(1 + q (exp(epsilon_i) - 1))
    delta   = delta' + T q delta_i

It is a guarantee where epsilon_i < 1, and a loose one: at the paper's settings it asks for some
eight times the noise that Renyi accounting does. The paper prints a division by e in the first
term, which is a misprint, and T e^2 for the second, which is a little less than the theorem says.
"""

import math

from tfdpnorm import arguments
from trainers.ermis.stepwise import amplified, gaussian_epsilon, unamplified

_LARGEST_STEP_DELTA = 0.1  # One update's; more would not be private, and less may always be spent.


def step_budget(epsilon, delta, sampling_rate, updates, composition_share=0.5):
    """The (epsilon_i, delta_i) of one update, so that all updates together spend (epsilon, delta).

    Epsilon is finite. Of delta, advanced composition takes the part `composition_share`, delta' /
    delta.
    """
    from scipy import optimize

    epsilon = arguments.positive("epsilon", epsilon)
    _, updates, slack, step_delta = _checked(delta, sampling_rate, updates, composition_share)

    def excess(log_step):
        return _composed(math.exp(log_step), updates, slack) - epsilon

    # One update alone spends at least epsilon / (3 T log(1 / slack) + ...), and less than epsilon.
    low = math.log(epsilon) - math.log(1e3 * updates * (1 - math.log(slack)) * (1 + epsilon))
    step = math.exp(optimize.brentq(excess, low, math.log(epsilon), xtol=1e-14, rtol=1e-14))
    return unamplified(step, sampling_rate), step_delta


def claimed_epsilon(noise_ratio, sampling_rate, updates, delta, composition_share=0.5):
    """Epsilon by advanced composition, perhaps infinite; a guarantee only where `holds`.

    The noise ratio is the standard deviation of the noise over the l2 sensitivity of the sum; the
    other arguments are as in `step_budget`.
    """
    noise_ratio = arguments.nonnegative("noise_ratio", noise_ratio)
    rate, updates, slack, step_delta = _checked(delta, sampling_rate, updates, composition_share)
    if noise_ratio == 0:
        return math.inf
    return _composed(amplified(gaussian_epsilon(noise_ratio, step_delta), rate), updates, slack)


def holds(noise_ratio, sampling_rate, updates, delta, composition_share=0.5):
    """Whether the Gaussian theorem holds for one update: whether epsilon_i < 1.

    Arguments are as in `claimed_epsilon`.
    """
    _, _, _, step_delta = _checked(delta, sampling_rate, updates, composition_share)
    return noise_ratio > 0 and gaussian_epsilon(noise_ratio, step_delta) < 1


def _composed(step_epsilon, updates, slack):
    if step_epsilon > 700:
        return math.inf
    first = math.sqrt(2 * updates * math.log(1 / slack)) * step_epsilon
    return first + updates * step_epsilon * math.expm1(step_epsilon)


def _checked(delta, sampling_rate, updates, composition_share):
    """Returns q, T, delta' and delta_i."""
    delta = arguments.open_unit("delta", delta)
    share = arguments.open_unit("composition_share", composition_share)
    rate = arguments.sampling_rate("sampling_rate", sampling_rate)
    updates = arguments.updates("updates", updates, at_least=1)
    step_delta = (1 - share) * delta / (updates * rate)
    return rate, updates, share * delta, min(step_delta, _LARGEST_STEP_DELTA)
