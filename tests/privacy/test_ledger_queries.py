"""Noisy answers about validation examples: whom they cost what, and that each is paid for."""

import dataclasses
import math

import dp_accounting
import pytest

from tests.each import each
from tests.privacy.ledger_doubles import PLAN
from tfdpnorm.privacy import ACCOUNTANTS, RDP_ORDERS, PrivacyLedger, dp_sgd_event
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.entries import Answer, Query, Resume, Updates

ASKED = {"noise_multiplier": 20.0, "examples": 500}


def reference(accountant, *events):
    if accountant == "rdp":
        made = dp_accounting.rdp.RdpAccountant(orders=RDP_ORDERS)
    else:
        made = dp_accounting.pld.PLDAccountant()
    for event in events:
        made.compose(event)
    return made.get_epsilon(1e-5)


def gaussians(noise, count):
    return dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(noise), count)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_validation_examples_have_an_epsilon_of_their_own(accountant):
    ledger = PrivacyLedger(PLAN)
    assert ledger.validation_epsilon(accountant) == 0
    ledger.record(Updates(100))
    trained = ledger.epsilon(accountant)
    for _ in range(7):
        ledger.record(Query("accuracy", **ASKED))
    ledger.record(Query("top 5", noise_multiplier=10.0, examples=500))
    expected = reference(accountant, gaussians(20.0, 7), gaussians(10.0, 1))
    assert ledger.validation_epsilon(accountant) == pytest.approx(expected, rel=0.01)
    assert ledger.validation_epsilon("rdp") == pytest.approx(
        reference("rdp", gaussians(20.0, 7), gaussians(10.0, 1)), rel=1e-9
    )
    assert ledger.epsilon(accountant) == trained
    assert ledger.state.queries() == ledger.state.queries(disjoint=True) == 8


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_answers_about_training_examples_add_to_their_epsilon(accountant):
    ledger = PrivacyLedger(PLAN)
    ledger.record(Query("accuracy", **ASKED, disjoint=False))
    alone = reference(accountant, gaussians(20.0, 1))
    assert ledger.epsilon(accountant) == pytest.approx(alone, rel=0.01, abs=1e-6)
    ledger.record(Updates(100))
    ledger.record(Query("accuracy", **ASKED, disjoint=False))
    trained = dp_sgd_event(0.05, 2.0, 100)
    expected = reference(accountant, trained, gaussians(20.0, 2))
    assert ledger.epsilon(accountant) == pytest.approx(expected, rel=0.01)
    assert ledger.epsilon("rdp") == pytest.approx(
        reference("rdp", trained, gaussians(20.0, 2)), rel=1e-9
    )
    without = dataclasses.replace(PLAN, accountant=accountant).epsilon_after(100)
    assert ledger.epsilon(accountant) > without
    assert ledger.validation_epsilon() == 0 and ledger.state.queries(disjoint=False) == 2


def test_queries_planned_count_where_the_run_is_held_to_its_plan():
    ledger = PrivacyLedger(PLAN)
    ledger.record(Query("accuracy", **ASKED, queries_planned=9))
    ledger.record(Query("overlap", **ASKED, disjoint=False, queries_planned=4))
    one = reference("rdp", gaussians(20.0, 1))
    assert ledger.validation_epsilon() == pytest.approx(one, rel=1e-9)
    ledger.record(caveat("held_to_plan", sentence="training stops when the noisy accuracy falls"))
    nine = reference("rdp", gaussians(20.0, 9))
    assert ledger.validation_epsilon() == pytest.approx(nine, rel=1e-9)
    whole = reference("rdp", dp_sgd_event(0.05, 2.0, 100), gaussians(20.0, 4))
    assert ledger.epsilon() == ledger.epsilon(whole_plan=True) == pytest.approx(whole, rel=1e-9)
    for _ in range(10):
        ledger.record(Query("accuracy", **ASKED))
    eleven = reference("rdp", gaussians(20.0, 11))
    assert ledger.validation_epsilon() == pytest.approx(eleven, rel=1e-9)


def test_answers_about_lost_weights_are_spent_and_not_repeated():
    ledger = PrivacyLedger(PLAN)
    for position in (1, 2, 3):
        ledger.record(Updates())
        ledger.record(Query("accuracy", **ASKED))
        ledger.record(Answer("accuracy", position))
    ledger.record(Resume(1))
    assert ledger.state.answer("accuracy") == 1 and ledger.state.answer("loss") is None
    ledger.record(Updates())
    assert ledger.state.answer("accuracy") is None
    ledger.record(Query("accuracy", **ASKED))
    ledger.record(Answer("accuracy", 50.0))
    assert ledger.state.answer("accuracy") == 50.0 and ledger.state.queries() == 4


def test_every_answer_needs_a_question():
    ledger = PrivacyLedger(PLAN)
    ledger.record(Query("accuracy", **ASKED))
    with pytest.raises(ValueError, match="There is no open query named 'loss'"):
        ledger.record(Answer("loss", 3.0))
    for value in (math.nan, math.inf, "3", None, True):
        with pytest.raises(ValueError, match="Expected value to be"):
            ledger.record(Answer("accuracy", value))
    ledger.record(Answer("accuracy", 3))
    with pytest.raises(ValueError, match="There is no open query"):
        ledger.record(Answer("accuracy", 3.0))
    ledger.record(Query("accuracy", **ASKED))
    ledger.record(Resume(0))
    with pytest.raises(ValueError, match="There is no open query"):
        ledger.record(Answer("accuracy", 3.0))


BAD = {
    "name": ["", 3],
    "noise_multiplier": [0.0, -1.0, math.inf, math.nan],
    "examples": [0, 1.5],
    "disjoint": [1],
    "queries_planned": [0, 2.5],
}


@each("name, value", [(name, value) for name, values in BAD.items() for value in values])
def test_bad_queries_are_rejected(name, value):
    with pytest.raises(ValueError, match=f"Expected {name} .*got"):
        Query(**{"name": "accuracy", **ASKED, name: value})
