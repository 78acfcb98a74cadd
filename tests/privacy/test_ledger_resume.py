"""Resumed runs: what was released is counted, at least once, and repetitions are not."""

import copy
import functools
import itertools
import math
import random
from collections import Counter

import dp_accounting
import numpy as np
import pytest

from tfdpnorm.privacy import (
    BudgetExhaustedError,
    PrivacyLedger,
    allowance,
    dp_sgd_event,
    epsilon_of,
    make_plan,
)
from tfdpnorm.privacy.accountants import rdp_of, rdp_to_epsilon

SETTINGS = {
    "num_examples": 1000,
    "expected_batch_size": 50,
    "steps": 200,
    "l2_norm_clip": 1.0,
    "noise_multiplier": 1.0,
    "delta": 1e-5,
}
# With room for a few updates that are counted again, and without.
PLAN, SHORT = (make_plan(**SETTINGS | {"steps": steps}) for steps in (400, 20))


def ledger_after(*blocks, digest=lambda position: 1000 + position, plan=PLAN):
    """A ledger of a process that made updates in blocks of these sizes."""
    ledger = PrivacyLedger(plan)
    make(ledger, *blocks, digest=digest)
    return ledger


def make(ledger, *blocks, digest=lambda position: 1000 + position):
    for count in blocks:
        ledger.record_updates(count)
        ledger.record_made(digest(ledger.position))


def other(position):
    return 5000 + position


def numbers(ledger):
    return ledger.updates, ledger.position


def left(ledger):
    """Updates left beyond those of `PLAN` or `SHORT` that are made."""
    return ledger.remaining_updates - ledger.plan.steps + ledger.updates


def test_repetitions_that_are_equal_are_free():
    ledger = ledger_after(*[1] * 10, plan=SHORT)
    ledger.resume(6, same_randomness=True)
    assert numbers(ledger) == (10, 6) and ledger.resumes == 1
    assert ledger.remaining_updates == 14
    make(ledger, 1, 1, 1, 1)
    assert numbers(ledger) == (10, 10) and left(ledger) == 0
    make(ledger, *[1] * 10)
    assert numbers(ledger) == (20, 20) and ledger.recounted == 0
    assert ledger.remaining_updates == 0
    assert ledger.epsilon() == ledger.planned_epsilon == SHORT.epsilon_after(20)
    with pytest.raises(BudgetExhaustedError):
        ledger.record_updates()


def test_without_a_repeated_lot_no_accountant_is_asked(monkeypatch):
    monkeypatch.setattr(allowance, "exact_epsilon", None)
    ledger = ledger_after(*[1] * 10)
    ledger.resume(6, same_randomness=True)
    make(ledger, 1, 1)
    ledger.record_updates()
    ledger.resume(3, same_randomness=False)
    make(ledger, 1, 1)
    assert ledger.remaining_updates == 400 - 12


def test_what_was_announced_and_not_made_never_left():
    ledger = ledger_after(1, 1, plan=SHORT)
    ledger.record_updates(3)
    assert numbers(ledger) == (5, 5) and left(ledger) == 0
    ledger.resume(2, same_randomness=True)
    assert numbers(ledger) == (5, 2) and left(ledger) == 3
    make(ledger, 1, 1, 1, 1)
    assert numbers(ledger) == (6, 6) and left(ledger) == 0


def test_but_it_may_have_left_if_the_process_went_on():
    ledger = PrivacyLedger(PLAN)
    ledger.record_updates(4)
    ledger.record_updates(4)
    ledger.resume(0, same_randomness=True)
    make(ledger, 4)
    assert ledger.updates == 12  # 8, and 4 that nothing can be compared with
    make(ledger, 4)
    assert ledger.updates == 12  # the last 4 were never made


def test_a_query_relies_on_the_update_before_it():
    ledger = PrivacyLedger(PLAN)
    ledger.record_updates()
    ledger.record_query("accuracy", noise_multiplier=5.0, examples=100)
    ledger.resume(0, same_randomness=True)
    make(ledger, 1)
    assert ledger.updates == 2


