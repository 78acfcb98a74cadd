"""What a reader could overlook is in the numbered lines, not in the details alone."""

import math
import re

import pytest
from scipy import special

from tests.each import each
from tests.statements import section, summary
from tfdpnorm.privacy import Declaration, PrivacyLedger, make_plan, privacy_statement
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.entries import Search, Trial, Updates
from tfdpnorm.privacy.figures import Figures
from tfdpnorm.privacy.rounding import ceil_text
from tfdpnorm.privacy.search import SearchPlan

STEPS = 40
NOISE = 2.0


PLAN = dict(
    num_examples=6000,
    expected_batch_size=60,
    steps=STEPS,
    l2_norm_clip=1.0,
    noise_multiplier=NOISE,
    delta=1e-5,
)
NOT_FRESH = caveat("initial_weights_not_fresh", which="bias")
RELEASE = dict(features=5, share=0.5, most_per_person=None)
ANOTHER_RUN = dict(
    run="ab", file=None, updates=3, unit="row", num_examples=9, delta=1e-5,
    whole_plan_epsilon=None, validation_epsilon=0.0, reasons="", not_covered="",
)  # fmt: skip


def ledger_of(*entries, search=None, updates=STEPS):
    ledger = PrivacyLedger(make_plan(**PLAN))
    if search is not None:
        ledger.record(Search(search))
    for entry in (*entries, Updates(updates)):
        ledger.record(entry)
    return ledger


def search(shape=math.inf):
    return SearchPlan(4, shape, ((0.01, NOISE, STEPS),))


def test_given_public_rows_are_relied_on_and_not_covered():
    text = privacy_statement(ledger_of(caveat("given_public_rows", count=256)))
    assert "public rows that are no one's private data" in summary(text)[6]
    (said,) = [line for line in section(text, "Not covered") if "Public rows: 256" in line]
    assert "without noise" in said and "only rows that equal a training example" in said
    assert "public rows" not in summary(privacy_statement(ledger_of()))[6]


@each("code, which", [(None, ""), ("initial_weights_not_fresh", ", which were not fresh,")])
def test_initial_weights_are_unconfirmed_in_the_first_line(code, which):
    """Fresh weights cannot be told from trained ones, so that the holder has to answer."""
    lines = summary(privacy_statement(ledger_of(*([] if code is None else [NOT_FRESH]))))
    said = f"; that the initial weights{which} were not trained on the private data."
    assert said in lines[0]
    assert ("initial weights (not fresh) that were" in lines[6]) == (code is not None)
    assert "not trained on the private data (not declared by the data holder)" in lines[6]


@each("entry", [NOT_FRESH, caveat("trained_before", steps=3), caveat("one_release", **RELEASE)])
def test_who_answers_for_the_initial_weights_is_quoted(entry):
    declared = Declaration(
        settings_used_private_data=False, initial_weights_used_private_data=False
    )
    lines = summary(privacy_statement(ledger_of(declared, entry)))
    assert "Unconfirmed" not in lines[0] and "Not included" not in lines[0]
    relies_on = next(line for line in lines if line.startswith("What it relies on"))
    said = "not trained on the private data (as declared)" in relies_on
    assert said == (entry.code != "one_release")


def test_a_declaration_does_not_answer_for_weights_that_came_later():
    declared = Declaration(initial_weights_used_private_data=False)
    replaced = caveat("weights_replaced", position=3, interventions=1)
    first = summary(privacy_statement(ledger_of(declared, replaced)))[0]
    assert "Unconfirmed: where the weights come from" in first
    known = caveat("private_run", **ANOTHER_RUN, epsilon=None)
    assert privacy_statement(ledger_of(declared, replaced, known)).startswith("NO GUARANTEE")


@each(
    "entry",
    [
        NOT_FRESH,
        caveat("trained_before", steps=3),
        caveat("private_run", **ANOTHER_RUN, epsilon=1.0),
        caveat("private_run", **ANOTHER_RUN, epsilon=None),
    ],
)
def test_nothing_is_guaranteed_where_private_data_trained_the_weights(entry):
    """Beside a known run, too: the question is what else did."""
    ledger = ledger_of(entry, Declaration(initial_weights_used_private_data=True))
    text = privacy_statement(ledger)
    assert text.startswith("NO GUARANTEE") and not ledger.guarantee_holds
    assert math.isinf(ledger.epsilon()) and "claimed epsilon" in text
    assert "private data trained the initial weights, as the data holder" in text
    nothing_said = ledger_of(entry, Declaration())
    assert nothing_said.guarantee_holds == (entry.fields.get("epsilon", 0) is not None)


def test_weights_of_a_run_without_a_guarantee_have_none_unless_its_data_were_others():
    known = caveat("private_run", **ANOTHER_RUN, epsilon=None)
    ledger = ledger_of(known)
    text = privacy_statement(ledger)
    assert text.startswith("NO GUARANTEE") and math.isinf(ledger.epsilon())
    assert "the run ab trained its weights before, without a guarantee, on data that may be" in text
    ledger.record(Declaration(initial_weights_used_private_data=False))
    lines = summary(privacy_statement(ledger))
    assert "Not included: what another run spent" in lines[0] and "without a guarantee" in lines[1]
    assert "that were not trained on the private data (as declared)" in lines[7]
    assert ledger.guarantee_holds and math.isfinite(ledger.epsilon())


