"""Sharper bounds from one training: what a trade-off curve allows an attacker to guess.

As in `tfdpnorm.audit.lower_bounds`, m coins decide which canaries are trained on, and an
attacker guesses r of them. There only epsilon and delta bound his luck; here a whole curve does.

Why, in short: let p_i be the probability of exactly i correct guesses, and look at a canary chosen
at random. With probability sum over i >= c of (i / m) p_i it is guessed, correctly, and at least c
guesses are correct. Had its coin fallen the other way, that very output would hold a wrong guess of
it and at least c - 1 correct ones, whose probability is sum over i >= c - 1 of ((r - i) / m) p_i.
The data sets are neighbours, so that the first cannot have been more likely than the curve allows:

    sum_{i >= c - 1} ((r - i) / m) p_i  >=  least_false_positives(sum_{i >= c} (i / m) p_i)

for every c (the curve is convex, which takes care of the average over canaries). If v correct
guesses had a probability of 5 %, these inequalities, from c = v down to 1, would each force some
probability onto one correct guess less. If all of it together exceeds 1, they do not have it.

Reference:
    Mahloujifar, Melis and Chaudhuri (2025), "Auditing f-differential privacy in one run",
    Theorem 3.2 and Algorithm 3.
"""

from scipy import optimize, stats

from tfdpnorm.arguments import open_unit
from tfdpnorm.audit.lower_bounds import check_count

_STEP = 1.01
_LOWEST, _HIGHEST = -700, 400  # leaks of 0.001 and 53
_NEARLY_ONE = 1 - 1e-12


def curve_allows(curve, canaries, guesses, correct, *, probability):
    """Whether a curve allows v = `correct` or more of r guesses on m canaries a `probability`.

    The curve is a `tfdpnorm.audit.trade_offs.Gaussian` or `Lines`. That v guesses instead of "v or
    more" hold all of the probability is the least that the curve has to allow.
    """
    check_count("guesses", guesses, canaries)
    check_count("correct", correct, guesses)
    everything = guesses / canaries
    # Of a random canary: guessed correctly, or wrongly, while at least `place` guesses are correct.
    right = probability * correct / canaries
    wrong = probability * (guesses - correct) / canaries
    for place in range(correct - 1, -1, -1):
        needed = max(wrong, curve.least_false_positives(right))
        right += place / (guesses - place) * (needed - wrong)
        wrong = needed
        if right + wrong > everything:
            return False
    return True


def f_dp_epsilon_lower_bound(family, canaries, guesses, correct, *, confidence=0.95):
    """The largest epsilon, >= 0, of a family of curves that the guesses on one training rule out.

    With probability `confidence` the bound is not above the true epsilon, if the mechanism's curve
    is one of the family's, or above one of them with the true epsilon. The family is a
    `DPSGDFamily`, or another with `curve(leak)` and `epsilon(leak)`. The number of guesses is fixed
    before the coins are looked at. Raises ValueError for counts or a confidence outside of their
    ranges.
    """
    open_unit("confidence", confidence)

    def allowed(leak):
        return curve_allows(
            family.curve(leak), canaries, guesses, correct, probability=1 - confidence
        )

    return _largest_refused(family, allowed)


def independent_epsilon_lower_bound(family, canaries, correct, *, confidence=0.95):
    """The largest epsilon that the guesses of all coins rule out, if the guesses are independent.

    They are for gradient canaries and an honest implementation: each canary has a coin, a place in
    the batches and a coordinate of the noise of its own, and guesses by its own score against a
    fixed threshold. The number of correct guesses is then binomial, with a probability of success
    that the curve bounds. So this is the sharpest test of the claim that training is *what it says
    it is*. It bounds no epsilon of a mechanism that lets canaries share their luck. Otherwise as
    `f_dp_epsilon_lower_bound`.
    """
    check_count("correct", correct, canaries)
    open_unit("confidence", confidence)

    def allowed(leak):
        tail = stats.binom.sf(correct - 1, canaries, best_accuracy(family.curve(leak)))
        return tail >= 1 - confidence

    return _largest_refused(family, allowed)


def best_accuracy(curve):
    """The largest probability of guessing one fair coin right: (1 + power - false positives) / 2.

    All curves here are symmetric, so that the best test errs alike on both sides.
    """
    if curve.least_false_positives(_NEARLY_ONE) <= 1 - _NEARLY_ONE:
        return _NEARLY_ONE
    return optimize.brentq(lambda x: curve.least_false_positives(x) - (1 - x), 0.5, _NEARLY_ONE)


def _largest_refused(family, allowed):
    """The epsilon of the leakiest curve that is not `allowed`; 0 if all are.

    Leaks are whole powers of `_STEP`, so that audits share curves that took long to compute.
    """
    low, high = _LOWEST, _HIGHEST
    if allowed(_STEP**low):
        return 0.0
    if not allowed(_STEP**high):
        return family.epsilon(_STEP**high)
    while high - low > 1:
        middle = (low + high) // 2
        if allowed(_STEP**middle):
            high = middle
        else:
            low = middle
    return family.epsilon(_STEP**low)
