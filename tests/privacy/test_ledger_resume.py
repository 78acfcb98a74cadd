"""Resumed runs: every announced update is spent, also those that a crash has lost."""

import math
import random

import pytest

from tfdpnorm.privacy import BudgetExhaustedError, PrivacyLedger, epsilon_of, make_plan
from tfdpnorm.privacy.accountants import dp_sgd_event
from tfdpnorm.privacy.entries import Finish, Query, Resume, Updates

SETTINGS = {
    "num_examples": 1000,
    "expected_batch_size": 50,
    "steps": 20,
    "l2_norm_clip": 1.0,
    "noise_multiplier": 1.0,
    "delta": 1e-5,
}
PLAN = make_plan(**SETTINGS)


def ledger_after(*blocks, plan=PLAN):
    """A ledger of a process that announced updates in blocks of these sizes."""
    ledger = PrivacyLedger(plan)
    make(ledger, *blocks)
    return ledger


def make(ledger, *blocks):
    for count in blocks:
        ledger.record(Updates(count))


def numbers(ledger):
    return (
        ledger.updates,
        ledger.state.position,
        ledger.state.lost_updates,
        ledger.state.remaining_updates,
    )


def test_lost_updates_stay_spent():
    ledger = ledger_after(*[1] * 10)
    ledger.record(Resume(6))
    assert numbers(ledger) == (10, 6, 4, 10) and ledger.state.resumes == 1
    assert ledger.epsilon() == PLAN.epsilon_after(10)
    make(ledger, 1, 1)
    assert numbers(ledger) == (12, 8, 4, 8)
    ledger.record(Resume(6))
    assert numbers(ledger) == (12, 6, 6, 8) and ledger.state.resumes == 2
    make(ledger, 8)
    assert numbers(ledger) == (20, 14, 6, 0)
    assert ledger.epsilon() == ledger.epsilon(whole_plan=True) == PLAN.epsilon_after(20)


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_epsilon_is_that_of_all_updates_on_batches_of_their_own(accountant):
    ledger = ledger_after(15)
    ledger.record(Resume(5))
    make(ledger, 5)
    expected = epsilon_of(dp_sgd_event(0.05, 1.0, 20), 1e-5, accountant)
    assert ledger.epsilon(accountant) == pytest.approx(expected, rel=1e-9)


def test_the_plan_ends_where_its_updates_are_spent():
    ledger = ledger_after(15)
    ledger.record(Resume(10))
    make(ledger, 5)
    before = ledger.state
    with pytest.raises(BudgetExhaustedError, match="at most 0 more.*20 planned are spent, 5 of th"):
        ledger.record(Updates())
    ledger.record(Resume(0))
    with pytest.raises(BudgetExhaustedError, match="at most 0 more"):
        ledger.record(Updates())
    assert ledger.updates == before.updates == 20


@pytest.mark.parametrize("position", [-1, 1.5, 9, math.nan, "3", None, True])
def test_a_checkpoint_of_no_announced_update_is_rejected(position):
    ledger = ledger_after(8)
    with pytest.raises(ValueError, match="Expected position to be"):
        ledger.record(Resume(position))
    assert ledger.state.resumes == 0


def test_without_noise_the_plan_ends_where_it_did():
    ledger = ledger_after(8, plan=make_plan(**SETTINGS | {"noise_multiplier": 0.0}))
    ledger.record(Resume(6))
    make(ledger, 1)
    assert ledger.state.remaining_updates == 11 and ledger.epsilon(whole_plan=True) == math.inf


def test_queries_about_training_examples_are_on_top():
    ledger = ledger_after(12)
    ask = dict(noise_multiplier=9.0, examples=100, disjoint=False, queries_planned=5)
    ledger.record(Query("overlap", **ask))
    ledger.record(Resume(10))
    make(ledger, 8)
    for _ in range(4):
        ledger.record(Query("overlap", **ask))
    assert ledger.state.remaining_updates == 0
    assert PLAN.epsilon_after(20) < ledger.epsilon() == ledger.epsilon(whole_plan=True)


@pytest.mark.parametrize("seed", range(20))
def test_every_drawn_noise_is_counted(seed):
    """Random runs and crashes, against a list of every noise that was drawn."""
    rng = random.Random(seed)
    plan = make_plan(**SETTINGS | {"steps": rng.choice([20, 90])})
    ledger, drawn, weights, checkpoints = PrivacyLedger(plan), 0, 0, [0]
    while ledger.state.remaining_updates:
        count = min(rng.choice([1, 1, 4]), ledger.state.remaining_updates)
        ledger.record(Updates(count))
        made = count if rng.random() < 0.8 else rng.randrange(count + 1)
        drawn, weights = drawn + made, weights + made
        # An interrupted execution in a process that lives on leaves fewer than were announced.
        assert ledger.state.position >= weights
        checkpoints += [ledger.state.position] if rng.random() < 0.4 else []
        if rng.random() < 0.2:
            # Nearly always the last one; else an old copy.
            at = checkpoints[-1] if rng.random() < 0.8 else rng.choice(checkpoints)
            ledger.record(Resume(at))
            checkpoints, weights = [p for p in checkpoints if p <= at], at
        assert drawn <= ledger.updates <= plan.steps
        assert plan.epsilon_after(drawn) <= ledger.epsilon() <= ledger.epsilon(whole_plan=True)
        assert 0 <= ledger.state.position <= ledger.updates


def test_a_run_that_was_ended_makes_no_update():
    ledger = ledger_after(4)
    ledger.record(Finish())
    for _ in range(2):
        assert ledger.state.is_finished and ledger.updates == 4
        assert ledger.state.remaining_updates == 0
        with pytest.raises(BudgetExhaustedError, match="ended after 4"):
            ledger.record(Updates())
        ledger.record(Resume(2))  # for its weights
