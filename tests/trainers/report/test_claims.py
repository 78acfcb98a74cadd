"""The claims of papers name rows of the tables."""

import pytest

from trainers import registry
from trainers.ermis.notes import NOTES as ERMIS_NOTES
from trainers.klause.notes import NOTES as KLAUSE_NOTES


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
