"""The first ten lines of a statement, which an officer reads."""

import hashlib
import math
import re

import pytest

from tests.each import each
from tests.privacy.statement_doubles import SETTINGS, ledger_of
from tests.statements import summary
from tfdpnorm.privacy import (
    Declaration,
    create_ledger,
    epsilons,
    make_plan,
    privacy_statement,
    profiles,
    read_ledger,
)
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.entries import ANSWERS, Updates
from tfdpnorm.privacy.figures import Figures
from tfdpnorm.privacy.statement_as_json import statement_json


def test_the_summary_in_ten_lines():
    ledger = ledger_of(4000)
    figures, lines = Figures(ledger), summary(privacy_statement(ledger, "ab" * 32))
    assert [line.partition(":")[0] for line in lines[1:]] == [
        "What it means",
        "Who is protected",
        "What may be published",
        "What must stay secret, or be deleted",
        "What was counted",
        "What it relies on",
        "How to check it",
        "What it is about",
        "Responsible person",
    ]
    percent = [float(x) / 100 for x in re.findall(r"at most ([\d.]+) %", lines[1])]
    exact = (figures.certainty, *figures.true_positive_rates.values())
    assert all(e <= p <= 1.01 * e for e, p in zip(exact, percent, strict=True))
    odds = float(re.search(r"a factor of at most ([\d.]+)\. ", lines[1])[1])
    assert figures.odds <= odds <= 1.01 * figures.odds
    assert math.exp(figures.epsilon) < figures.odds < 1.5 * math.exp(figures.epsilon)
    mu = float(re.search(r"mu = ([\d.]+)\.$", lines[1])[1])
    assert figures.mu <= mu <= 1.01 * figures.mu
    assert ledger.run_id in lines[8] and "ab" * 32 in lines[8]
    assert lines[9] == "Responsible person: not given. Contact: not given."


def test_figures_for_attackers_include_what_is_added_to_delta():
    ledger = ledger_of(4000)
    plain = profiles.true_positive_rate(epsilons.profile(ledger.state), 0.001)
    assert Figures(ledger).true_positive_rates[0.001] >= plain + 0.9e-8


@each(
    "recorded, first, relied_on",
    [
        (
            [],
            "Unconfirmed: that the settings",
            "(not declared by the data holder); init",
        ),
        (
            [Declaration("Jane Doe")],
            "Unconfirmed: that the settings",
            "(not declared by the data holder)",
        ),
        (
            [Declaration(search="two runs before, on the same images")],
            "Unconfirmed: that the settings",
            "(not declared by the data holder)",
        ),
        (
            [Declaration(search="two runs before", settings_used_private_data=True)],
            "Settings were chosen using the private data, and epsilon does",
            "settings that are public: that they were chosen using the private data is not cov",
        ),
        (
            [Declaration(settings_used_private_data=False)],
            "the conditions below.",
            "were not chosen using the private data (as declared); init",
        ),
    ],
)
def test_it_says_whether_anybody_answers_for_the_settings(recorded, first, relied_on):
    ledger = ledger_of(4000)
    for entry in (*recorded, Declaration(initial_weights_used_private_data=False)):
        ledger.record(entry)
    lines = summary(privacy_statement(ledger))
    assert first in lines[0] and relied_on in lines[6]
    assert ("Unconfirmed" in lines[0]) == ("not declared" in lines[6])
    assert "states nothing" not in lines[5] or "not declared" in lines[6]
    assert ("Settings were chosen" in lines[0]) == ("is not covered" in lines[6])


@each(
    "changes, whom",
    [
        ({}, "for any one example, not one person, on the conditions below."),
        (
            {"most_per_person": 4},
            "for any one person with all their rows, on the conditions below.",
        ),
    ],
)
def test_the_first_line_says_for_whom(changes, whom):
    assert whom in summary(privacy_statement(ledger_of(4000, **changes)))[0]


@each(
    "delta, words",
    [
        (1e-5, "at most 1 in 100,000. An"),
        (3e-6, "at most 1 in 333,333. An"),
        (1e-6, "at most 1 in 1,000,000. An"),
    ],
)
def test_delta_is_said_as_a_number_of_cases(delta, words):
    assert words in summary(privacy_statement(ledger_of(4000, delta=delta)))[1]


