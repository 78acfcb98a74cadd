"""Damaged ledgers: rejected, or a prefix of what was written; never another exception."""

import contextlib
import io
import json
import math

import pytest
from hypothesis import strategies as st

from tests.fuzz.damage import JSON_VALUES, damaged_bytes, damaged_lines
from tests.fuzz.targets import Refusal, attempt, fuzz
from tfdpnorm.privacy import (
    LedgerCorruptError,
    create_ledger,
    journal,
    make_plan,
    read_ledger,
    reopen_ledger,
)
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.command import main
from tfdpnorm.privacy.entries import ENTRIES, Answer, Query, Resume, Updates

PLAN = make_plan(
    num_examples=1000,
    expected_batch_size=50,
    steps=60,
    l2_norm_clip=1.5,
    noise_multiplier=2.0,
    delta=1e-5,
)
RUN_SETTINGS = {"engine": "book_keeping", "noise_generator": "philox", "seed": None}
REFUSALS = (LedgerCorruptError,)


def announced(ledger, updates):
    for _ in range(updates):
        ledger.record(Updates())


def plain(ledger):
    announced(ledger, 3)


def eventful(ledger):
    """Entries of every kind but those of a run that lost its guarantee."""
    announced(ledger, 3)
    ledger.record(Query("accuracy", noise_multiplier=5.0, examples=50, queries_planned=7))
    ledger.record(Answer("accuracy", 41.25))
    ledger.record(Resume(1))
    announced(ledger, 2)
    ledger.record(Query("overlap", noise_multiplier=9.0, examples=50, disjoint=False))
    ledger.record(caveat("not_covered", sentence="Caf\u00e9."))
    ledger.record(Resume(2))
    ledger.record(Updates(5))


