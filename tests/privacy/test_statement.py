"""The statement says what holds, and where nothing holds says that first."""

import inspect
import re

import pytest

from tests.each import each
from tests.privacy.statement_doubles import SETTINGS, TRIAL, ledger_of, resumed, with_settings
from tests.statements import headings, section, summary
from tfdpnorm.privacy import PrivacyLedger, caveats, make_plan, privacy_statement
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.entries import Finish, Query, Resume, Search, Updates
from tfdpnorm.privacy.rounding import ceil_text, delta_text
from tfdpnorm.privacy.search import SearchPlan

CLAIM = re.compile(r"epsilon[^.]*?(\d+\.\d+)")


HEADINGS = [
    "Guarantee",
    "Unit and neighbouring relation",
    "Released",
    "Threat model and assumptions",
    "Mechanism and settings",
    "Accounting",
    "Not covered",
    "Numerical safety",
    "Provenance",
]


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_a_finished_run(accountant):
    ledger = ledger_of(4000, accountant=accountant)
    ledger.record(caveat("not_covered", sentence="The vocabulary was built from the data."))
    text = privacy_statement(ledger)
    printed = float(re.search(r"epsilon = ([\d.]+) \(rounded up\)", text)[1])
    assert ledger.epsilon() <= printed <= 1.001 * ledger.epsilon()
    for part in (
        "delta = 1e-05",
        "60000 private training examples",
        "one person owns several",
        "add or remove one example (add_or_remove_one)",
        "sampling rate, the expected batch size",
        "are public constants",
        "Attacker: sees the weights after every update",
        "preprocessing, a vocabulary, sample weights",
        "the duration of training",
        "q = 0.01 (600 of 60000 examples expected)",
        "Poisson",
        "T = 4000 made, of 4000 planned",
        "z = 2.684",
        "C = 1.25",
        accountant.upper(),
        "weights",
        "every function of them",
        "Not covered",
        "Hyperparameter search",
        "training loss",
        "rivate validation data",
        "Mironov 2012",
        "cryptographic",
        "noise key",
        "sampled batches",
        "- The vocabulary was built from the data.",
    ):
        assert part in text, part
    assert "NO GUARANTEE" not in text and "claimed" not in text and "Weak" not in text
    assert "whole plan" not in text
    assert headings(text) == HEADINGS and len(summary(text)) == 10


def test_an_unfinished_run_gives_the_whole_plans_epsilon_too():
    ledger = ledger_of(1000)
    text = privacy_statement(ledger)
    so_far, whole = ceil_text(ledger.epsilon()), ceil_text(ledger.plan.epsilon_after(4000))
    assert so_far != whole
    assert f"epsilon = {so_far} (rounded up)" in text
    assert f"full plan instead: {whole} (rounded up)" in text
    assert "T = 1000 made, of 4000 planned" in text


def test_before_the_first_update():
    text = privacy_statement(ledger_of(0))
    first = text.splitlines()[0]
    assert first.startswith("1. No update has been made: ") and "whole plan" not in text
    assert "If its weights were freshly initialised, epsilon = 0. The ledger does not" in first


def test_a_run_that_was_ended_says_so():
    ledger = ledger_of(10)
    assert "run has ended" not in privacy_statement(ledger)
    ledger.record(Finish())
    assert "- The run has ended: no further update is possible." in privacy_statement(ledger)


def test_full_batches_are_not_called_sampled():
    text = privacy_statement(ledger_of(10, expected_batch_size=60_000))
    assert "every example is in every batch" in text and "Poisson" not in text


@pytest.mark.filterwarnings("ignore:delta")
def test_a_large_delta_is_called_weak():
    text = privacy_statement(ledger_of(10, delta=1 / 3000))
    assert "Weak: delta is not below 1 / 60000" in text
    first = summary(text)[0]
    assert "Weak: so large a delta allows publishing a whole example." in first
    assert "delta = 0.000334, for any" in first and "0.00033333" not in text


@each(
    "delta, told", [(1e-5, "1e-05"), (1 / 3000, "0.000334"), (0.1, "0.1"), (1.001e-7, "1.01e-07")]
)
def test_deltas_are_rounded_upwards(delta, told):
    assert delta_text(delta) == told and float(told) >= delta


def test_updates_charged_but_not_made():
    ledger = ledger_of(40)
    assert "What was counted: 40 updates of the weights. What" in privacy_statement(ledger)
    ledger.record(caveat("held_to_plan", sentence="A callback decided"))
    text = privacy_statement(ledger)
    assert "What was counted: 4000 updates of the weights charged, 40 of them made. What" in text
    assert "T = 40 made, of 4000 planned" in text


def test_the_epsilon_of_more_updates_than_were_made():
    ledger = ledger_of(3500, accountant="pld")
    said = "the one stated is that of 4000 updates, not of the 3500 made"
    assert ledger.epsilon() == ledger.plan.epsilon_after(4000) and said in privacy_statement(ledger)
    ledger.record(caveat("held_to_plan", sentence="A callback may stop it"))
    assert "the one stated is that of" not in privacy_statement(ledger)
    assert "the one stated is that of" not in privacy_statement(ledger_of(4000, accountant="pld"))


