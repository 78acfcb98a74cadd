"""What a reader could overlook is in the numbered lines, not in the details alone."""

import math

import pytest
from scipy import special

from tests.each import each
from tests.statements import section, summary
from tfdpnorm.privacy import Declaration, PrivacyLedger, make_plan, privacy_statement
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.entries import Search, Trial, Updates
from tfdpnorm.privacy.figures import Figures
from tfdpnorm.privacy.search import SearchPlan

STEPS = 40
NOISE = 2.0


def ledger_of(*entries, search=None):
    ledger = PrivacyLedger(
        make_plan(
            num_examples=6000,
            expected_batch_size=60,
            steps=STEPS,
            l2_norm_clip=1.0,
            noise_multiplier=NOISE,
            delta=1e-5,
        )
    )
    if search is not None:
        ledger.record(Search(search))
    for entry in (*entries, Updates(STEPS)):
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


def test_weights_that_are_not_fresh_are_unconfirmed_in_the_first_line():
    lines = summary(privacy_statement(ledger_of(caveat("initial_weights_not_fresh", which="bias"))))
    said = (
        "Unconfirmed: that the initial weights, which were not fresh, were trained on public data"
    )
    assert said in lines[0] and said in lines[3]
    assert "not trained on private data (not declared by the data holder)" in lines[6]
    assert said not in privacy_statement(ledger_of())


@each("used", [True, False])
def test_who_answers_for_the_initial_weights_is_quoted(used):
    declared = Declaration(settings_used_private_data=False, initial_weights_used_private_data=used)
    not_fresh = caveat("initial_weights_not_fresh", which="bias")
    text = privacy_statement(ledger_of(declared, not_fresh))
    lines = summary(text)
    assert "Unconfirmed" not in lines[0] + lines[3]
    assert ("Private data trained the initial weights" in lines[0]) == used
    assert ("that private data trained the initial weights is not covered" in lines[6]) == used
    assert ("not trained on private data (as declared)" in lines[6]) != used
    assert "had other values than its initializer gives" in text
    # Of weights that look fresh, the holder alone can know.
    lines = summary(privacy_statement(ledger_of(declared)))
    assert ("Private data trained the initial weights" in lines[0]) == used
    assert "initial weights (not fresh)" not in lines[6]


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
    entries = [] if declared is None else [Declaration(settings_used_private_data=declared)]
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
