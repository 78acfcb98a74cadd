"""The ledger: written first, never beyond the plan, and never better than the truth."""

import dataclasses
import math

import numpy as np
import pytest

from tests.each import each
from tests.privacy.ledger_doubles import PLAN, ledger_after
from tfdpnorm.privacy import (
    BudgetExhaustedError,
    PrivacyLedger,
    dp_sgd_event,
    epsilon_of,
)
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.entries import Answer, Finish, Query, Resume, Updates


def test_the_plan_is_the_limit():
    ledger = ledger_after(99)
    with pytest.raises(BudgetExhaustedError, match=r"at most 1 more .*got 2: 99 of the 100"):
        ledger.record(Updates(2))
    assert ledger.updates == 99
    ledger.record(Updates(1))
    with pytest.raises(BudgetExhaustedError, match="start again with a plan of more steps"):
        ledger.record(Updates(1))
    assert (ledger.updates, ledger.state.remaining_updates) == (100, 0)


@each("entry", [Updates, Resume])
@each("value", [-1, 1.5, math.nan, "1", None, True])
def test_updates_and_positions_are_whole_numbers(entry, value):
    with pytest.raises(ValueError, match="Expected (count|position) to be a whole number"):
        entry(value)


def test_lost_updates_stay_spent():
    ledger = ledger_after(*[1] * 10)
    ledger.record(Resume(6))
    state = ledger.state
    assert (state.updates, state.position, state.lost_updates, state.resumes) == (10, 6, 4, 1)
    assert state.remaining_updates == 90 and ledger.epsilon() == PLAN.epsilon_after(10)
    ledger.record(Updates(90))
    assert (ledger.state.position, ledger.state.lost_updates) == (96, 4)
    assert ledger.epsilon() == ledger.epsilon(whole_plan=True) == PLAN.epsilon_after(100)
    with pytest.raises(BudgetExhaustedError, match="at most 0 more.*100 planned.*4 of th"):
        ledger.record(Updates())
    ledger.record(Resume(0))
    with pytest.raises(BudgetExhaustedError, match="at most 0 more"):
        ledger.record(Updates())
    with pytest.raises(ValueError, match="Expected position to be at most 100"):
        ledger.record(Resume(101))
    assert ledger.state.resumes == 2 and ledger.updates == 100


def test_a_run_that_was_ended_makes_no_update():
    ledger = ledger_after(4)
    ledger.record(Finish())
    for _ in range(2):
        assert ledger.state.is_finished and ledger.state.remaining_updates == 0
        with pytest.raises(BudgetExhaustedError, match="ended after 4"):
            ledger.record(Updates())
        ledger.record(Resume(2))  # for its weights


def test_a_reason_found_at_run_time_voids_the_guarantee_for_good():
    ledger = PrivacyLedger(PLAN)
    ledger.record(Updates(10))
    ledger.record(caveat("no_guarantee", sentence="lots were not Poisson sampled by this library"))
    ledger.record(
        caveat("no_guarantee", sentence=" lots were not Poisson sampled by this library ")
    )
    assert ledger.state.sentences("no_guarantee") == (
        "lots were not Poisson sampled by this library",
    )
    assert not ledger.guarantee_holds and ledger.epsilon() == math.inf
    ledger.record(Updates(10))
    assert ledger.epsilon() == math.inf
    assert ledger.claimed_epsilon() == PLAN.epsilon_after(20) < math.inf
    assert PLAN.guarantee_holds, "the plan is shared and stays as it was"


def test_a_ledger_needs_a_plan():
    with pytest.raises(ValueError, match="Expected plan to be a PrivacyPlan"):
        PrivacyLedger(None)


class Recording:
    """A file that keeps the entries, and the state when each was written."""

    def __init__(self, ledger):
        self.entries, self.states, self.fails, self._ledger = [], [], False, ledger
        ledger.file = self

    def append(self, entry):
        if self.fails:
            raise OSError("disk full")
        self.entries.append(entry)
        self.states.append(self._ledger.state)


CALLS = [
    lambda ledger: ledger.record(Updates(4)),
    lambda ledger: ledger.record(Resume(2)),
    lambda ledger: ledger.record(Query("q", noise_multiplier=3.0, examples=10)),
    lambda ledger: ledger.record(Answer("asked", 7.5)),
    lambda ledger: ledger.record(caveat("no_guarantee", sentence="a reason")),
    lambda ledger: ledger.record(caveat("not_covered", sentence="a sentence")),
    lambda ledger: ledger.record(caveat("held_to_plan", sentence="a reason")),
    lambda ledger: ledger.record(caveat("established", sentence="a sentence")),
]


@pytest.mark.parametrize("call", CALLS)
def test_writing_comes_first_and_a_failed_write_records_nothing(call):
    ledger = PrivacyLedger(PLAN)
    file, begun = Recording(ledger), ledger.state
    ledger.record(Updates(3))
    ledger.record(Query("asked", noise_multiplier=1.0, examples=5))
    assert file.entries[0] == {"kind": "updates", "count": 3}
    assert [state.updates for state in file.states] == [0, 3] and file.states[0] is begun
    before = ledger.state
    file.fails = True
    with pytest.raises(OSError):
        call(ledger)
    assert ledger.state == before
    file.fails = False
    call(ledger)
    assert len(file.entries) == 3 and ledger.state != before


def test_the_same_sentence_is_written_once():
    ledger = PrivacyLedger(PLAN)
    file = Recording(ledger)
    for _ in range(2):
        ledger.record(caveat("no_guarantee", sentence="a reason"))
        ledger.record(caveat("not_covered", sentence=" a sentence "))
        ledger.record(caveat("held_to_plan", sentence="results decide"))
    assert [entry["code"] for entry in file.entries] == [
        "no_guarantee",
        "not_covered",
        "held_to_plan",
    ]
    assert ledger.state.sentences("not_covered") == ("a sentence",)
    assert ledger.state.sentences("held_to_plan") == ("results decide",)


@each("code", ["not_covered", "established", "held_to_plan"])
@each("sentence", ["", "  ", None, 3])
def test_sentences_are_checked(code, sentence):
    with pytest.raises(ValueError, match="Expected sentence to be a sentence"):
        caveat(code, sentence=sentence)


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_a_run_whose_end_looks_at_results_costs_the_whole_plan(accountant):
    plan = dataclasses.replace(PLAN, accountant=accountant)
    ledger = PrivacyLedger(plan)
    ledger.record(Updates(20))
    whole = plan.epsilon_after(100)
    assert ledger.epsilon() < whole == ledger.epsilon(whole_plan=True)
    ledger.record(caveat("held_to_plan", sentence="training stops when validation falls"))
    assert ledger.epsilon() == ledger.claimed_epsilon() == whole
    ledger.record(Updates(80))
    assert ledger.epsilon() == whole
    ledger.record(caveat("no_guarantee", sentence="a reason"))
    assert ledger.epsilon() == ledger.epsilon(whole_plan=True) == math.inf


def test_epsilon_by_the_other_accountant():
    ledger = PrivacyLedger(PLAN)
    ledger.record(Updates(100))
    exact = epsilon_of(
        dp_sgd_event(PLAN.sampling_rate, PLAN.noise_multiplier, 100), PLAN.delta, "pld"
    )
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
def test_other_settings_are_rejected(settings):
    with pytest.raises(ValueError, match="Expected .*settings.* got"):
        PrivacyLedger(PLAN, settings)
