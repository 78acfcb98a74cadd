"""The claims of papers name rows of the tables, and what is said of them is what tests allow."""

import pytest

from trainers import registry
from trainers.ermis.notes import NOTES as ERMIS_NOTES
from trainers.klause.notes import NOTES as KLAUSE_NOTES
from trainers.report import claims


@pytest.mark.parametrize("experiment", [*ERMIS_NOTES, *KLAUSE_NOTES])
def test_claims_name_rows_that_there_are(experiment, monkeypatch):
    """A misspelt row would leave a claim out in silence."""
    assert experiment in registry.EXPERIMENTS
    compared, rows = [], set(registry.networks(experiment))
    for module in ("ermis", "klause"):
        monkeypatch.setattr(
            f"trainers.{module}.notes.claim_texts",
            lambda records, claims: [compared.extend(claim.pairs) for claim in claims],
        )
    registry.notes(experiment, [])
    assert compared and {name for pair in compared for name in pair} <= rows | NOT_IN_THE_TABLE


# Of one data set alone.
NOT_IN_THE_TABLE = {f"mnist-{method}-public_features" for method in ("dpvd", "svi", "dpsgd")}


@pytest.mark.parametrize(
    "first, second, scale, said",
    [
        ((90.0, 91.0, 90.5), (80.0, 81.0, 80.5), "full", "Supported here:"),
        ((80.0, 81.0, 80.5), (90.0, 91.0, 90.5), "full", "Contradicted here:"),
        ((80.0, 81.0, 80.5), (90.0, 91.0, 90.5), "2 of 50 epochs", "Otherwise here, in runs that"),
        ((80.0, 80.2), (90.0, 90.2), "full", "Otherwise here, in runs that"),
        ((80.0, 80.1, 80.2), (80.1, 80.2, 80.3), "full", "Not supported here:"),
        ((60.0, 80.0, 70.0), (80.0, 60.0, 77.0), "full", "Undecided here:"),
        ((80.0,), (90.0,), "full", "Not tested here:"),
    ],
)
def test_a_verdict_needs_power_and_whole_runs(make_record, first, second, scale, said):
    records = [
        make_record(cell=f"{network}/eps=1", test_accuracy=value, scale=scale)
        for network, values in (("new", first), ("old", second))
        for value in values
    ]
    (text,) = claims.claim_texts(records, [claims.Claim("new is better", (("new", "old"),))])
    assert f"**The paper: new is better.** {said}" in text


def test_tests_are_corrected_for_all_of_a_page(make_record):
    """Welch's p is 0.046 for runs of our own, which is chance as one of two."""
    values = {"new": (63.26, 62.61, 62.7), "old": (60.28, 61.91, 60.55)}
    records = [
        make_record(cell=f"{network}/eps=1", test_accuracy=v, test_accuracy_ema=v)
        for network, found in values.items()
        for v in found
    ]
    one = claims.Claim("new is better", (("new", "old"),))
    (alone,) = claims.claim_texts(records, [one])
    assert "p = 0.046" in alone and "Supported here" in alone and "p < 0.05 / 1 " in alone
    both = claims.claim_texts(records, [one, one._replace(field="test_accuracy_ema")])
    assert all("Supported" not in text and "p < 0.05 / 2 " in text for text in both)
