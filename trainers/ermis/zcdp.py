"""zCDP composition with amplification as Ermis & Cemgil (2017) print it: "DPVD-zCDP".

**Their claim, not a guarantee**, unless the sampling rate is 1. Equations 13 and 14 of the paper:

    epsilon  = rho + 2 sqrt(rho log(1 / delta)),  rho = T / (2 s^2)
    epsilon' = sqrt(2 log(1.25 / delta')) / s
    epsilon' = log(1 + q (exp(epsilon_i) - 1)),  delta' = q delta_i

so a noise ratio s that is enough without sampling is turned into an epsilon' of one update by the
Gaussian theorem, this into an epsilon_i on the batch by amplification, and this into the noise
ratio that is used, by the Gaussian theorem again. Three things are wrong with it:

* Sampling does not amplify zCDP: the largest divergence over its order stays 1 / (2 s^2).
* The Gaussian theorem is used backwards. That a mechanism is (epsilon', delta')-DP at one delta'
  bounds no divergence: rho per update would be epsilon'^2 / 2, not epsilon'^2 / (4 log(1.25 /
  delta')), and that only approximately, up to delta'.
* The T delta' that are left over are never paid.

With these mended it asks for as much noise as advanced composition. Renyi accounting ("rdp") is
what it was meant to be: the divergences of the sampled mechanism itself, at orders where they are
small. At q = 1 nothing is amplified, and what remains is zCDP's own composition (Bun & Steinke
2016, Propositions 1.3 and 1.6, Lemma 1.7), which holds.
"""

import math

from tfdpnorm import arguments
from trainers.ermis.stepwise import amplified, gaussian_epsilon, gaussian_noise, unamplified


def step_budget(epsilon, delta, sampling_rate, updates, step_delta=None):
    """What one update may spend on its batch, according to the paper: (epsilon_i, delta_i).

    Epsilon is finite. The paper says no `step_delta`, delta_i; the default, delta / q, for which q
    has to be more than delta, makes delta' the total delta.
    """
    epsilon = arguments.positive("epsilon", epsilon)
    delta, rate, updates, step_delta = _checked(delta, sampling_rate, updates, step_delta)
    log_term = math.log(1 / delta)
    # rho solves rho + 2 sqrt(rho log(1 / delta)) = epsilon; as a fraction, nothing cancels.
    root = epsilon / (math.sqrt(log_term + epsilon) + math.sqrt(log_term))
    unsampled = math.sqrt(updates / 2) / root
    return unamplified(gaussian_epsilon(unsampled, rate * step_delta), rate), step_delta


def claimed_epsilon(noise_ratio, sampling_rate, updates, delta, step_delta=None):
    """The paper's epsilon, **which is no guarantee** unless the sampling rate is 1.

    The noise ratio is the standard deviation of the noise over the l2 sensitivity of the sum; the
    other arguments are as in `step_budget`. Perhaps infinite.
    """
    noise_ratio = arguments.nonnegative("noise_ratio", noise_ratio)
    delta, rate, updates, step_delta = _checked(delta, sampling_rate, updates, step_delta)
    if noise_ratio == 0:
        return math.inf
    step = amplified(gaussian_epsilon(noise_ratio, step_delta), rate)
    rho = updates / (2 * gaussian_noise(step, rate * step_delta) ** 2)
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def holds(sampling_rate):
    """Whether the claim is a guarantee: without sampling only."""
    return sampling_rate == 1


def _checked(delta, sampling_rate, updates, step_delta):
    delta = arguments.open_unit("delta", delta)
    rate = arguments.sampling_rate("sampling_rate", sampling_rate)
    updates = arguments.updates("updates", updates, at_least=1)
    if step_delta is None and rate <= delta:
        raise arguments.refusal(
            "sampling_rate",
            f"> delta={delta!r} for zCDP as printed",
            rate,
            "Its delta of one update is delta over the sampling rate: give a smaller delta.",
        )
    step_delta = delta / rate if step_delta is None else step_delta
    return delta, rate, updates, arguments.open_unit("step_delta", step_delta)
