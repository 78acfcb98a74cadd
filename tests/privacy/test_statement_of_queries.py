"""What a statement says of noisy answers about validation or training examples."""

import re

import pytest

from tests.privacy.statement_doubles import ledger_of
from tfdpnorm.privacy import privacy_statement
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.entries import Query
from tfdpnorm.privacy.rounding import ceil_text


@pytest.mark.parametrize("noise", [15.0, 20.0, 25.0, 30.0, 35.0])
def test_the_validation_examples_epsilon_is_rounded_up(noise):
    ledger = ledger_of(4000)
    ledger.record(Query("accuracy", noise_multiplier=noise, examples=5000))
    printed = re.search(r"answers, with epsilon = ([\d.]+) \(", privacy_statement(ledger))[1]
    assert ledger.validation_epsilon() <= float(printed) <= 1.001 * ledger.validation_epsilon()


def test_validation_examples_have_a_guarantee_of_their_own():
    ledger = ledger_of(4000)
    trained = ceil_text(ledger.epsilon())
    for _ in range(3):
        ledger.record(Query("accuracy", noise_multiplier=20.0, examples=5000))
    text = privacy_statement(ledger)
    second = ceil_text(ledger.validation_epsilon())
    assert second != trained
    assert f"epsilon = {trained} (rounded up) and delta" in text
    assert (
        f"(3 so far) and every choice based on the answers, with epsilon = {second} (rounded"
        in text
    )
    assert "assumes that no validation example is a training example" in text
    assert "anything other than the noisy answers" in text and "does not protect" not in text


def test_statement_names_the_epsilon_of_all_planned_answers():
    def text(**settings):
        for _ in range(3):
            query = dict(noise_multiplier=20.0, examples=5000, **settings)
            ledger.record(Query("accuracy", **query))
        return privacy_statement(ledger)

    ledger, whole = ledger_of(4000), ledger_of(4000)
    assert "that number was not fixed before" in text() and "decided when to stop" not in text()
    ledger = ledger_of(4000)
    said = text(queries_planned=40)
    for _ in range(40):
        whole.record(Query("accuracy", noise_multiplier=20.0, examples=5000))
    epsilon = ceil_text(whole.validation_epsilon())
    assert "40 answers were planned. If the answers decided when to stop, " in said
    assert f"state the epsilon of all of them instead: {epsilon} (rounded up)." in said
    ledger.record(caveat("held_to_plan", sentence="EarlyStopping looks at the answers"))
    assert "It is the epsilon of all 40 planned answers." in privacy_statement(ledger)
    assert f"based on the answers, with epsilon = {epsilon} (rounded" in privacy_statement(ledger)

    ledger, whole = ledger_of(4000), ledger_of(4000)
    said = text(queries_planned=40, disjoint=False)
    for _ in range(40):
        whole.record(Query("accuracy", noise_multiplier=20.0, examples=5000, disjoint=False))
    assert "planned for 4000 updates and 40 answers. If the decision to stop earlier" in said
    assert f"full plan instead: {ceil_text(whole.epsilon())} (rounded up)." in said
    assert ledger.epsilon() < whole.epsilon()


def test_answers_about_training_examples_are_included():
    ledger = ledger_of(4000)
    ledger.record(Query("accuracy", noise_multiplier=20.0, examples=500, disjoint=False))
    text = privacy_statement(ledger)
    assert "Includes: the noisy answers (1 so far)" in text and "Validation:" not in text
    assert f"epsilon = {ceil_text(ledger.epsilon())} (rounded up)" in text
    assert ledger.epsilon() > ledger_of(4000).epsilon()


def test_only_answers_before_the_first_update():
    ledger = ledger_of(0)
    ledger.record(Query("accuracy", noise_multiplier=1.0, examples=500, disjoint=False))
    text = privacy_statement(ledger)
    assert text.startswith("1. Training satisfies") and "No update" not in text
