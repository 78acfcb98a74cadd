"""The two accountants of Ermis & Cemgil (2017): "ac" and "zcdp". Not all that they claim holds.

A "noise ratio" is the noise's standard deviation over the l2 sensitivity. Of one update, the
classical Gaussian theorem (Dwork & Roth 2014, Theorem A.1) gives epsilon_i on its batch for a
delta_i:

    epsilon_i = sqrt(2 log(1.25 / delta_i)) / noise ratio

It is verified for epsilon < 1 only. At 10 the mechanism has up to four times the delta, at 20 up to
150 times. Sampling makes it e = log(1 + q (exp(epsilon_i) - 1)), with delta' = q delta_i, for
adding or removing an example (Li, Qardaji & Su 2012, Theorem 1); for replacing one, too, where both
hold for both adjacencies (Balle, Barthe & Gaboardi 2018, Theorem 2, and the convexity of the
divergence).

**"ac"** adds up T updates by advanced composition (Dwork & Roth 2014, Theorem 3.20):

    epsilon = sqrt(2 T log(1 / delta')) e + T e (exp(e) - 1),   delta = delta' + T q delta_i

It is a guarantee where epsilon_i < 1, and a loose one: at the paper's settings it asks for some
eight times the noise that Renyi accounting does. The paper prints a division by e in the first
term, which is a misprint, and T e^2 for the second, which is a little less than the theorem says.

**"zcdp"**, equations 13 and 14 of the paper, is no guarantee unless the sampling rate is 1:

    epsilon = rho + 2 sqrt(rho log(1 / delta)),  rho = T / (2 s^2)
    e = sqrt(2 log(1.25 / delta')) / s

so a noise ratio s that is enough without sampling becomes e by the Gaussian theorem, e an epsilon_i
on the batch by amplification, and this the noise ratio that is used. Three things are wrong:

* Sampling does not amplify zCDP: the largest divergence over its order stays 1 / (2 s^2).
* The Gaussian theorem is used backwards. That a mechanism is (e, delta')-DP at one delta' bounds no
  divergence: rho per update would be e^2 / 2, not e^2 / (4 log(1.25 / delta')), and that only
  approximately, up to delta'.
* The T delta' that are left over are never paid.

With these mended it asks for as much noise as advanced composition. Renyi accounting ("rdp") is
what it was meant to be. At q = 1 what remains is zCDP's own composition (Bun & Steinke 2016,
Propositions 1.3 and 1.6, Lemma 1.7), which holds.
"""

import math

from tfdpnorm import arguments

_SHARE = 0.5  # of "ac": delta' / delta
_LARGEST_STEP_DELTA = 0.1  # One update's; more would not be private, and less may always be spent.


def gaussian_noise(epsilon, delta):
    """The noise ratio of the Gaussian theorem; `gaussian_noise(ratio, delta)` is its epsilon."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def step_budget(accountant, epsilon, delta, sampling_rate, updates, of_step=None):
    """The (epsilon_i, delta_i) of one update, so that all updates claim (epsilon, delta).

    Epsilon is finite. `of_step` is of "ac" the share of delta that advanced composition takes, by
    default a half; of "zcdp" delta_i, by default delta / q, which makes delta' the total delta.
    """
    epsilon = arguments.positive("epsilon", epsilon)
    rate, updates, delta, step_delta = _checked(accountant, delta, sampling_rate, updates, of_step)
    if accountant == "zcdp":
        log_term = math.log(1 / delta)
        # rho solves rho + 2 sqrt(rho log(1 / delta)) = epsilon; as a fraction, nothing cancels.
        root = epsilon / (math.sqrt(log_term + epsilon) + math.sqrt(log_term))
        step = gaussian_noise(math.sqrt(updates / 2) / root, rate * step_delta)
    else:
        from scipy import optimize

        def excess(log_step):
            return _composed(math.exp(log_step), updates, delta) - epsilon

        # One update alone spends at least epsilon / (3 T log(1 / slack) + ...), less than epsilon.
        low = math.log(epsilon) - math.log(1e3 * updates * (1 - math.log(delta)) * (1 + epsilon))
        step = math.exp(optimize.brentq(excess, low, math.log(epsilon), xtol=1e-14, rtol=1e-14))
    if step > 700:  # exp overflows
        return step - math.log(rate), step_delta
    return math.log1p(math.expm1(step) / rate), step_delta


def claimed_epsilon(accountant, noise_ratio, sampling_rate, updates, delta):
    """The epsilon that the paper claims, perhaps infinite; it holds only where `why_not` is ""."""
    noise_ratio = arguments.nonnegative("noise_ratio", noise_ratio)
    rate, updates, delta, step_delta = _checked(accountant, delta, sampling_rate, updates)
    if noise_ratio == 0:
        return math.inf
    step = gaussian_noise(noise_ratio, step_delta)
    step = step + math.log(rate) if step > 700 else math.log1p(rate * math.expm1(step))
    if accountant == "ac":
        return _composed(step, updates, delta)
    rho = updates / (2 * gaussian_noise(step, rate * step_delta) ** 2)
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def why_not(accountant, noise_ratio, sampling_rate, updates, delta):
    """Returns why a claim is no guarantee, in words; "" for one that is."""
    _, _, _, step_delta = _checked(accountant, delta, sampling_rate, updates)
    if accountant == "zcdp" and sampling_rate != 1:
        return (
            "sampling does not amplify zCDP, and the Gaussian theorem is applied in the wrong "
            "direction"
        )
    if accountant == "ac" and not (noise_ratio > 0 and gaussian_noise(noise_ratio, step_delta) < 1):
        return "the Gaussian theorem needs an epsilon below 1 in each update"
    return ""


def _composed(step_epsilon, updates, slack):
    if step_epsilon > 700:
        return math.inf
    first = math.sqrt(2 * updates * math.log(1 / slack)) * step_epsilon
    return first + updates * step_epsilon * math.expm1(step_epsilon)


def _checked(accountant, delta, sampling_rate, updates, of_step=None):
    """Returns q, T, the delta of the composition (delta' of "ac"), and delta_i."""
    delta = arguments.open_unit("delta", delta)
    rate = arguments.sampling_rate("sampling_rate", sampling_rate)
    updates = arguments.updates("updates", updates, at_least=1)
    if accountant == "ac":
        share = arguments.open_unit("composition_share", _SHARE if of_step is None else of_step)
        step_delta = (1 - share) * delta / (updates * rate)
        return rate, updates, share * delta, min(step_delta, _LARGEST_STEP_DELTA)
    if of_step is None and rate <= delta:
        raise arguments.refusal(
            "sampling_rate",
            f"> delta={delta!r} for zCDP as printed",
            rate,
            "Its delta of one update is delta over the sampling rate: give a smaller delta.",
        )
    of_step = delta / rate if of_step is None else of_step
    return rate, updates, delta, arguments.open_unit("step_delta", of_step)