def test_a_repetition_that_differs_is_counted_and_all_after_it():
    ledger = ledger_after(*[1] * 10)
    ledger.resume(6, same_randomness=True)
    make(ledger, 1)
    make(ledger, 1, digest=other)
    assert numbers(ledger) == (11, 8)
    make(ledger, 1)  # equal, but after the difference
    assert numbers(ledger) == (12, 9) and ledger.recounted == 2
    ledger.resume(7, same_randomness=True)
    make(ledger, 1, digest=other)
    make(ledger, 1)
    assert numbers(ledger) == (12, 9), "what was done last is what is repeated"
    ledger.resume(6, same_randomness=True)
    make(ledger, 1)
    assert ledger.updates == 12, "what was the same is still known"


def test_with_other_keys_everything_is_counted():
    ledger = ledger_after(*[1] * 10, plan=SHORT)
    ledger.resume(6, same_randomness=False)
    assert numbers(ledger) == (10, 6) and left(ledger) == 0
    make(ledger, 1, 1)
    assert numbers(ledger) == (12, 8) and left(ledger) == 0
    ledger.resume(6, same_randomness=True)
    make(ledger, 1, 1)
    assert numbers(ledger) == (12, 8) and left(ledger) == 0
    make(ledger, 1)
    assert numbers(ledger) == (13, 9), "the ninth of these keys is made for the first time"
    assert left(ledger) == 0, "lots of their own"


def test_the_plan_ends_where_its_updates_are_spent():
    ledger = ledger_after(15, plan=SHORT)
    ledger.resume(10, same_randomness=False)
    make(ledger, 5)
    assert numbers(ledger) == (20, 15)
    with pytest.raises(BudgetExhaustedError, match="at most 0 more"):
        ledger.record_updates()


@pytest.mark.parametrize("made", [19, 12, 1])
def test_what_exceeds_the_plan_is_refused_and_not_counted(made):
    """At this noise, one lot used twice costs more than 20 that are used once."""
    ledger = ledger_after(*[1] * made, plan=SHORT)
    ledger.resume(made - 1, same_randomness=True)
    ledger.record_updates()
    before = copy.deepcopy(vars(ledger))
    with pytest.raises(BudgetExhaustedError, match="got them differently.*2.482"):
        ledger.record_made(7)
    assert vars(ledger) == before
    ledger.resume(made - 1, same_randomness=True)
    assert numbers(ledger) == (made, made - 1) and left(ledger) == 1
    make(ledger, 1)
    assert numbers(ledger) == (made, made) and ledger.recounted == 0, "this time it is the same"


def test_repetitions_that_cannot_be_compared_are_refused_where_they_cost_too_much():
    ledger = ledger_after(5, 5, plan=SHORT)
    ledger.resume(0, same_randomness=True)
    ledger.record_updates(3)
    with pytest.raises(BudgetExhaustedError, match="updates 1 to 3 .* in steps that cannot be"):
        ledger.record_made(1003)


def test_relied_upon_without_a_digest_it_is_counted_whatever_it_costs():
    ledger = ledger_after(*[1] * 20, plan=SHORT)
    ledger.resume(18, same_randomness=True)
    ledger.record_updates()
    assert ledger.remaining_updates == 1, "free still, if it comes out the same"
    with pytest.raises(BudgetExhaustedError):
        ledger.record_updates(2)
    ledger.record_query("accuracy", noise_multiplier=5.0, examples=100)
    assert numbers(ledger) == (21, 19)
    assert ledger.epsilon() > ledger.planned_epsilon


@functools.cache
def one_rdp(noise, uses):
    return rdp_of(dp_sgd_event(0.05, noise / math.sqrt(uses), 1))


def most_that_fit(ledger, lots, planned):
    """By looking at each number of further updates, from `lots`: how often each was used."""
    most, uses = 0, Counter(lots)
    for position in itertools.count(ledger.position + 1):
        uses[position] += 1
        rdp = sum(one_rdp(ledger.plan.noise_multiplier, m) for m in uses.values())
        if rdp_to_epsilon(rdp, 1e-5) > planned:
            return most
        most += 1


