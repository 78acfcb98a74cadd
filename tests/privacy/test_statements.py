"""Statements of one ledger of each kind, as approved texts.

The folder `approved/` has the text of each, and the JSON of some, without what differs between two
runs of a kind. `python -m tests.privacy.test_statements` writes the folder again; read the
difference.
"""

import datetime
import hashlib
import json
import math
import pathlib
import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from tests.each import each
from tests.statements import summary
from tfdpnorm.privacy import (
    Declaration,
    PrivacyLedger,
    caveats,
    create_ledger,
    epsilons,
    make_plan,
    privacy_statement,
    privacy_summary,
    profiles,
    read_ledger,
    statement_json,
    statement_text,
)
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.entries import ANSWERS, Finish, Query, Resume, Search, Trial, Updates
from tfdpnorm.privacy.facts import Figures, facts_of
from tfdpnorm.privacy.rounding import ceil_float, ceil_text, delta_text
from tfdpnorm.privacy.search import SearchPlan
from tfdpnorm.privacy.software import software

APPROVED = pathlib.Path(__file__).parent / "approved"
SUMMARIES = APPROVED / "summaries.txt"
STEPS, NOISE = 40, 2.0
PLAN = dict(
    num_examples=6000,
    expected_batch_size=60,
    steps=STEPS,
    l2_norm_clip=1.25,
    noise_multiplier=NOISE,
    delta=1e-5,
)
OF_ROWS = {"most_per_person": 3, "unit": "row"}
GRID = {"noise_generator": "openssl", "noise_grid": "stddev / 32", "sum_rounding": 0.01234}
PUBLIC = Declaration(
    "Jane  Doe\n",
    "jane@example.org",
    settings_used_private_data=False,
    initial_weights_used_private_data=False,
)
REPLACED = caveat("weights_replaced", position=3, interventions=2)
ANOTHER_RUN = dict(
    run="ab", file=None, updates=3, unit="row", num_examples=9, delta=1e-5,
    whole_plan_epsilon=2.0, validation_epsilon=0.5, reasons="a reason", not_covered="Vocabulary.",
)  # fmt: skip
ANSWER = Query("accuracy", 20.0, 500, queries_planned=4)
OVERLAP = Query("accuracy", 20.0, 500, disjoint=False, queries_planned=5)


def ledger_of(*entries, updates=STEPS, settings=None, after=None, **changes):
    """A ledger in memory of the entries, the last of which are the updates."""
    if any(isinstance(entry, Search) for entry in entries):
        changes = {"most_per_batch": 128, **changes}
    ledger = PrivacyLedger(make_plan(**{**PLAN, **changes}, after=after), settings)
    for entry in (*entries, *([Updates(updates)] if updates else [])):
        ledger.record(entry)
    return ledger


def search(shape=math.inf, noise=NOISE, score=None, trials=4):
    return Search(SearchPlan(trials, shape, ((0.01, noise, STEPS),), score))


def because(code, sentence="a reason"):
    return caveat(code, sentence=sentence)


def resumed():
    ledger = ledger_of(updates=10, settings=GRID)
    for entry in (Resume(8), Updates(), Resume(9)):
        ledger.record(entry)
    return ledger


