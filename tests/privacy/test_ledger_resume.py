"""Resumed runs: what was released is counted, at least once, and repetitions are not."""

import math
import random
from collections import Counter

import dp_accounting
import numpy as np
import pytest

from tfdpnorm.privacy import (
    BudgetExhaustedError,
    PrivacyLedger,
    dp_sgd_event,
    epsilon_of,
    make_plan,
)
from tfdpnorm.privacy.accountants import rdp_of, rdp_to_epsilon

PLAN = make_plan(
    num_examples=1000,
    expected_batch_size=50,
    steps=20,
    l2_norm_clip=1.0,
    noise_multiplier=1.0,
    delta=1e-5,
)


def ledger_after(*blocks, digest=lambda position: 1000 + position):
    """A ledger of a process that made updates in blocks of these sizes."""
    ledger = PrivacyLedger(PLAN)
    make(ledger, *blocks, digest=digest)
    return ledger


def make(ledger, *blocks, digest=lambda position: 1000 + position):
    for count in blocks:
        ledger.record_updates(count)
        ledger.record_made(digest(ledger.position))


def other(position):
    return 5000 + position


def numbers(ledger):
    return ledger.updates, ledger.position, ledger.remaining_updates


def test_repetitions_that_are_equal_are_free():
    ledger = ledger_after(*[1] * 10)
    ledger.resume(6, same_randomness=True)
    assert numbers(ledger) == (10, 6, 14) and ledger.resumes == 1
    make(ledger, 1, 1, 1, 1)
    assert numbers(ledger) == (10, 10, 10)
    make(ledger, *[1] * 10)
    assert numbers(ledger) == (20, 20, 0) and ledger.recounted == 0
    assert ledger.epsilon() == PLAN.epsilon_after(20)
    with pytest.raises(BudgetExhaustedError):
        ledger.record_updates()


def test_what_was_announced_and_not_made_never_left():
    ledger = ledger_after(1, 1)
    ledger.record_updates(3)
    assert numbers(ledger) == (5, 5, 15)
    ledger.resume(2, same_randomness=True)
    assert numbers(ledger) == (5, 2, 18)
    make(ledger, 1, 1, 1, 1)
    assert numbers(ledger) == (6, 6, 14)


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
    assert numbers(ledger) == (11, 8, 9)
    make(ledger, 1)  # equal, but after the difference
    assert numbers(ledger) == (12, 9, 8) and ledger.recounted == 2
    ledger.resume(7, same_randomness=True)
    make(ledger, 1, digest=other)
    make(ledger, 1)
    assert numbers(ledger) == (12, 9, 8), "what was done last is what is repeated"
    ledger.resume(6, same_randomness=True)
    make(ledger, 1)
    assert ledger.updates == 12, "what was the same is still known"


def test_with_other_keys_everything_is_counted():
    ledger = ledger_after(*[1] * 10)
    ledger.resume(6, same_randomness=False)
    assert numbers(ledger) == (10, 6, 10)
    make(ledger, 1, 1)
    assert numbers(ledger) == (12, 8, 8)
    ledger.resume(6, same_randomness=True)
    make(ledger, 1, 1)
    assert numbers(ledger) == (12, 8, 8)
    make(ledger, 1)
    assert numbers(ledger) == (13, 9, 7), "the ninth of these keys is made for the first time"


def test_the_plan_ends_where_its_updates_are_spent():
    ledger = ledger_after(15)
    ledger.resume(10, same_randomness=False)
    make(ledger, 5)
    assert numbers(ledger) == (20, 15, 0)
    with pytest.raises(BudgetExhaustedError, match="at most 0 more"):
        ledger.record_updates()


def test_more_than_the_plan_is_reported_as_more():
    ledger = ledger_after(*[1] * 20)
    ledger.resume(18, same_randomness=True)
    make(ledger, 1, digest=other)
    assert numbers(ledger) == (21, 19, 0)
    assert ledger.epsilon() > PLAN.epsilon_after(21)


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
    ledger, reference = PrivacyLedger(PLAN), Reference()
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
                    ledger.record_made(hash(history) % 2**64)
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
        assert ledger.position == len(history) and ledger.recounted >= 0
        if careful and one_size and not differing and not keys:
            assert ledger.recounted == 0


def test_what_an_interrupt_leaves_in_a_living_process_is_counted_when_it_is_repeated():
    """Nothing says that the repetition is what the process may have shown."""
    ledger = ledger_after(4)
    ledger.record_updates(4)
    ledger.record_interrupted()
    assert not ledger.awaits_made and numbers(ledger) == (8, 8, 12)
    with pytest.raises(ValueError, match="Expected an announced update"):
        ledger.record_made(1)
    ledger.resume(4, same_randomness=True)
    make(ledger, 4)
    assert numbers(ledger) == (12, 8, 8) and ledger.recounted == 4
    # As one release of each lot with half the noise's variance, not as eight lots of their own.
    assert ledger.epsilon() > PLAN.epsilon_after(12)


def test_a_process_that_died_instead_has_shown_nothing():
    ledger = ledger_after(4)
    ledger.record_updates(4)
    ledger.resume(4, same_randomness=True)
    make(ledger, 4)
    assert numbers(ledger) == (8, 8, 12) and ledger.recounted == 0


def test_a_run_that_was_ended_makes_no_update():
    ledger = ledger_after(4)
    ledger.finish()
    for _ in range(2):
        assert ledger.is_finished and numbers(ledger) == (4, 4, 0)
        with pytest.raises(BudgetExhaustedError, match="got one that finish.. ended after 4"):
            ledger.record_updates()
        ledger.resume(2, same_randomness=True)  # for its weights; nothing is free, either
        ledger.resume(4, same_randomness=True)
