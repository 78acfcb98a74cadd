"""What a statement says of persons who own several examples."""

import re

import pytest

from tests.privacy.statement_doubles import SETTINGS, TRIAL, ledger_of, with_settings
from tests.statements import section, summary
from tfdpnorm.privacy import PrivacyLedger, make_plan, privacy_statement
from tfdpnorm.privacy.entries import Search, Updates
from tfdpnorm.privacy.figures import Figures
from tfdpnorm.privacy.rounding import ceil_text
from tfdpnorm.privacy.search import SearchPlan


@pytest.mark.parametrize("rows", [2, 3])
def test_persons_with_several_examples(rows):
    ledger = with_settings(most_rows_per_person=rows)
    text, epsilon = privacy_statement(ledger), ledger.person_epsilon()
    said = summary(text)[2]
    assert f"up to {rows} of them, with epsilon = {ceil_text(epsilon)} (rounded up)" in said
    person = Figures(ledger, rows)
    found = float(re.search(r"identifies at most ([\d.]+) % of such persons", said)[1]) / 100
    assert person.true_positive_rates[0.01] <= found <= 1.01 * person.true_positive_rates[0.01]
    assert person.true_positive_rates[0.01] > Figures(ledger).true_positive_rates[0.01]
    second = f"Second unit: one person with up to {rows} of these examples, see Guarantee."
    assert second in section(text, "Unit and neighbouring relation")
    (line,) = [x for x in section(text, "Guarantee") if x.startswith("For a person who owns up to")]
    assert f"({ceil_text(epsilon)}, 1e-05), with at most " in line
    assert any("mixture of Gaussians" in x for x in section(text, "Accounting"))
    assert "no person owns more than" in "".join(section(text, "Threat model and assumptions"))


def test_persons_with_one_example():
    ledger = with_settings(most_rows_per_person=1)
    text, epsilon = privacy_statement(ledger), ceil_text(ledger.person_epsilon())
    assert "(a person, who owns at most one: see below)" in summary(text)[0]
    said = f"any person who owns at most one of them, with epsilon = {epsilon} (rounded up)"
    assert said in summary(text)[2]
    assert "that no person owns more than 1 example, unless" in text
    assert "1 examples" not in text and "up to 1 " not in text


def test_an_unfinished_run_has_the_whole_plan_for_persons_too():
    ledger = PrivacyLedger(make_plan(**SETTINGS), {"most_rows_per_person": 2})
    ledger.record(Updates(1000))
    whole = ceil_text(ledger.person_epsilon(whole_plan=True))
    assert f"(rounded up), for a person {whole}." in privacy_statement(ledger)


def test_persons_without_protection_or_known_epsilon():
    many = with_settings(most_rows_per_person=400)
    assert "A person who owns 400 of them is not protected." in summary(privacy_statement(many))[2]
    ledger = PrivacyLedger(make_plan(**SETTINGS), {"most_rows_per_person": 3})
    ledger.record(Search(SearchPlan(2, None, (TRIAL,), score_noise_multiplier=9.0)))
    ledger.record(Updates(5))
    text = privacy_statement(ledger)
    assert "Epsilon for persons is not available for searches" in summary(text)[2]
    assert any("not available for searches" in line for line in section(text, "Accounting"))


def test_persons_who_are_sampled():
    text = privacy_statement(ledger_of(4000, most_per_person=4))
    one = "one person with any number of rows"
    (protected,) = [x for x in summary(text) if x.startswith("Who is protected: ")]
    assert protected == (
        "Who is protected: any one of 60000 persons, with any number of rows (training examples) "
        "each, persons as identified by the data holder's ids. The number counts persons, not "
        "rows."
    )
    unit = section(text, "Unit and neighbouring relation")
    assert unit[0].startswith(f"Unit: {one}, of 60000 persons") and f"remove {one}" in unit[1]
    assert "The number of persons, the sampling rate" in unit[1]
    (sampling,) = [x for x in section(text, "Mechanism and settings") if x[:9] == "Sampling:"]
    assert "each person enters each batch independently with probability q = 0.01" in sampling
    assert "(600 of 60000 persons expected)" in sampling
    assert "the mean gradient of up to 4 of their rows, clipped once" in sampling
    for other in ("any one example", "jointly", "Persons with several", "owns"):
        assert other not in text, other