@pytest.mark.parametrize("updates", [0, 1000, 4000])
def test_a_run_that_is_held_to_its_plan(updates):
    ledger = ledger_of(updates)
    ledger.record(caveat("held_to_plan", sentence="training stops when the noisy accuracy falls"))
    text = privacy_statement(ledger)
    assert f"epsilon = {ceil_text(ledger.plan.epsilon_after(4000))} (rounded up)" in text
    assert "full plan of 4000 updates" in text and "No update has been made" not in text
    assert "because: training stops when the noisy accuracy falls." in text
    assert "If the decision to stop" not in text


@pytest.mark.parametrize("when", ["plan", "run", "noise", "sampling"])
def test_without_a_guarantee_it_says_so(when):
    ledger = ledger_of(
        4000,
        no_guarantee_because=("lot statistics mix examples",) if when == "plan" else (),
        noise_multiplier=0 if when == "noise" else 2.684,
        sampling="shuffled" if when == "sampling" else "poisson",
    )
    if when == "run":
        ledger.record(
            caveat("no_guarantee", sentence="lots were not Poisson sampled by this library")
        )
    ledger.record(caveat("not_covered", sentence="one more thing"))
    text = privacy_statement(ledger)
    assert text.startswith("NO GUARANTEE")
    assert all(f"- {reason}\n" in text for reason in ledger.state.sentences("no_guarantee"))
    assert "- one more thing" in text
    assert "satisfies" not in text and "rounded up" not in text
    lines = [line for line in text.splitlines() if CLAIM.search(line)]
    if when == "noise":
        assert lines == [] and "claimed" not in text
    else:
        assert len(lines) == 1
        assert re.search(r"claimed epsilon = [\d.]+ at delta = 1e-05 \(not a guarantee\)", lines[0])
        assert float(CLAIM.search(lines[0])[1]) == float(ceil_text(ledger.claimed_epsilon()))


def test_a_resumed_run():
    ledger = resumed()
    text = privacy_statement(ledger)
    assert "T = 11 spent, of 4000 planned; the present weights are the result of 9." in text
    assert (
        "resumed once; 2 updates were lost and are charged to the budget. Each resumption drew new"
        in text
    )
    assert f"epsilon = {ceil_text(ledger.plan.epsilon_after(11))} (rounded up)" in text
    ledger.record(Resume(9))
    text = privacy_statement(ledger)
    assert "T = 11 spent" in text and "resumed 2 times; 2 updates were lost" in text


def test_a_resumed_run_that_lost_nothing():
    ledger = PrivacyLedger(make_plan(**SETTINGS))
    ledger.record(Updates(10))
    ledger.record(Resume(10))
    text = privacy_statement(ledger)
    assert "T = 10 made, of 4000 planned." in text and "once; 0 updates were lost" in text


def test_the_ledgers_exclusions_are_listed_once():
    ledger = ledger_of(1)
    ledger.record(caveat("not_covered", sentence="The vocabulary was built from the data."))
    ledger.record(caveat("not_covered", sentence="The vocabulary was built from the data."))
    text = privacy_statement(ledger)
    assert text.count("The vocabulary was built") == 1
    assert "The vocabulary was built from the data." in section(text, "Not covered")
    ledger.record(caveat("no_guarantee", sentence="a reason"))
    assert "The vocabulary was built" in privacy_statement(ledger)


@pytest.fixture(scope="module")
def examples():
    """Statements of every kind of run."""
    with_answers, with_search, without = ledger_of(40), ledger_of(0), ledger_of(40)
    by_person = ledger_of(40, most_per_person=3)
    with_answers.record(Query("accuracy", 20.0, 500, queries_planned=4))
    with_search.record(Search(SearchPlan(20, 1.0, (TRIAL,))))
    without.record(caveat("no_guarantee", sentence="a reason"))
    ledgers = {
        "plain": ledger_of(4000),
        "nothing": ledger_of(0),
        "exact": with_settings(most_rows_per_person=2),
        "statistics": ledger_of(9, statistics_queries=2, statistics_budget_share=0.1),
        "resumed": resumed(),
        "answers": with_answers,
        "search": with_search,
        "no guarantee": without,
        "persons": by_person,
    }
    return {name: privacy_statement(ledger) for name, ledger in ledgers.items()}


def test_statements_do_not_refer_to_files_of_the_code(examples):
    for text in examples.values():
        assert "docs/" not in text and ".md" not in text and ".py" not in text
    assert "docs/" not in inspect.getsource(caveats)


def test_not_covered_has_only_what_is_not_covered(examples):
    """What holds is elsewhere: the grid, the generator, secrets, what is presumed."""
    for name, text in examples.items():
        for line in section(text, "Not covered"):
            for holds in ("have the distribution", "is cryptographic", "noise key"):
                assert holds not in line, name
        assert not any("Not covered" in line for line in section(text, "Not covered"))


def test_a_test_accuracy_is_not_covered():
    assert "such as a test accuracy: they are exact" in privacy_statement(ledger_of(4000))


def test_only_a_ledger_can_be_stated():
    with pytest.raises(ValueError, match="Expected ledger to be a PrivacyLedger"):
        privacy_statement(make_plan(**SETTINGS))