def voided(ledger):
    announced(ledger, 2)
    ledger.record(caveat("no_guarantee", sentence="a reason"))
    ledger.record(caveat("held_to_plan", sentence="results decide"))
    announced(ledger, 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("ledgers")
    for fill in (plain, eventful, voided):
        ledger = create_ledger(place / f"{fill.__name__}.jsonl", PLAN, RUN_SETTINGS)
        fill(ledger)
        ledger.close()
    return place


def told(arguments):
    """The command's exit code, and its lines on standard output and error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(arguments)
        except SystemExit as end:
            code = end.code
    return code, out.getvalue().splitlines(), err.getvalue().splitlines()


@fuzz(data=st.data(), name=st.sampled_from(["plain", "eventful", "eventful", "voided"]), quick=20)
def test_ledgers(data, name, folder):
    true = (folder / f"{name}.jsonl").read_bytes()
    damaged = data.draw(st.one_of(damaged_bytes(true), damaged_lines(true), spliced(folder, true)))
    path = folder / "damaged.jsonl"
    path.write_bytes(damaged)
    read = attempt(lambda: read_ledger(path), REFUSALS)
    code, out, err = told([f"--ledger={path}", "--json"])
    # Both the reader and the one who goes on with the run say the same.
    again = attempt(lambda: reopen_ledger(path, PLAN, RUN_SETTINGS), REFUSALS)
    if isinstance(read, Refusal):
        assert isinstance(again, Refusal) and path.read_bytes() == damaged
        assert code == 2 and not out and len(err) == 1 and "Expected" in err[0]
        return "refused"
    again.close()
    assert code == 0 and len(err) == read.file.torn
    lines = true.splitlines(keepends=True)
    kept = read.file.tail[0]
    prefix = b"".join(lines[:kept])
    rest = damaged[len(prefix) :]
    assert damaged.startswith(prefix) and path.read_bytes() == prefix
    # Nothing is left out but a line that has lost its end, and those behind it.
    assert b"\n" not in rest and read.file.torn == bool(rest)
    path.write_bytes(prefix)
    truth = read_ledger(path)
    assert read.file.tail == truth.file.tail == again.file.tail
    for of in (read, again):
        assert (of.updates, of.state.position, of.state.resumes, of.state.queries()) == (
            truth.updates, truth.state.position, truth.state.resumes, truth.state.queries()
        )  # fmt: skip
        assert of.state.sentences("no_guarantee") == truth.state.sentences("no_guarantee")
        assert of.epsilon() == truth.epsilon()
        assert of.claimed_epsilon() == truth.claimed_epsilon()
    record = json.loads(out[0])
    assert record["parameters"]["updates"] == truth.updates
    stated = record["guarantee"]["epsilon"] if record["guarantee"] else math.inf
    assert truth.epsilon() == float(stated)
    return "whole" if prefix == true else "prefix"


@st.composite
def spliced(draw, folder, data):
    """A part of a ledger in the place of a part of another one."""
    name = draw(st.sampled_from(["plain", "eventful", "voided"]))
    other = (folder / f"{name}.jsonl").read_bytes()
    begin, end = sorted(draw(st.integers(0, len(data))) for _ in range(2))
    first, last = sorted(draw(st.integers(0, len(other))) for _ in range(2))
    if draw(st.booleans()):  # Along the lines.
        begin, end = (data.rfind(b"\n", 0, at) + 1 for at in (begin, end))
        first, last = (other.rfind(b"\n", 0, at) + 1 for at in (first, last))
    return data[:begin] + other[first:last] + data[end:]


KINDS = [*ENTRIES, "header", "no such kind"]
FIELDS = [
    "count", "digest", "position", "same_randomness", "name", "noise_multiplier", "examples",
    "disjoint", "queries_planned", "value", "code", "fields", "plan", "number", "kind", "self",
    "line",
]  # fmt: skip
SENSIBLE = {
    "updates": {"count": 1},
    "resume": {"position": 1},
    "query": {
        "name": "accuracy", "noise_multiplier": 5.0, "examples": 9, "disjoint": True,
        "queries_planned": None,
    },
    "answer": {"name": "accuracy", "value": 1.5},
    "caveat": {"code": "not_covered", "fields": {"sentence": "A sentence."}},
    "trial": {"number": 0},
}  # fmt: skip


@st.composite
def entries(draw):
    """An entry of a ledger, sensible or with other fields and types."""
    kind = draw(st.sampled_from(KINDS))
    entry = {"kind": kind, **SENSIBLE.get(kind, {})}
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2]))):
        entry[draw(st.sampled_from([*entry, *FIELDS]))] = draw(JSON_VALUES)
    if draw(st.integers(0, 9)) == 0:
        del entry[draw(st.sampled_from(sorted(entry)))]
    return entry


def forged_line(number, entry, before):
    """A line with the right checksum, whatever it holds."""
    text = json.dumps({"line": number, **entry}, separators=(",", ":"))[:-1].encode()
    return text + f',"sum":"{journal.checksum(before, text)}"}}\n'.encode()


@fuzz(rest=st.lists(entries(), min_size=1, max_size=6), quick=40)
def test_ledgers_with_right_checksums(rest, folder):
    """What no accident makes; yet nothing but an error, or a count of what is there, may follow."""
    path = folder / "forged.jsonl"
    create_ledger(path, PLAN).close()
    try:
        data = path.read_bytes()
        for number, entry in enumerate(rest, 2):
            data += forged_line(number, entry, json.loads(data.splitlines()[-1])["sum"])
        path.write_bytes(data)
        read = attempt(lambda: read_ledger(path), REFUSALS)
        code, out, err = told([f"--ledger={path}", "--json"])
    finally:
        path.unlink()
    if isinstance(read, Refusal):
        assert code == 2 and not out and len(err) == 1
        return "refused"
    assert code == 0 and not err
    assert read.updates <= PLAN.steps and read.updates >= read.state.position
    assert math.isinf(read.epsilon()) == (not read.guarantee_holds)
    counts = [e["count"] for e in rest if e["kind"] == "updates"]
    assert read.updates == sum(counts)
    state = read.state
    if state.guarantee_holds and not state.is_held_to_plan and not (state.asked or state.search):
        assert read.epsilon() == PLAN.epsilon_after(read.updates)
    return "read"
