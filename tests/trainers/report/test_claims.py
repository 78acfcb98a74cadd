"""What our runs show of a paper's claims: the test, the verdict, and the tables of them."""

import pytest

from trainers import registry
from trainers.ermis.notes import NOTES as ERMIS_NOTES
from trainers.klause.notes import NOTES as KLAUSE_NOTES
from trainers.report import claims
from trainers.report.claims import Claim, claim_text


@pytest.fixture
def records_of(make_record):
    def make(**accuracies):
        return [
            make_record(cell=f"{name}/eps={epsilon}", test_accuracy=accuracy, seed=seed)
            for name, by_epsilon in accuracies.items()
            for epsilon, values in by_epsilon.items()
            for seed, accuracy in enumerate(values)
        ]

    return make


LOW, HIGH, WIDE = [80.0, 80.1, 80.2], [90.0, 90.1, 90.2], [70.0, 95.0, 80.0]


@pytest.mark.parametrize(
    "first, second, expected, verdict",
    [
        (HIGH, LOW, "ahead", "Supported here: "),
        (LOW, HIGH, "ahead", "Contradicted here: "),
        (WIDE, LOW, "ahead", "Not supported here: "),
        (WIDE, LOW, "level", "Not contradicted here: "),
        (HIGH, LOW, "level", "Contradicted here: "),
        (HIGH[:1], LOW, "ahead", "Not tested here: "),
    ],
)
def test_verdicts_on_one_cell(records_of, first, second, expected, verdict):
    made = records_of(a={1: first}, b={1: second})
    text = claim_text(made, Claim("a is better", (("a", "b"),), expected))
    assert text.startswith(f"**The paper: a is better.** {verdict}")


def test_many_comparisons_need_smaller_p_values(records_of, monkeypatch):
    """One of 0.03 is chance among ten."""
    monkeypatch.setattr(claims, "welch_p_value", lambda *groups: 0.03)
    one = records_of(a={1: HIGH}, b={1: LOW})
    ten = records_of(a=dict.fromkeys(range(1, 11), HIGH), b=dict.fromkeys(range(1, 11), LOW))
    claim = Claim("a is better", (("a", "b"),))
    assert "Supported here: " in claim_text(one, claim)
    assert "Not supported here: " in claim_text(ten, claim)


@pytest.mark.parametrize("experiment", [*ERMIS_NOTES, *KLAUSE_NOTES])
def test_claims_name_rows_that_there_are(experiment, monkeypatch):
    """A misspelt row would leave a claim out in silence."""
    assert experiment in registry.EXPERIMENTS
    compared, rows = [], set(registry.networks(experiment))
    for module in ("ermis", "klause"):
        monkeypatch.setattr(
            f"trainers.{module}.notes.claim_text",
            lambda records, claim: compared.extend(claim.pairs) or "",
        )
    registry.notes(experiment, [])
    assert compared and {name for pair in compared for name in pair} <= rows | NOT_IN_THE_TABLE


# Of one data set alone.
NOT_IN_THE_TABLE = {f"mnist-{method}-public_features" for method in ("dpvd", "svi", "dpsgd")}