@pytest.mark.parametrize("noise, differing", [(1.0, 1), (1.0, 3), (2.0, 1), (2.0, 4), (6.0, 5)])
def test_after_a_difference_as_many_updates_are_left_as_cost_the_same(noise, differing):
    plan = make_plan(**SETTINGS | {"noise_multiplier": noise})
    ledger = ledger_after(*[1] * 40, plan=plan)
    ledger.resume(32, same_randomness=True)
    lots = dict.fromkeys(range(1, 41), 1)
    for _ in range(differing):
        make(ledger, 1, digest=other)
        lots[ledger.position] += 1
        assert ledger.remaining_updates == most_that_fit(ledger, lots, plan.epsilon_after(200))
    assert left(ledger) < 0, "a lot used twice costs more than two"
    while ledger.remaining_updates:
        expected = ledger.remaining_updates - 1
        make(ledger, 1, digest=other)
        assert ledger.remaining_updates == expected
    assert 0.97 * ledger.planned_epsilon < ledger.epsilon() <= ledger.planned_epsilon
    with pytest.raises(BudgetExhaustedError, match="repetitions that were counted again"):
        ledger.record_updates()
    ledger.hold_to_plan("results decide")
    assert ledger.epsilon() == ledger.planned_epsilon == plan.epsilon_after(200)


@pytest.mark.slow_cases("pld")
@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_queries_about_training_examples_are_on_top(accountant):
    plan = make_plan(**SETTINGS | {"steps": 60, "noise_multiplier": 2.0, "accountant": accountant})
    ledger = ledger_after(*[1] * 20, plan=plan)
    ask = dict(noise_multiplier=9.0, examples=100, disjoint=False, queries_planned=5)
    ledger.record_query("overlap", **ask)
    assert ledger.remaining_updates == 40
    ledger.resume(19, same_randomness=True)
    make(ledger, 1, digest=other)
    assert 0 < ledger.remaining_updates < 40
    while ledger.remaining_updates:
        make(ledger, 1, digest=other)
        assert ledger.epsilon() <= ledger.planned_epsilon
    for _ in range(4):
        ledger.record_query("overlap", **ask)
    assert ledger.epsilon() <= ledger.planned_epsilon
    assert ledger.planned_epsilon > plan.epsilon_after(60)


def test_without_noise_the_plan_ends_where_it_did():
    plan = make_plan(**SETTINGS | {"steps": 12, "noise_multiplier": 0.0})
    ledger = ledger_after(*[1] * 8, plan=plan)
    ledger.resume(6, same_randomness=True)
    make(ledger, 1, digest=other)
    assert ledger.remaining_updates == 3 and ledger.planned_epsilon == math.inf


def test_a_digest_confirms_the_repetitions_before_it():
    ledger = ledger_after(4, 4)
    ledger.resume(0, same_randomness=True)
    make(ledger, 1)
    assert ledger.updates == 9, "there is no digest to compare the first one with"
    make(ledger, 1, 1)
    assert ledger.updates == 11
    make(ledger, 1)
    assert ledger.updates == 8 and ledger.epsilon() == PLAN.epsilon_after(8)


def test_a_digest_refutes_the_repetitions_before_it():
    ledger = ledger_after(4, 4)
    ledger.resume(0, same_randomness=True)
    make(ledger, 3)
    make(ledger, 1, digest=other)
    assert ledger.updates == 12
    make(ledger, 4)
    assert ledger.updates == 16


def test_unconfirmed_repetitions_stay_counted_when_the_process_dies():
    ledger = ledger_after(4)
    ledger.resume(0, same_randomness=True)
    make(ledger, 3)
    ledger.resume(0, same_randomness=True)
    assert ledger.updates == 7
    make(ledger, 4)
    assert ledger.updates == 7, "this process repeated all, the one before it may not have"