# What a statement depends on, in as few ledgers as have all of it.
LEDGERS = {
    "finished": lambda: ledger_of(
        PUBLIC,
        because("not_covered", "The vocabulary was built from the data."),
        caveat("verified_from_graph", rows=8),
        Updates(STEPS),
        Finish(),
        updates=0,
        settings=GRID,
    ),
    "unfinished": lambda: ledger_of(
        Declaration(search="two runs before"),
        updates=10,
        accountant="pld",
        settings={"noise_generator": "philox"},
        **OF_ROWS,
    ),
    "nothing": lambda: ledger_of(updates=0, **OF_ROWS),
    "nothing, loaded": lambda: ledger_of(caveat("loaded_before_built"), updates=0),
    "persons": lambda: ledger_of(
        most_per_person=4, statistics_queries=2, statistics_budget_share=0.1, settings=GRID
    ),
    "one example each": lambda: ledger_of(ANSWER, settings=GRID, most_per_person=1, unit="row"),
    "many examples each": lambda: ledger_of(
        expected_batch_size=6000, most_per_person=6000, unit="row"
    ),
    "resumed": resumed,
    "held to its plan": lambda: ledger_of(
        Declaration("Joe", search="by hand", settings_used_private_data=True),
        Declaration(search="again", settings_used_private_data=False),
        because("held_to_plan", "A callback may stop it"),
        caveat("stopped_by_callback", callbacks="Stop"),
        ANSWER,
        updates=10,
    ),
    "answers": lambda: ledger_of(
        caveat("acted_on_validation", callback="EarlyStopping", monitor="val_loss"),
        ANSWER,
        ANSWER,
        OVERLAP,
        updates=10,
        settings={"noise_generator": "openssl"},
    ),
    "answers without a plan": lambda: ledger_of(Query("accuracy", 15.0, 500), updates=0),
    "winner": lambda: ledger_of(search(), PUBLIC, updates=3, settings=GRID),
    "all trials": lambda: ledger_of(
        search(score=9.0, noise=0.6),
        Trial(0),
        Query("score", 9.0, 500, queries_planned=1),
        noise_multiplier=0.6,
        settings={"secret": "ab"},
    ),
    "trials composed": lambda: ledger_of(
        search(None, score=9.0, trials=2),
        Query("score", 9.0, 500, queries_planned=1),
        Declaration(settings_used_private_data=True),
        **OF_ROWS,
    ),
    "persons in a search": lambda: ledger_of(search(1.0), most_per_person=2, unit="row"),
    "void": lambda: ledger_of(
        because("no_guarantee"), because("not_covered", "The vocabulary."), REPLACED
    ),
    "without noise": lambda: ledger_of(noise_multiplier=0, settings=GRID),
    "large delta": lambda: ledger_of(expected_batch_size=6000, delta=1 / 3000, noise_multiplier=99),
    "given rows and weights": lambda: ledger_of(
        caveat("given_public_rows", count=256),
        caveat("initial_weights_not_fresh", which="bias"),
        caveat("given_features"),
        caveat("computed_per_example", engine="per_example"),
        caveat("acted_on_public_validation", callback="EarlyStopping", monitor="val_loss"),
    ),
    "replaced": lambda: ledger_of(PUBLIC, REPLACED, caveat("trained_before", steps=5)),
    "another run": lambda: ledger_of(caveat("private_run", **ANOTHER_RUN, epsilon=1.0)),
    "another run, void": lambda: ledger_of(caveat("private_run", **ANOTHER_RUN, epsilon=None)),
    "another run of other data": lambda: ledger_of(
        PUBLIC,
        caveat("private_run", **{**ANOTHER_RUN, "file": "a.keras", "unit": "person"}, epsilon=2.0),
        caveat("private_run", **ANOTHER_RUN, epsilon=None),
    ),
    "later phase": lambda: ledger_of(after=ledger_of(ANSWER), settings=GRID),
    "private weights": lambda: ledger_of(
        REPLACED,
        Declaration(initial_weights_used_private_data=True),
        Declaration(initial_weights_used_private_data=False),
    ),
    "one release": lambda: ledger_of(
        caveat("one_release", features=5, share=0.5, most_per_person=None),
        steps=1,
        updates=1,
        expected_batch_size=6000,
    ),
}


IN_JSON = ("unfinished", "nothing", "persons", "held to its plan", "all trials", "void", "replaced")


def text_of(ledger):
    """The statement without what differs between two runs of the same kind."""
    return _of_any_run(privacy_statement(ledger), ledger)


