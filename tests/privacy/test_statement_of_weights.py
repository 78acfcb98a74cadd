"""What a statement says of weights that come from elsewhere."""

import pytest

from tests.each import each
from tests.privacy.statement_doubles import ledger_of
from tests.statements import summary
from tfdpnorm.privacy import (
    Declaration,
    create_ledger,
    make_plan,
    privacy_statement,
    read_ledger,
)
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.statement import _NOT_IN_FILE, how_to_check
from tfdpnorm.privacy.statement_as_json import statement_json

_ELSEWHERE = "Unconfirmed: where the weights come from"


def test_that_private_data_trained_the_weights_cannot_be_withdrawn():
    ledger = ledger_of(10)
    for used in (True, False):
        ledger.record(Declaration(initial_weights_used_private_data=used))
    assert statement_json(ledger)["initial_weights_used_private_data"] is True
    assert "private data trained the initial weights, as the data holder declared" in (
        privacy_statement(ledger)
    )


@pytest.mark.parametrize("updates", [0, 10])
@pytest.mark.parametrize("recorded", [True, False])
def test_weights_from_elsewhere_come_right_after_the_first_line(updates, recorded):
    ledger, sentence = ledger_of(updates), "Weights of unknown provenance: loaded."
    if recorded:
        ledger.record(caveat("foreign_weights", sentence=sentence))
    else:
        before = ledger
        ledger = ledger.with_caveats([caveat("foreign_weights", sentence=sentence)])
        assert sentence not in privacy_statement(before) and ledger.run_id == before.run_id
    text = privacy_statement(ledger)
    first, second = text.splitlines()[:2]
    assert second == f"- {sentence}" and text.count(sentence) == 1
    assert first.startswith("1. Training satisfies" if updates else "1. No update has been made: ")
    assert updates or "epsilon = " not in text and "no epsilon can be stated" in first
    ledger.record(caveat("no_guarantee", sentence="a reason"))
    ledger.record(caveat("foreign_weights", sentence=sentence))
    assert f"- {sentence}" in privacy_statement(ledger)


@each(
    "known",
    [
        caveat("weights_replaced", position=3, interventions=1),
        caveat("trained_before", steps=5),
        caveat("loaded_before_built"),
    ],
)
def test_weights_from_elsewhere_are_named_where_the_guarantee_is(known):
    ledger = ledger_of(10)
    ledger.record(known)
    lines = summary(privacy_statement(ledger))
    assert f"{_ELSEWHERE} (see the next line)." in lines[0] and lines[1].startswith("- Weights of")
    assert "without noise, NO guarantee holds for this model" in lines[1]
    assert lines[4].startswith("What may be published: ")
    assert f"{_ELSEWHERE} (see line 1)." in lines[4]


def test_training_without_noise_may_have_replaced_the_weights():
    said = caveat("weights_replaced", position=3, interventions=1).sentence
    assert "or by training without noise. If that used private data without noise, NO guar" in said
    ledger = ledger_of(0)
    ledger.record(caveat("weights_replaced", position=0, interventions=1))
    first = summary(privacy_statement(ledger))[0]
    assert "this run's own updates have used no private data." in first and "so far" not in first


def test_weights_of_a_private_run_are_not_unknown():
    assert "Unconfirmed: where" not in privacy_statement(ledger_of(10))
    fields = dict(run="ab", file=None, updates=3, unit="row", num_examples=9, delta=1e-5)
    fields |= dict(whole_plan_epsilon=None, validation_epsilon=0.0, reasons="", not_covered="")
    ledger = ledger_of(10)
    ledger.record(caveat("private_run", **fields, epsilon=1.0))
    assert "Not included: what another run spent" in summary(privacy_statement(ledger))[0]
    ledger.record(caveat("trained_before", steps=3))
    assert _ELSEWHERE in summary(privacy_statement(ledger))[0]


@each("unit, whom", [("row", "An example"), ("person", "A person")])
def test_who_is_in_one_of_two_runs_keeps_its_epsilon(unit, whom):
    fields = dict(run="ab", file=None, updates=3, num_examples=9, delta=1e-5, epsilon=1.0)
    fields |= dict(whole_plan_epsilon=None, validation_epsilon=0.0, reasons="", not_covered="")
    said = caveat("private_run", unit=unit, **fields).sentence
    assert f"{whom} used in only one of the two runs keeps the epsilon and the delta of" in said
    assert said.index("keeps the epsilon") < said.index("the two epsilons add up")


def test_a_statement_says_what_its_closed_ledger_file_lacks(tmp_path):
    plan = make_plan(
        num_examples=60,
        expected_batch_size=6,
        steps=4,
        l2_norm_clip=1.0,
        noise_multiplier=1.0,
        delta=1e-5,
    )
    ledger = create_ledger(tmp_path / "ledger.jsonl", plan)
    ledger.close()
    known = caveat("weights_replaced", position=0, interventions=1)
    assert _NOT_IN_FILE in how_to_check(ledger.with_caveats([known]))
    for same in (ledger, ledger.with_caveats([]), read_ledger(tmp_path / "ledger.jsonl")):
        assert _NOT_IN_FILE not in how_to_check(same)