def test_a_block_across_the_last_digest_cannot_be_compared():
    ledger = ledger_after(4, 4)
    ledger.resume(0, same_randomness=True)
    make(ledger, 3, 3, 3)
    assert ledger.position == 9 and ledger.updates == 9 + 8
    make(ledger, 3)
    assert ledger.updates == 12 + 8


def test_a_block_across_a_digest_is_compared_at_the_next():
    ledger = ledger_after(4, 4, 4)
    ledger.resume(0, same_randomness=True)
    make(ledger, 6)
    assert ledger.updates == 18
    make(ledger, 6)
    assert ledger.updates == 12


@pytest.mark.parametrize("position", [-1, 1.5, 9, math.nan, "3", None, True])
def test_a_checkpoint_of_no_announced_update_is_refused(position):
    ledger = ledger_after(8)
    with pytest.raises(ValueError, match="Expected position to be"):
        ledger.resume(position, same_randomness=True)
    with pytest.raises(ValueError, match="Expected same_randomness to be True or False"):
        ledger.resume(3, same_randomness=1)
    assert ledger.resumes == 0


def composed(*parts):
    return dp_accounting.ComposedDpEvent(
        [dp_sgd_event(0.05, noise, count) for noise, count in parts]
    )


@pytest.mark.parametrize("accountant, once", [("rdp", 19), ("pld", 20)])
def test_a_lot_that_was_used_twice_is_hidden_by_sampling_once(accountant, once):
    """The PLD curve reports 20 updates for 19."""
    ledger = ledger_after(*[1] * 20)
    for uses in (2, 3):
        ledger.resume(15, same_randomness=True)
        make(ledger, 1, digest=lambda position, uses=uses: uses)
        assert ledger.updates == 19 + uses
        event = composed((1.0, once), (1 / math.sqrt(uses), 1))
        expected = epsilon_of(event, 1e-5, accountant)
        assert ledger.epsilon(accountant) == pytest.approx(expected, rel=1e-9)
        apart = epsilon_of(composed((1.0, 19 + uses)), 1e-5, accountant)
        assert ledger.epsilon(accountant) > apart


def test_with_other_keys_the_lots_are_other_lots():
    ledger = ledger_after(*[1] * 10)
    ledger.resume(5, same_randomness=False)
    make(ledger, *[1] * 5)
    assert ledger.epsilon() == PLAN.epsilon_after(15)
    for keys in (True, False):
        ledger.resume(5, same_randomness=keys)
        make(ledger, 1, digest=other)
    assert ledger.updates == 17
    event = composed((1.0, 15), (1 / math.sqrt(2), 1))
    assert ledger.epsilon() == pytest.approx(epsilon_of(event, 1e-5), rel=1e-9)
    ledger.resume(5, same_randomness=True)
    make(ledger, 1)
    event = composed((1.0, 14), (1 / math.sqrt(2), 2))
    assert ledger.epsilon() == pytest.approx(epsilon_of(event, 1e-5), rel=1e-9)


def test_two_gaussians_on_one_lot_are_one_with_less_noise():
    """The pair of sums of one example that is in the lot with probability q, by quadrature."""
    rate, noise, order = 0.05, 1.0, 3
    x = np.linspace(-12, 14, 1301)
    density = np.exp(-(x**2) / (2 * noise**2)) / (noise * math.sqrt(2 * math.pi))
    ratio = np.exp((2 * x - 1) / (2 * noise**2))
    both = 1 - rate + rate * np.multiply.outer(ratio, ratio)
    moment = np.sum(np.multiply.outer(density, density) * both**order) * (x[1] - x[0]) ** 2
    formula = rdp_of(dp_sgd_event(rate, noise / math.sqrt(2), 1), [order])[0]
    assert math.log(moment) / (order - 1) == pytest.approx(formula, rel=1e-6)


RDP = {uses: rdp_of(dp_sgd_event(0.05, 1 / math.sqrt(uses), 1)) for uses in range(1, 40)}


