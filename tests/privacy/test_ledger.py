"""The ledger: written first, never beyond the plan, and never better than the truth."""

import math

import pytest

from tfdpnorm.privacy import BudgetExhaustedError, PrivacyLedger, make_plan

PLAN = make_plan(
    num_examples=1000,
    expected_batch_size=50,
    steps=100,
    l2_norm_clip=1.0,
    noise_multiplier=2.0,
    delta=1e-5,
)


def test_updates_add_up():
    ledger = PrivacyLedger(PLAN)
    assert (ledger.updates, ledger.remaining_updates, ledger.epsilon()) == (0, 100, 0)
    ledger.record_updates()
    ledger.record_updates(count=39)
    assert (ledger.updates, ledger.remaining_updates) == (40, 60)
    assert ledger.epsilon() == ledger.claimed_epsilon() == PLAN.epsilon_after(40) > 0
    assert ledger.guarantee_holds and ledger.plan is PLAN


def test_the_plan_is_the_limit():
    ledger = PrivacyLedger(PLAN)
    ledger.record_updates(99)
    with pytest.raises(BudgetExhaustedError, match=r"at most 1 more .*received 2: 99 of the 100"):
        ledger.record_updates(2)
    assert ledger.updates == 99
    ledger.record_updates(1)
    with pytest.raises(BudgetExhaustedError, match="start anew from a plan with more steps"):
        ledger.record_updates(1)
    assert (ledger.updates, ledger.remaining_updates) == (100, 0)


@pytest.mark.parametrize("count", [0, -1, 1.5, math.nan, math.inf, "1", None, True])
def test_updates_cannot_be_taken_back(count):
    ledger = PrivacyLedger(PLAN)
    ledger.record_updates(5)
    with pytest.raises(ValueError, match="Expected count to be a whole number >= 1"):
        ledger.record_updates(count)
    assert ledger.updates == 5


def test_a_reason_found_at_run_time_voids_the_guarantee_for_good():
    ledger = PrivacyLedger(PLAN)
    ledger.record_updates(10)
    ledger.void("lots were not Poisson sampled by this library")
    ledger.void(" lots were not Poisson sampled by this library ")
    assert ledger.no_guarantee_because == ("lots were not Poisson sampled by this library",)
    assert not ledger.guarantee_holds and ledger.epsilon() == math.inf
    ledger.record_updates(10)
    assert ledger.epsilon() == math.inf
    assert ledger.claimed_epsilon() == PLAN.epsilon_after(20) < math.inf
    assert PLAN.guarantee_holds, "the plan is shared and stays as it was"


@pytest.mark.parametrize("reason", ["", "  ", None, 3])
def test_a_reason_is_a_sentence(reason):
    ledger = PrivacyLedger(PLAN)
    with pytest.raises(ValueError, match="Expected reason to be a sentence"):
        ledger.void(reason)
    assert ledger.guarantee_holds


def test_the_plans_reasons_are_the_ledgers():
    plan = make_plan(
        num_examples=1000,
        expected_batch_size=50,
        steps=100,
        l2_norm_clip=1.0,
        noise_multiplier=0.0,
        delta=1e-5,
    )
    ledger = PrivacyLedger(plan)
    ledger.void("another")
    assert ledger.no_guarantee_because == ("the noise multiplier is 0", "another")
    assert ledger.epsilon() == math.inf


def test_resuming():
    ledger = PrivacyLedger(PLAN, updates=60, no_guarantee_because=("found earlier",))
    assert (ledger.updates, ledger.remaining_updates) == (60, 40)
    assert ledger.epsilon() == math.inf
    with pytest.raises(BudgetExhaustedError):
        PrivacyLedger(PLAN, updates=101)
    with pytest.raises(ValueError, match="Expected updates"):
        PrivacyLedger(PLAN, updates=-1)
    with pytest.raises(ValueError, match="Expected plan to be a PrivacyPlan"):
        PrivacyLedger(None)


def test_writing_comes_first_and_a_failed_write_records_nothing():
    seen = []

    class Failing(PrivacyLedger):
        def _persist(self, updates, reasons):
            seen.append((self.updates, updates, reasons))
            if len(seen) > 1:
                raise OSError("disk full")

    ledger = Failing(PLAN)
    ledger.record_updates(3)
    with pytest.raises(OSError):
        ledger.record_updates(4)
    with pytest.raises(OSError):
        ledger.void("a reason")
    assert seen == [(0, 3, ()), (3, 7, ()), (3, 3, ("a reason",))]
    assert ledger.updates == 3 and ledger.guarantee_holds
