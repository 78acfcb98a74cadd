"""A ledger file is rejected once anybody touched it."""

import json
import os
import random

import pytest

from tests.privacy.ledger_doubles import PLAN, RUN_SETTINGS, SETTINGS, announced
from tfdpnorm.privacy import (
    LedgerCorruptError,
    create_ledger,
    journal,
    read_ledger,
    reopen_ledger,
)
from tfdpnorm.privacy.entries import Resume, Updates


def test_every_truncation_is_a_prefix_or_rejected(whole, tmp_path):
    data = whole.read_bytes()
    lines, full = data.splitlines(keepends=True), read_ledger(whole)
    ends = [len(b"".join(lines[: n + 1])) for n in range(len(lines))]
    cut, last = tmp_path / "cut", None
    for size in range(len(data)):
        cut.write_bytes(data[:size])
        kept = sum(end <= size for end in ends)
        if not kept:
            with pytest.raises(LedgerCorruptError, match="in line 1"):
                read_ledger(cut)
            continue
        ledger = read_ledger(cut)
        assert ledger.file.torn == (size not in ends)
        assert ledger.file.tail == (kept, full.file._checksums[kept - 1])
        if last is None or kept > last.file.tail[0]:
            assert ledger.epsilon() <= full.epsilon() and ledger.updates <= full.updates
            assert last is None or last.updates <= ledger.updates
            last = ledger
        assert ledger.state == last.state
        with pytest.raises(LedgerCorruptError, match=f"got only {kept} lines"):
            ledger.file.check_reaches(full.file.tail)


@pytest.mark.parametrize("size", [0, 1, 30, -1])
@pytest.mark.parametrize("zeros", [0, 1, 4096])
def test_a_torn_line_is_cut_off_when_reopened(whole, size, zeros):
    data = whole.read_bytes()
    before = read_ledger(whole)
    next_line = journal.encode_line(
        before.file.tail[0] + 1, {"kind": "updates", "count": 3}, "0" * 32
    )
    whole.write_bytes(data + next_line[:size] + b"\0" * zeros)
    assert read_ledger(whole).file.torn == bool(size or zeros)
    ledger = reopen_ledger(whole, PLAN, RUN_SETTINGS)
    assert whole.read_bytes() == data
    assert ledger.file.torn == bool(size or zeros) and ledger.file.tail == before.file.tail
    ledger.record(Resume(ledger.state.position))
    announced(ledger, 1)
    assert read_ledger(whole).updates == before.updates + 1


def test_any_changed_byte_is_rejected(whole, tmp_path):
    data, rng = whole.read_bytes(), random.Random(1)
    changed = tmp_path / "changed"
    for at in range(len(data)):
        byte = rng.choice([data[at] ^ 1 << rng.randrange(8), rng.randrange(256), 10, 0, 255])
        if byte == data[at]:
            continue
        changed.write_bytes(data[:at] + bytes([byte]) + data[at + 1 :])
        if at == len(data) - 1 and byte == 0:
            assert read_ledger(changed).file.torn  # As after a power loss.
            continue
        with pytest.raises(LedgerCorruptError, match="in line|to have version"):
            read_ledger(changed)


def test_lines_of_another_ledger_are_rejected(tmp_path):
    """With the right numbers, and right checksums of their own."""
    written = []
    for name, counts in (("one", (3, 40)), ("other", (1, 40))):
        ledger = create_ledger(tmp_path / name, PLAN)
        for count in counts:
            ledger.record(Updates(count))
        ledger.close()
        written.append((tmp_path / name).read_bytes().splitlines(keepends=True))
    (header, _, last), (_, small, _) = written
    (tmp_path / "changed").write_bytes(header + small + last)
    with pytest.raises(LedgerCorruptError, match="a wrong checksum: .* in line 2"):
        read_ledger(tmp_path / "changed")


@pytest.mark.parametrize(
    "data, what",
    [
        (b"", "an empty file in line 1"),
        (b"\0" * 100, "no whole header in line 1"),
        (b'{"line":1,"kind":"header"', "no whole header in line 1"),
        (b"\xff\xfe\n", "not UTF-8 text in line 1"),
        (b"hello\n", "not an entry of a ledger in line 1"),
        (b"\n\n\n", "not an entry of a ledger in line 1"),
        (os.urandom(3000).replace(b"\n", b"") + b"\n", "in line 1"),
    ],
    ids=["empty", "zeros", "half a header", "not UTF-8", "text", "empty lines", "anything"],
)
def test_other_files_are_not_accepted_as_ledgers(path, data, what):
    path.write_bytes(data)
    for opening in (read_ledger, lambda path: reopen_ledger(path, PLAN)):
        with pytest.raises(LedgerCorruptError, match=what):
            opening(path)
    assert path.read_bytes() == data