def test_a_ledger_that_is_no_file_is_not_named_for_publication(tmp_path):
    in_memory = summary(privacy_statement(ledger_of(4000)))
    assert "this statement. This is not a legal permission" in in_memory[3]
    ledger = create_ledger(tmp_path / "ledger.jsonl", make_plan(**SETTINGS))
    ledger.record(Updates(10))
    assert "this statement, and the ledger. This" in summary(privacy_statement(ledger))[3]


def test_declarations_of_the_data_holder_are_stated():
    ledger = ledger_of(10)
    ledger.record(Declaration("Jane  Doe\n", "jane@example.org", "the best of 20 runs"))
    lines = summary(privacy_statement(ledger))
    assert lines[-1] == "Responsible person: Jane Doe. Contact: jane@example.org."
    assert 'the data holder states: "the best of 20 runs"' in lines[5]
    ledger.record(Declaration("Joe"))
    lines = summary(privacy_statement(ledger))
    assert lines[-1] == "Responsible person: Joe. Contact: not given."
    assert 'the data holder states: "the best of 20 runs")' in lines[5]


def test_what_was_declared_of_the_settings_cannot_be_withdrawn():
    ledger = ledger_of(10)
    ledger.record(Declaration(search="the best of 20 runs", settings_used_private_data=True))
    ledger.record(Declaration(search="none", settings_used_private_data=False))
    lines = summary(privacy_statement(ledger))
    assert "Settings were chosen using the private data" in lines[0]
    assert 'the data holder states: "the best of 20 runs; later: none")' in lines[5]
    assert statement_json(ledger)["settings_used_private_data"] is True
    ledger.record(Declaration(search="none"))
    assert summary(privacy_statement(ledger))[5] == lines[5]


@each("fields", [{"responsible": ""}, {"contact": 3}, {"search": "  "}])
def test_a_blank_declaration(fields):
    with pytest.raises(ValueError, match=f"Expected {next(iter(fields))} to be a string"):
        Declaration(**fields)


@each("answer", ["no", 0, 1])
@each("question", ANSWERS)
def test_an_answer_that_is_no_boolean(question, answer):
    with pytest.raises(ValueError, match=f"{question} to be True, False or None"):
        Declaration(**{question: answer})


def test_the_ledger_is_named_by_its_digest(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = create_ledger(path, make_plan(**SETTINGS))
    ledger.record(Updates(3))
    ledger.record(Declaration("Jane"))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    said = summary(privacy_statement(ledger))[7]
    assert "--ledger=ledger.jsonl " in said and f"first 3 lines have the SHA-256 {digest}. " in said
    assert said.endswith(
        "compare this number of lines and the SHA-256 with the statement that the run itself gave."
    )
    assert str(tmp_path) not in said
    assert privacy_statement(read_ledger(path)) == privacy_statement(ledger)
    ledger.close()
    more = ledger.with_caveats([caveat("foreign_weights", sentence="Loaded.")])
    assert summary(privacy_statement(more))[8].startswith(said)
    with open(path, "ab") as file:
        file.write(b'{"line":4,"ki')
    assert summary(privacy_statement(read_ledger(path)))[7] == said
    assert "in memory only" in summary(privacy_statement(ledger_of(3)))[7]


@each(
    "codes, verified",
    [
        ({}, False),
        ({"verified_from_graph": {"rows": 8}}, True),
        ({"computed_per_example": {"engine": "per_example"}}, True),
    ],
)
def test_independence_is_verified_where_the_ledger_says_so(codes, verified):
    ledger = ledger_of(40)
    for code, fields in codes.items():
        ledger.record(caveat(code, **fields))
    (line,) = [x for x in summary(privacy_statement(ledger)) if x.startswith("What it relies on")]
    assert ("(verified);" in line) == verified
    assert ("(not fully verified);" in line) != verified


def test_the_computation_of_given_features_is_not_verified():
    ledger = ledger_of(40)
    for known in (caveat("verified_from_graph", rows=8), caveat("given_features")):
        ledger.record(known)
    text = privacy_statement(ledger)
    (line,) = [x for x in summary(text) if x.startswith("What it relies on")]
    assert "(verified, but for the computation of the features);" in line
    assert "The computation of the features. It is assumed" in text.split("\nNot covered\n")[1]