def json_of(ledger):
    """The statement as JSON, likewise, with numbers rounded as in the text."""
    found = statement_json(ledger)
    for name in ("run", "date", "trained_with", "computed_with", "ledger"):
        del found[name]
    return _of_any_run(json.dumps(_rounded(found), indent=1, allow_nan=False), ledger)


def summaries():
    """The short forms of all statements."""
    text = [f"# {name}\n{privacy_summary(make())}\n" for name, make in LEDGERS.items()]
    return "\n".join(text)


def _rounded(value):
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(inner) for inner in value]
    return ceil_float(value, 3) if isinstance(value, float) and value else value


def _of_any_run(text, ledger):
    text = text.replace(ledger.run_id, "RUN").replace(datetime.date.today().isoformat(), "TODAY")
    for phase in ledger.plan.earlier:
        text = text.replace(phase.run, "EARLIER")
    return re.sub(rf"((({'|'.join(software())}) [\d.]+\w+)(, )?)+", "SOFTWARE", text) + "\n"


def approved(name, ending="txt"):
    return APPROVED / f"{name.replace(',', '').replace(' ', '_')}.{ending}"


def all_approved():
    """The files of the folder, with the function that gives the text of each, and its ledger."""
    found = {approved(name): (text_of, name) for name in LEDGERS}
    return found | {approved(name, "json"): (json_of, name) for name in IN_JSON}


@pytest.mark.filterwarnings("ignore:delta")
@pytest.mark.parametrize("path", all_approved(), ids=lambda path: path.name)
def test_the_statement_is_the_approved_one(path):
    stated, name = all_approved()[path]
    text = stated(LEDGERS[name]())
    assert text.splitlines() == path.read_text("utf-8").splitlines()
    assert "docs/" not in text and ".md" not in text and ".py" not in text


@pytest.mark.filterwarnings("ignore:delta")
def test_the_summaries_are_the_approved_ones():
    assert summaries() == SUMMARIES.read_text("utf-8")


def test_the_template_names_facts_that_exist():
    """Also in sentences that no approved text has."""
    text = statement_text.SHORT + statement_text.SUMMARY + statement_text.DETAILS
    fields = re.findall(r"\{(\w+)", text) + re.findall(r"\*(\w+)", text)
    conditions = re.findall(r"\[(?:not )?(caveat )?(\w+)", re.sub(r"\{[^}]*\}", "", text))
    assert {name for is_code, name in conditions if is_code} <= caveats.CODES
    names = {*fields, *(name for is_code, name in conditions if not is_code)}
    assert len(names) > 60 and names <= facts_of(ledger_of()).keys()


def test_there_is_a_ledger_for_each_approved_text():
    assert {SUMMARIES, *all_approved()} == set(APPROVED.iterdir())


def test_figures_are_rounded_upwards():
    ledger = ledger_of(settings={"noise_grid": "stddev / 32"})
    figures, lines = Figures(ledger), summary(privacy_statement(ledger))
    percent = [float(x) / 100 for x in re.findall(r"at most ([\d.]+) %", lines[1])]
    exact = (figures.certainty, figures.true_positive_rates["0.01"])
    assert all(e <= p <= 1.01 * e for e, p in zip(exact, percent, strict=True))
    found = re.search(r"with it, epsilon = ([\d.]+) and delta = (\S+)\.", lines[0])
    assert figures.epsilon < float(found[1]) <= 1.01 * figures.epsilon
    assert 1e-5 + sum(figures.added.values()) <= float(found[2]) <= 1.01e-5
    plain = profiles.true_positive_rate(epsilons.profile(ledger.state), 0.001)
    assert figures.true_positive_rates["0.001"] >= plain + 0.9 * sum(figures.added.values())


@each("noise, told", [(2.0, True), (0.6, False)])
def test_a_mu_that_says_less_than_the_rates_is_left_out(noise, told):
    """Of a search: at 1 % its mu would allow more than twice what attacks can reach."""
    ledger = ledger_of(search(noise=noise), noise_multiplier=noise)
    figures = Figures(ledger)
    assert (" mu = " in privacy_statement(ledger)) == told
    by_mu = 1 - special.ndtr(2.3263479 - figures.mu)
    assert (by_mu <= 2 * figures.true_positive_rates["0.01"]) == told