class Reference:
    """Counts all distinct releases that were shown.

    An update is a pair: the number of the keys it was made with, and one that something else,
    such as rounding, made it come out by. What it released depends on all updates before it.
    """

    def __init__(self):
        self.shown = set()

    def show(self, history):
        self.shown |= {history[: i + 1] for i in range(len(history))}

    def epsilon(self):
        """Updates at one position with the same keys have the same lot."""
        uses = Counter((len(history), history[-1][0]) for history in self.shown)
        return rdp_to_epsilon(sum(RDP[m] for m in uses.values()), 1e-5) if uses else 0.0


@pytest.mark.parametrize("differing", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("careful", [True, False])
@pytest.mark.parametrize("one_size", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_nothing_released_is_left_out(seed, differing, careful, one_size):
    """Random runs and crashes; a careless user does not always record what was made."""
    rng = random.Random(f"{seed} {differing} {careful} {one_size}")
    plan = rng.choice([SHORT, PLAN])
    ledger, reference = PrivacyLedger(plan), Reference()
    keys, history, checkpoints, size = 0, (), [()], rng.choice([1, 2, 3])
    for _ in range(60):
        act = rng.random()
        if act < 0.7 and ledger.remaining_updates:
            size = size if one_size else rng.choice([1, 2, 3])
            count = min(size, ledger.remaining_updates)
            ledger.record_updates(count)
            reference.show(history)
            for _ in range(count):
                rounding = rng.randrange(1, 10**9) if rng.random() < differing else 0
                history += ((keys, rounding),)
            if careful or rng.random() < 0.7:
                if rng.random() < 0.9:
                    try:
                        ledger.record_made(hash(history) % 2**64)
                    except BudgetExhaustedError:
                        act = 1.0  # It is thrown away, and training goes on from a checkpoint.
                    else:
                        reference.show(history)
                        checkpoints += [history] if rng.random() < 0.5 else []
                else:
                    act = 1.0  # The process dies before it shows anything.
        elif act < 0.8:
            ledger.record_query("accuracy", noise_multiplier=3.0, examples=10)
            reference.show(history)
        if act > 0.88:
            # Nearly always the last one; else an old copy, of other keys perhaps.
            history = checkpoints[-1] if rng.random() < 0.8 else rng.choice(checkpoints)
            same = rng.random() < 0.7
            keys += not same
            ledger.resume(len(history), same_randomness=same)
        assert len(reference.shown) <= ledger.updates
        assert reference.epsilon() <= ledger.epsilon() * (1 + 1e-9)
        if careful:
            assert ledger.epsilon() <= ledger.planned_epsilon
        assert ledger.position == len(history) and ledger.recounted >= 0
        if careful and one_size and not differing and not keys:
            assert ledger.recounted == 0


def test_what_an_interrupt_leaves_in_a_living_process_is_counted_when_it_is_repeated():
    """Nothing says that the repetition is what the process may have shown."""
    ledger = ledger_after(4)
    ledger.record_updates(4)
    ledger.record_interrupted()
    assert not ledger.awaits_made and numbers(ledger) == (8, 8)
    with pytest.raises(ValueError, match="Expected an announced update"):
        ledger.record_made(1)
    ledger.resume(4, same_randomness=True)
    make(ledger, 4)
    assert numbers(ledger) == (12, 8) and ledger.recounted == 4
    # As one release of each lot with half the noise's variance, not as eight lots of their own.
    assert ledger.epsilon() > PLAN.epsilon_after(12)


def test_a_process_that_died_instead_has_shown_nothing():
    ledger = ledger_after(4)
    ledger.record_updates(4)
    ledger.resume(4, same_randomness=True)
    make(ledger, 4)
    assert numbers(ledger) == (8, 8) and ledger.recounted == 0


def test_a_run_that_was_ended_makes_no_update():
    ledger = ledger_after(4)
    ledger.finish()
    for _ in range(2):
        assert ledger.is_finished and numbers(ledger) == (4, 4)
        assert ledger.remaining_updates == 0
        with pytest.raises(BudgetExhaustedError, match="got one that finish.. ended after 4"):
            ledger.record_updates()
        ledger.resume(2, same_randomness=True)  # for its weights; nothing is free, either
        ledger.resume(4, same_randomness=True)
