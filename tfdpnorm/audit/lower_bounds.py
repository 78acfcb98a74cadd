"""Lower bounds on epsilon from the success of an attacker.

An (epsilon, delta)-DP mechanism limits how well an attacker can distinguish neighbouring data sets.
Counting an attacker's successes therefore bounds epsilon from below, with a confidence. A low bound
proves nothing: another attack may do better.
"""

import math

import numpy as np
from scipy import optimize, stats

from tfdpnorm.arguments import open_unit, real, refusal


def proportion_upper_bound(successes, trials, confidence):
    """The one-sided Clopper-Pearson (1934) upper bound on a probability; 1 if all were successes.

    `successes` is an int or an array of them, from 0 to `trials`, the number of independent trials.
    Whatever the true value, the bound is not below it, with probability `confidence`.
    """
    successes = np.asarray(successes)
    failures = trials - successes
    bound = stats.beta.ppf(confidence, successes + 1, np.maximum(failures, 1))
    return np.where(failures == 0, 1.0, bound)


def epsilon_lower_bound(
    false_positives, negatives, false_negatives, positives, *, delta, confidence=0.95
):
    """The lower bound on epsilon, >= 0, that a test's two error counts imply.

    Every test of (epsilon, delta)-DP neighbours has FPR >= (1 - delta - FNR) / e^epsilon and, the
    other way round, FNR >= (1 - delta - FPR) / e^epsilon. Upper bounds on both rates, which hold
    together with probability `confidence` by the union bound, turn these into bounds on epsilon.
    Raises ValueError for counts, delta or confidence outside of their ranges.

    Args:
        false_positives: How often the test said "with" on the data set without the example; an int
            or an array of them.
        negatives: Number of independent runs on that data set.
        false_negatives: How often it said "without" on the one with the example.
        positives: Number of independent runs on that one.
        delta: The delta of the claim that is audited.
        confidence: Probability that the bound is not above the true epsilon.

    Reference:
        Kairouz, Oh and Viswanath (2015), Theorem 2.1; Jagielski, Ullman and Oprea (2020),
        Section 3, for the use of Clopper-Pearson bounds.
    """
    check_count("false_positives", false_positives, negatives)
    check_count("false_negatives", false_negatives, positives)
    _check_probabilities(delta, confidence)
    each = (1 + confidence) / 2
    fpr = proportion_upper_bound(false_positives, negatives, each)
    fnr = proportion_upper_bound(false_negatives, positives, each)
    return _epsilon(fpr, fnr, delta)