@each("recorded", [True, False])
def test_weights_from_elsewhere_are_the_same_when_only_stated(recorded):
    ledger = before = ledger_of()
    if recorded:
        ledger.record(REPLACED)
    else:
        ledger = ledger.with_caveats([REPLACED])
        assert REPLACED.sentence not in privacy_statement(before)
    assert summary(privacy_statement(ledger))[1] == f"- {REPLACED.sentence}"
    assert ledger.run_id == before.run_id


def test_the_ledger_is_named_by_its_digest(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = create_ledger(path, make_plan(**PLAN))
    ledger.record(Updates(3))
    ledger.record(PUBLIC)
    text = privacy_statement(ledger, "ab" * 32)
    said = summary(text)[7]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert "--ledger=ledger.jsonl " in said and f"first 3 lines have the SHA-256 {digest}. " in said
    assert "compare this number of lines" in said and str(tmp_path) not in text
    assert "and the ledger." in summary(text)[3] and "ab" * 32 in summary(text)[8]
    assert privacy_statement(read_ledger(path), "ab" * 32) == text
    ledger.close()
    assert summary(privacy_statement(ledger.with_caveats([])))[7] == said
    more = summary(privacy_statement(ledger.with_caveats([REPLACED])))[8]
    assert more.startswith(said) and "closed before the weights were replaced" in more
    with open(path, "ab") as file:
        file.write(b'{"line":4,"ki')
    assert summary(privacy_statement(read_ledger(path)))[7] == said


def test_a_declaration_does_not_answer_for_weights_that_came_later():
    known = caveat("private_run", **ANOTHER_RUN, epsilon=None)
    assert privacy_statement(ledger_of(PUBLIC, REPLACED, known)).startswith("NO GUARANTEE")
    assert not ledger_of(known).guarantee_holds and ledger_of(PUBLIC, known).guarantee_holds
    assert math.isinf(ledger_of(known).epsilon())


@each("fields", [{"responsible": ""}, {"contact": 3}, {"search": "  "}])
def test_a_blank_declaration(fields):
    with pytest.raises(ValueError, match=f"Expected {next(iter(fields))} to be a string"):
        Declaration(**fields)


@each("answer", ["no", 0, 1])
@each("question", ANSWERS)
def test_an_answer_that_is_no_boolean(question, answer):
    with pytest.raises(ValueError, match=f"{question} to be True, False or None"):
        Declaration(**{question: answer})


@each("stated", [privacy_statement, statement_json])
def test_only_a_ledger_can_be_stated(stated):
    with pytest.raises(ValueError, match="Expected ledger to be a PrivacyLedger"):
        stated(make_plan(**PLAN))


@given(st.floats(1e-12, 1e12), st.integers(1, 9))
def test_rounding_is_upwards_and_close(value, digits):
    text = ceil_text(value, digits)
    exact = Decimal(value)
    assert exact <= Decimal(text) < exact * (1 + Decimal(10) ** (1 - digits))
    assert ceil_float(value, digits) >= value


def test_rounding_of_the_ends():
    assert ceil_text(0.0) == "0" and ceil_text(float("inf")) == "inf"
    assert ceil_text(0.99991) == "1.000" and ceil_text(12345.6) == "12350"
    deltas = [delta_text(delta) for delta in (1e-5, 1 / 3000, 0.1, 1.001e-7)]
    assert deltas == ["1e-05", "0.000334", "0.1", "1.01e-07"]


def main():
    for path, (stated, name) in all_approved().items():
        path.write_text(stated(LEDGERS[name]()), "utf-8")
    SUMMARIES.write_text(summaries(), "utf-8")


if __name__ == "__main__":
    main()
