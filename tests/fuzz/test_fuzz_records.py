"""Damaged files of records: named in one error, or read as the JSON that they are."""

import json

import pytest
from hypothesis import strategies as st

from tests.fuzz.damage import damaged_text
from tests.fuzz.targets import Refusal, attempt, fuzz
from trainers.records.fields import FIELDS
from trainers.records.store import read_records, write_record

VALUES = {
    "experiment": "davody_table5",
    "cell": "public_batch/eps=1",
    "test_accuracy": 95.25,
    "epsilon": float("inf"),
    "guarantee_holds": False,
    "no_guarantee_because": ["the noise multiplier is 0"],
    "seed": 0,
    "flags": {"norm": "public_batch", "epsilon": float("inf")},
    "versions": {"tfdpnorm": "0.0.1"},
}
RECORD = {**dict.fromkeys(FIELDS), **VALUES}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return write_record(tmp_path_factory.mktemp("records"), RECORD)


NESTED = st.integers(1, 5).map(lambda n: b"[" * 10**n)


@fuzz(data=st.data(), quick=40)
def test_records(data, whole):
    text = whole.read_bytes()
    damaged = data.draw(st.one_of(damaged_text(text), damaged_text(text), NESTED))
    file = whole.parent / "stray.json"
    try:
        file.write_bytes(damaged)
        found = attempt(lambda: read_records(whole.parent))
    finally:
        file.unlink()
    if isinstance(found, Refusal):
        assert str(file) in str(found.error) and "Move the file away" in str(found.error)
        return "refused"
    first, *others = found
    assert first == RECORD
    if not others:  # the damage left a copy
        assert json.loads(damaged) == json.loads(text)
        return "a copy"
    (second,) = others
    assert set(FIELDS) <= set(second)
    assert set(json.loads(damaged)) <= set(second)
    # No infinity in words is left, and nothing else was changed.
    assert "inf" not in [v for v in second.values() if isinstance(v, str)]
    return "read"