def epsilon_from_samples(with_example, without_example, *, delta, confidence=0.95):
    """A lower bound on epsilon, >= 0, from samples of one number that a mechanism released.

    The test is a threshold on the number, chosen with its direction on the first half of the
    samples; the errors are counted on the second half, so that the choice costs no confidence. The
    bound is at most about log(n / 7.4) at confidence 0.95: half of the samples without an error.
    The samples are independent and finite, at least 2 with the example, [n], and 2 without it (else
    ValueError); `delta` and `confidence` as in `epsilon_lower_bound`.
    """
    samples = [np.asarray(s, np.float64) for s in (with_example, without_example)]
    for values in samples:
        if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
            raise ValueError(
                f"Expected at least 2 finite samples of each data set, got shape {values.shape}, "
                f"{int((~np.isfinite(values)).sum())} of them not finite. Draw more."
            )
    chosen = [values[: len(values) // 2] for values in samples]
    scored = [values[len(values) // 2 :] for values in samples]
    threshold, upwards = _best_threshold(*chosen, delta, confidence)
    said_with = [(values > threshold) == upwards for values in scored]
    bound = epsilon_lower_bound(
        int(said_with[1].sum()),
        len(scored[1]),
        int((~said_with[0]).sum()),
        len(scored[0]),
        delta=delta,
        confidence=confidence,
    )
    return float(bound)


def _best_threshold(with_example, without_example, delta, confidence):
    """The best threshold on these samples themselves, and whether "with" lies above it."""
    ordered = [np.sort(values) for values in (with_example, without_example)]
    thresholds = np.unique(np.concatenate(ordered))
    # The rates' bounds for "above the threshold means with", by the number of errors.
    rates = []
    for values in ordered:
        count = len(values)
        errors = np.arange(count + 1)
        bound = proportion_upper_bound(errors, count, (1 + confidence) / 2)
        below = np.searchsorted(values, thresholds, side="right")
        rates.append((bound[below], bound[count - below]))
    (missed, caught), (quiet, alarmed) = rates
    upwards = _epsilon(alarmed, missed, delta)
    downwards = _epsilon(quiet, caught, delta)
    if upwards.max() >= downwards.max():
        return thresholds[upwards.argmax()], True
    return thresholds[downwards.argmax()], False


def _epsilon(fpr, fnr, delta):
    """The epsilon below which no mechanism allows both error rates at once, in either direction."""
    with np.errstate(invalid="ignore", divide="ignore"):
        bounds = [np.log((1 - delta - b) / a) for a, b in ((fpr, fnr), (fnr, fpr))]
    # NaN: delta alone allows what the test did.
    return np.fmax(np.fmax(*bounds), 0.0)


def one_run_p_value(canaries, guesses, correct, *, epsilon, delta):
    """An upper bound on the probability of so many correct guesses under (epsilon, delta)-DP.

    Each of m canaries was in the data or not, by the toss of a fair coin. An attacker who sees what
    was trained guesses r <= m of the coins, and abstains from the others; v guesses are correct.
    Under (epsilon, 0)-DP the number of correct guesses is dominated by r independent ones, each
    correct with probability p = e^epsilon / (1 + e^epsilon); delta adds at most 2 m delta
    max_i P[v - i <= Binomial(r, p) < v] / i, over i = 1 .. v.

    Reference:
        Steinke, Nasr and Jagielski (2023), "Privacy auditing with one (1) training run",
        Theorem 5.2.
    """
    check_count("guesses", guesses, canaries)
    check_count("correct", correct, guesses)
    success = 1 / (1 + math.exp(-epsilon))
    tail = stats.binom.sf(correct - 1, guesses, success)
    ways = np.arange(1, correct + 1)
    near = np.cumsum(stats.binom.pmf(correct - ways, guesses, success)) / ways
    return float(min(1.0, tail + 2 * canaries * delta * near.max(initial=0.0)))


def one_run_epsilon_lower_bound(canaries, guesses, correct, *, delta, confidence=0.95):
    """The largest epsilon, >= 0, that the guesses on one training rule out; see `one_run_p_value`.

    The number of guesses is fixed before the coins are looked at. With probability `confidence` the
    bound is not above the true epsilon. Raises ValueError for counts, delta or confidence outside
    of their ranges.
    """
    _check_probabilities(delta, confidence)

    def excess(epsilon):
        p_value = one_run_p_value(canaries, guesses, correct, epsilon=epsilon, delta=delta)
        return p_value - (1 - confidence)

    if excess(0.0) >= 0:
        return 0.0
    high = 1.0
    while excess(high) < 0:
        high *= 2
    # Any epsilon that is ruled out is a valid bound: the root's lower side.
    root = optimize.bisect(excess, 0.0, high, xtol=1e-9)
    return max(0.0, root - 1e-9)


def check_count(name, count, total):
    """Raises ValueError unless a count, or each of an array, is from 0 to a total >= 1."""
    if total < 1 or np.any(np.less(count, 0)) or np.any(np.greater(count, total)):
        raise ValueError(f"Expected 0 <= {name} <= {total}, and at least 1 trial, got {count}.")


def _check_probabilities(delta, confidence):
    if not 0 <= real("delta", delta, "in [0, 1)") < 1:
        raise refusal("delta", "in [0, 1)", delta)
    open_unit("confidence", confidence)
