"""The ledger: written first, never beyond the plan, and never better than the truth."""

import copy
import dataclasses
import math

import numpy as np
import pytest

from tfdpnorm.privacy import BudgetExhaustedError, PrivacyLedger, epsilon_of, make_plan

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
    with pytest.raises(BudgetExhaustedError, match=r"at most 1 more .*got 2: 99 of the 100"):
        ledger.record_updates(2)
    assert ledger.updates == 99
    ledger.record_updates(1)
    with pytest.raises(BudgetExhaustedError, match="start again with a plan of more steps"):
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
    why = "Expected reason to be a sentence, got .*why no guarantee holds"
    with pytest.raises(ValueError, match=why):
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


def test_a_ledger_can_begin_with_updates_made():
    ledger = PrivacyLedger(PLAN, updates=60, no_guarantee_because=("found earlier",))
    assert (ledger.updates, ledger.remaining_updates) == (60, 40)
    assert ledger.epsilon() == math.inf
    with pytest.raises(BudgetExhaustedError):
        PrivacyLedger(PLAN, updates=101)
    with pytest.raises(ValueError, match="Expected updates"):
        PrivacyLedger(PLAN, updates=-1)
    with pytest.raises(ValueError, match="Expected plan to be a PrivacyPlan"):
        PrivacyLedger(None)


class Recording(PrivacyLedger):
    """Keeps the entries, and what the ledger said when each was written."""

    def __init__(self, *arguments, **named):
        self.entries, self.seen, self.fails = [], [], False
        super().__init__(*arguments, **named)

    def _append(self, entry):
        if self.fails:
            raise OSError("disk full")
        self.entries.append(entry)
        self.seen.append((self.updates, self.position, self.queries, self.no_guarantee_because))


def state_of(ledger):
    fields = {k: v for k, v in vars(ledger).items() if k not in ("entries", "seen", "fails")}
    return copy.deepcopy(fields)


CALLS = [
    lambda ledger: ledger.record_updates(4),
    lambda ledger: ledger.resume(2),
    lambda ledger: ledger.record_query("q", noise_multiplier=3.0, examples=10),
    lambda ledger: ledger.record_answer("asked", 7.5),
    lambda ledger: ledger.void("a reason"),
    lambda ledger: ledger.exclude("a sentence"),
    lambda ledger: ledger.hold_to_plan("a reason"),
    lambda ledger: ledger.establish("a sentence"),
]


@pytest.mark.parametrize("call", CALLS)
def test_writing_comes_first_and_a_failed_write_records_nothing(call):
    ledger = Recording(PLAN)
    ledger.record_updates(3)
    ledger.record_query("asked", noise_multiplier=1.0, examples=5)
    assert ledger.entries[0] == {"kind": "updates", "count": 3}
    assert ledger.seen == [(0, 0, 0, ()), (3, 3, 0, ())]
    before = state_of(ledger)
    ledger.fails = True
    with pytest.raises(OSError):
        call(ledger)
    assert state_of(ledger) == before
    ledger.fails = False
    call(ledger)
    assert len(ledger.entries) == 3 and state_of(ledger) != before


def test_the_same_sentence_is_written_once():
    ledger = Recording(PLAN)
    for _ in range(2):
        ledger.void("a reason")
        ledger.exclude(" a sentence ")
        ledger.hold_to_plan("results decide")
    assert [entry["kind"] for entry in ledger.entries] == ["void", "exclude", "hold"]
    assert ledger.excluded == ("a sentence",)
    assert ledger.held_to_plan_because == ("results decide",)


@pytest.mark.parametrize(
    "call, remedy",
    [
        ("exclude", "Say in words what is not covered"),
        ("establish", "Say in words what is known"),
        ("hold_to_plan", "Say in words why the whole plan is counted"),
    ],
)
@pytest.mark.parametrize("sentence", ["", "  ", None, 3])
def test_sentences_are_checked(call, remedy, sentence):
    with pytest.raises(ValueError, match=f"to be a sentence, got .*{remedy}"):
        getattr(PrivacyLedger(PLAN), call)(sentence)


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_a_run_whose_end_looks_at_results_costs_the_whole_plan(accountant):
    plan = dataclasses.replace(PLAN, accountant=accountant)
    ledger = PrivacyLedger(plan)
    ledger.record_updates(20)
    whole = plan.epsilon_after(100)
    assert ledger.epsilon() < whole == ledger.whole_plan_epsilon()
    ledger.hold_to_plan("training stops when validation falls")
    assert ledger.epsilon() == ledger.claimed_epsilon() == whole
    ledger.record_updates(80)
    assert ledger.epsilon() == whole
    ledger.void("a reason")
    assert ledger.epsilon() == ledger.whole_plan_epsilon() == math.inf


def test_epsilon_by_the_other_accountant():
    ledger = PrivacyLedger(PLAN)
    ledger.record_updates(100)
    exact = epsilon_of(PLAN.event(100), PLAN.delta, "pld")
    assert ledger.epsilon("pld") == exact < ledger.epsilon("rdp") == ledger.epsilon()
    with pytest.raises(ValueError, match="Expected accountant to be one of"):
        ledger.epsilon("moments")


def test_settings_are_plain_values_by_name():
    settings = {"engine": "bk", "depth": np.int64(16), "weight": 0.5, "seed": None, "half": False}
    ledger = PrivacyLedger(PLAN, settings)
    assert ledger.settings == settings and type(ledger.settings["depth"]) is int
    ledger.settings["engine"] = "another"
    assert ledger.settings["engine"] == "bk" and PrivacyLedger(PLAN).settings == {}


@pytest.mark.parametrize(
    "settings", [["a"], {1: "a"}, {"a": [1]}, {"a": math.inf}, {"a": math.nan}, {"a": object()}]
)
def test_other_settings_are_refused(settings):
    with pytest.raises(ValueError, match="Expected .*settings.* got"):
        PrivacyLedger(PLAN, settings)