def forge(path, *entries):
    """Writes entries with right checksums, as somebody does who means to deceive."""
    create_ledger(path, PLAN).close()
    data = path.read_bytes()
    for number, entry in enumerate(entries, 2):
        before = json.loads(data.splitlines()[-1])["sum"]
        data += journal.encode_line(number, entry, before)
    path.write_bytes(data)


UPDATES = {"kind": "updates", "count": 3}
VOID = {"kind": "caveat", "code": "no_guarantee", "fields": {"sentence": "a"}}


@pytest.mark.parametrize(
    "entries",
    [
        [{"kind": "refund", "count": 3}],
        [{"kind": ["updates"]}],
        [{"kind": {}}],
        [{}],
        [{"kind": "header"}],
        [{"kind": "updates"}],
        [{"kind": "updates", "count": -3}],
        [{"kind": "updates", "count": "3"}],
        [{"kind": "updates", "count": 10**400}],
        [{"kind": "updates", "count": 101}],
        [{"kind": "updates", "count": 3, "for": "free"}],
        [{"kind": "updates", "count": 3, "self": 1}],
        [{"kind": "updates", "count": 99}, UPDATES],
        [UPDATES, {"kind": "made", "digest": 1}],
        [UPDATES, {"kind": "resume", "position": 4}],
        [UPDATES, {"kind": "resume", "position": 2, "same_randomness": True}],
        [{"kind": "finish"}, UPDATES],
        [{"kind": "answer", "name": "accuracy", "value": 1.0}],
        [{"kind": "query", "name": "accuracy", "noise_multiplier": 1.0}],
        [VOID, VOID],
        [{**VOID, "fields": {"sentence": " a"}}],
        [{**VOID, "fields": {"reason": "a"}}],
        [{**VOID, "fields": 3}],
        [{**VOID, "code": "refund"}],
        [{"kind": "void", "reason": "a"}],
        [{"kind": "search", "plan": {"shape": 1.0}}],
        [{"kind": "search", "plan": 3}],
    ],
)  # fmt: skip
def test_entries_that_contradict_each_other_are_rejected(path, entries):
    forge(path, *entries)
    with pytest.raises(LedgerCorruptError, match=f"in line {1 + len(entries)}"):
        read_ledger(path)


def test_a_wrong_number_under_a_right_checksum_is_rejected(path):
    forge(path)
    header = path.read_bytes()
    path.write_bytes(header + journal.encode_line(3, UPDATES, json.loads(header)["sum"]))
    with pytest.raises(LedgerCorruptError, match="another line number"):
        read_ledger(path)


@pytest.mark.parametrize(
    "changes, what",
    [
        ({"kind": "updates"}, "no header"),
        ({"format": "csv"}, "no header"),
        (
            {"version": 2},
            "to have version 4 of the format, got 2. Use the release that wrote it",
        ),
        ({"plan": None}, "without a valid plan"),
        ({"plan": {"steps": 3}}, "without a valid plan"),
        ({"plan": {**SETTINGS, "delta": 2}}, "without a valid plan"),
        ({"plan": {**SETTINGS, "no": 2}}, "without a valid plan"),
        ({"settings": [1]}, "without a valid plan"),
        ({"run": None}, "without a valid plan"),
    ],
)
def test_other_headers_are_rejected(path, changes, what):
    create_ledger(path, PLAN).close()
    _, (header,) = journal.read_journal(path)
    path.write_bytes(journal.encode_line(1, {**header, **changes}, "0" * 32))
    with pytest.raises(LedgerCorruptError, match=what):
        read_ledger(path)


def test_a_ledger_that_was_cut_short_does_not_reach_its_tail(whole):
    lines = whole.read_bytes().splitlines(keepends=True)
    tail = read_ledger(whole).file.tail
    whole.write_bytes(b"".join(lines[:-1]))
    ledger = reopen_ledger(whole, PLAN, RUN_SETTINGS)
    with pytest.raises(LedgerCorruptError, match="got only"):
        ledger.file.check_reaches(tail)
    ledger.record(Resume(0))
    with pytest.raises(LedgerCorruptError, match="another checksum there"):
        ledger.file.check_reaches(tail)
    ledger.file.check_reaches(ledger.file.tail)
    for bad in (None, 3, (1,), ("a", "b"), (1, 2, 3)):
        with pytest.raises(ValueError, match="Expected tail to be"):
            ledger.file.check_reaches(bad)
    for never in ((0, ""), (-1, tail[1]), (10**9, tail[1])):
        with pytest.raises(LedgerCorruptError):
            ledger.file.check_reaches(never)
