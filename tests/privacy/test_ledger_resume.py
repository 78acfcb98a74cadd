"""Resumed runs: every announced update is spent, also those that a crash has lost."""

import math

import pytest

from tfdpnorm.privacy import BudgetExhaustedError, PrivacyLedger, make_plan
from tfdpnorm.privacy.entries import Finish, Resume, Updates

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


def test_a_run_that_was_ended_makes_no_update():
    ledger = ledger_after(4)
    ledger.record(Finish())
    for _ in range(2):
        assert ledger.state.is_finished and ledger.updates == 4
        assert ledger.state.remaining_updates == 0
        with pytest.raises(BudgetExhaustedError, match="ended after 4"):
            ledger.record(Updates())
        ledger.record(Resume(2))  # for its weights