@each("known", [True, False])
def test_what_else_trained_the_weights_is_unconfirmed(known):
    """Beside a run that is known, and an earlier phase: its own statement is not the last one."""
    if known:
        ledger = ledger_of(caveat("private_run", **ANOTHER_RUN, epsilon=1.0))
    else:
        ledger = PrivacyLedger(make_plan(**PLAN, after=ledger_of()))
        ledger.record(Updates(STEPS))
    said = "initial weights were not trained on the private data, other than by the runs named here"
    assert said in summary(privacy_statement(ledger))[0]
    ledger.record(Declaration(initial_weights_used_private_data=False))
    text = privacy_statement(ledger)
    assert said not in text and "by the runs named here (as declared)" in summary(text)[6 + known]


def test_a_run_that_ended_early_says_what_the_whole_plan_costs_in_its_first_line():
    ledger = ledger_of(updates=STEPS // 4)
    whole = ceil_text(ledger.epsilon(whole_plan=True))
    first = summary(privacy_statement(ledger))[0]
    assert f"looked at the model or at private data, epsilon = {whole} instead." in first
    assert whole != ceil_text(ledger.epsilon()) and "instead" not in privacy_statement(ledger_of())
    ledger.record(caveat("stopped_by_callback", callbacks="Stop"))
    text = privacy_statement(ledger)
    assert f"epsilon = {whole} (rounded up)" in text and "instead" not in summary(text)[0]
    assert "because: a callback ended training early (Stop)" in text


def test_the_trials_of_a_search_cost_the_same_however_early_they_end():
    text = privacy_statement(ledger_of(search=search(), updates=3))
    assert "instead" not in summary(text)[0]


def test_rounding_is_added_in_the_first_line():
    plan = make_plan(**PLAN)
    ledger = PrivacyLedger(plan, {"noise_grid": "stddev / 32"})
    ledger.record(Updates(STEPS))
    figures, first = Figures(ledger), summary(privacy_statement(ledger))[0]
    found = re.search(r"with them, epsilon = ([\d.]+) and delta = (\S+)\.", first)
    assert figures.epsilon < float(found[1]) <= 1.01 * figures.epsilon
    added = sum(figures.added.values())
    assert 1e-5 + added <= float(found[2]) <= 1.01e-5


def test_code_of_the_holder_is_relied_on():
    said = "code of the data holder's, such as callbacks, that neither changes weights nor"
    assert said in summary(privacy_statement(ledger_of()))[6]


def test_private_validation_examples_are_named_where_it_says_who_is_protected():
    known = caveat("acted_on_validation", callback="EarlyStopping", monitor="val_loss")
    said = "Who is in the validation examples, which guided a choice, is not protected."
    assert said in summary(privacy_statement(ledger_of(known)))[2]
    public = caveat("acted_on_public_validation", callback="EarlyStopping", monitor="val_loss")
    assert said not in privacy_statement(ledger_of(public))


@each(
    "declared, first, relied_on",
    [
        (None, "Unconfirmed: that the settings that the search did not", "(not declared by the"),
        (False, "on the conditions below.", "other than by the counted search (as declared)"),
        (True, "Settings were chosen using the private data", "is not covered"),
    ],
)
def test_what_a_search_did_not_choose_is_unconfirmed(declared, first, relied_on):
    answers = dict(settings_used_private_data=declared, initial_weights_used_private_data=False)
    entries = [Declaration(**answers)]
    lines = summary(privacy_statement(ledger_of(*entries, search=search())))
    assert first in lines[0] and relied_on in lines[6]
    assert ("Unconfirmed" in lines[0]) == (declared is None)


@each("shape, trials, secret", [(math.inf, 1, True), (math.inf, 0, False), (None, 1, False)])
def test_of_all_trials_nothing_may_be_published(shape, trials, secret):
    """The ledger of a search has an entry for each trial, whose number has to stay secret."""
    entries = [Trial(number) for number in range(trials)]
    line = summary(privacy_statement(ledger_of(*entries, search=search(shape))))[3]
    assert ("neither this statement nor the ledger" in line) == secret
    assert ("the winner, its own statement" in line) == secret


@each("noise, told", [(2.0, True), (0.6, False)])
def test_a_mu_that_says_less_than_the_rates_is_left_out(noise, told):
    """Of a search: at 1 % its mu would allow more than twice what attacks can reach."""
    plan = make_plan(
        num_examples=6000, expected_batch_size=60, steps=STEPS, l2_norm_clip=1.0,
        noise_multiplier=noise, delta=1e-5,
    )  # fmt: skip
    ledger = PrivacyLedger(plan)
    ledger.record(Search(SearchPlan(4, math.inf, ((0.01, noise, STEPS),))))
    ledger.record(Updates(STEPS))
    figures, line = Figures(ledger), summary(privacy_statement(ledger))[1]
    assert ("with mu = " in line) == told
    assert (figures.rate_by_mu(0.01) <= 2 * figures.true_positive_rates[0.01]) == told
    assert figures.rate_by_mu(0.01) == pytest.approx(1 - special.ndtr(2.3263479 - figures.mu))
