"""The ledger file: written first, read back as it was, and refused once anybody touched it."""

import dataclasses
import errno
import io
import json
import math
import os
import random
import subprocess
import sys

import pytest

from tfdpnorm.privacy import (
    BudgetExhaustedError,
    LedgerCorruptError,
    PrivacyBudget,
    PrivacyLedger,
    create_ledger,
    ledger_file,
    make_plan,
    read_ledger,
    reopen_ledger,
)

SETTINGS = {
    "num_examples": 1000,
    "expected_batch_size": 50,
    "steps": 100,
    "l2_norm_clip": 1.5,
    "noise_multiplier": 2.0,
    "delta": 1e-5,
}
PLAN = make_plan(**SETTINGS)
DETAILS = {"engine": "bk", "depth": 16, "noise_generator": "shake256", "seed": None, "w": 0.1}
HIDDEN = ("path", "torn", "_sums", "_size", "_descriptor", "_close", "_given", "_must_resume")


def state_of(ledger):
    return {k: v for k, v in vars(ledger).items() if k not in (*HIDDEN, "_is_broken")}


def made(ledger, *digests):
    for digest in digests:
        ledger.record_updates()
        ledger.record_made(digest)


def fill(ledger):
    """Entries of every kind."""
    made(ledger, 1, -2, 2**63)
    ledger.record_query("accuracy", noise_multiplier=5.0, examples=50, queries_planned=7)
    ledger.record_answer("accuracy", 41.25)
    ledger.resume(1, same_randomness=True)
    made(ledger, -2, 77, 78)
    ledger.exclude("Caf\u00e9 \u2014 \u201cvocabulary\u201d.")
    ledger.record_query("overlap", noise_multiplier=9.0, examples=50, disjoint=False)
    ledger.hold_to_plan("results decide")
    ledger.resume(2, same_randomness=False)
    ledger.record_updates(5)
    return ledger


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def whole(path):
    """A closed ledger file of entries of every kind but void."""
    fill(create_ledger(path, PLAN, DETAILS)).close()
    return path


def test_what_was_written_is_read(path):
    ledger = fill(create_ledger(path, PLAN, DETAILS))
    memory = fill(PrivacyLedger(PLAN, DETAILS))
    read = read_ledger(path)
    assert state_of(read) == state_of(ledger) == state_of(memory)
    assert read.plan == PLAN and read.details == DETAILS and not read.torn
    assert read.tail == ledger.tail and read.epsilon() == memory.epsilon()
    ledger.void("a reason")
    assert read_ledger(path).no_guarantee_because == ("a reason",)
    kinds = [json.loads(line)["kind"] for line in path.read_text().splitlines()]
    assert set(kinds) == {"header", *ledger_file._CALLS}


@pytest.mark.parametrize(
    "changes",
    [
        {"noise_multiplier": 0.0, "l2_norm_clip": math.inf},
        {"no_guarantee_because": ("one", "two")},
        {"sampling": "shuffled", "accountant": "pld", "expected_batch_size": 7.3},
        {"noise_multiplier": None, "delta": None, "budget": PrivacyBudget(math.inf, 1e-5)},
        {"noise_multiplier": None, "delta": None, "budget": PrivacyBudget(2.0, 1e-5)},
    ],
)
def test_every_plan_comes_back(path, changes):
    plan = make_plan(**{**SETTINGS, **changes})
    create_ledger(path, plan).close()
    assert read_ledger(path).plan == plan
    reopen_ledger(path, plan)
    json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_reopening_goes_on_with_the_chain(whole):
    before = read_ledger(whole)
    ledger = reopen_ledger(whole, PLAN, DETAILS)
    ledger.check_reaches(before.tail)
    assert (ledger.updates, ledger.position) == (before.updates, before.position)
    ledger.resume(before.position, same_randomness=True)
    made(ledger, 5)
    read = read_ledger(whole)
    assert state_of(read) == state_of(ledger)
    assert read.tail == ledger.tail and ledger.tail[0] == before.tail[0] + 3
    read.check_reaches(list(before.tail))


def test_a_reopened_ledger_has_to_be_resumed_first(whole):
    ledger = reopen_ledger(whole, PLAN, DETAILS)
    size = whole.stat().st_size
    for call in (
        ledger.record_updates,
        lambda: ledger.record_made(3),
        lambda: ledger.record_query("a", noise_multiplier=1.0, examples=1),
    ):
        with pytest.raises(ValueError, match="Expected resume.* after reopen_ledger"):
            call()
    assert whole.stat().st_size == size
    ledger.void("a reason")
    ledger.resume(0, same_randomness=True)
    ledger.record_updates()


def test_each_call_is_on_the_disk_before_it_returns(path, monkeypatch):
    flushed = []
    monkeypatch.setattr(ledger_file, "_TO_DISK", lambda d: flushed.append(os.fstat(d).st_size))
    ledger = create_ledger(path, PLAN)
    assert flushed == [path.stat().st_size]
    ledger.record_updates()
    ledger.record_made(1)
    assert len(flushed) == 3 and flushed[-1] == path.stat().st_size
    assert path.read_bytes().endswith(b"}\n")


def test_an_update_is_refused_before_it_is_written(path):
    ledger = create_ledger(path, PLAN)
    size = path.stat().st_size
    with pytest.raises(BudgetExhaustedError):
        ledger.record_updates(101)
    assert path.stat().st_size == size


def test_an_existing_file_is_left_alone(whole):
    before = whole.read_bytes()
    with pytest.raises(FileExistsError, match="Expected no ledger there yet, received one"):
        create_ledger(whole, PLAN)
    assert whole.read_bytes() == before
    assert os.listdir(whole.parent) == [whole.name]


def test_without_hard_links_a_file_appears_whole_too(path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    made(create_ledger(path, PLAN), 1)
    assert read_ledger(path).updates == 1 and os.listdir(path.parent) == [path.name]
    with pytest.raises(FileExistsError):
        ledger_file._publish(str(path), str(path))


CHANGED = {
    "num_examples": 1001,
    "expected_batch_size": 49,
    "steps": 101,
    "l2_norm_clip": 1.0,
    "noise_multiplier": 1.9,
    "delta": 1e-6,
    "accountant": "pld",
    "no_guarantee_because": ("a reason",),
}


@pytest.mark.parametrize("name", CHANGED)
def test_another_plan_is_refused_by_name(whole, name):
    before = whole.read_bytes()
    plan = dataclasses.replace(PLAN, **{name: CHANGED[name]})
    with pytest.raises(ValueError) as refused:
        reopen_ledger(whole, plan, DETAILS)
    old, new = getattr(PLAN, name), getattr(plan, name)
    assert f": {name} is {old!r} there and {new!r} here." in str(refused.value)
    assert not isinstance(refused.value, LedgerCorruptError)
    assert whole.read_bytes() == before
    reopen_ledger(whole, PLAN, DETAILS)


def test_all_differences_are_in_one_error(whole):
    plan = dataclasses.replace(PLAN, steps=7, delta=1e-7)
    details = {**DETAILS, "engine": "tfp", "depth": 16.0, "new": True}
    del details["w"]
    with pytest.raises(ValueError, match="received another one") as refused:
        reopen_ledger(whole, plan, details)
    for part in (
        "steps is 100 there and 7 here",
        "delta is 1e-05 there and 1e-07 here",
        "engine is 'bk' there and 'tfp' here",
        "depth is 16 there and 16.0 here",
        "w is 0.1 there and nothing here",
        "new is nothing there and True here",
    ):
        assert part in str(refused.value)
    with pytest.raises(ValueError, match="engine is 'bk' there and nothing here"):
        reopen_ledger(whole, PLAN)


def test_every_truncation_is_a_prefix_or_refused(whole, tmp_path):
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
        assert ledger.torn == (size not in ends)
        assert ledger.tail == (kept, full._sums[kept - 1])
        if last is None or kept > last.tail[0]:
            # Confirmed repetitions alone may lower these, and there are none to confirm here.
            assert ledger.epsilon() <= full.epsilon() and ledger.updates <= full.updates
            assert last is None or last.updates <= ledger.updates
            last = ledger
        assert state_of(ledger).keys() == state_of(last).keys()
        assert (ledger.updates, ledger.position) == (last.updates, last.position)
        with pytest.raises(LedgerCorruptError, match=f"received only {kept} lines"):
            ledger.check_reaches(full.tail)


@pytest.mark.parametrize("size", [0, 1, 30, -1])
@pytest.mark.parametrize("zeros", [0, 1, 4096])
def test_a_torn_line_is_cut_off_when_reopened(whole, size, zeros):
    data = whole.read_bytes()
    before = read_ledger(whole)
    next_line = ledger_file._line(before.tail[0] + 1, {"kind": "updates", "count": 3}, "0" * 32)
    whole.write_bytes(data + next_line[:size] + b"\0" * zeros)
    assert read_ledger(whole).torn == bool(size or zeros)
    ledger = reopen_ledger(whole, PLAN, DETAILS)
    assert whole.read_bytes() == data
    assert ledger.torn == bool(size or zeros) and ledger.tail == before.tail
    ledger.resume(ledger.position, same_randomness=True)
    made(ledger, 3)
    assert read_ledger(whole).updates == before.updates + 1


def test_any_changed_byte_is_refused(whole, tmp_path):
    data, rng = whole.read_bytes(), random.Random(1)
    changed = tmp_path / "changed"
    for at in range(len(data)):
        byte = rng.choice([data[at] ^ 1 << rng.randrange(8), rng.randrange(256), 10, 0, 255])
        if byte == data[at]:
            continue
        changed.write_bytes(data[:at] + bytes([byte]) + data[at + 1 :])
        if at == len(data) - 1 and byte == 0:
            assert read_ledger(changed).torn  # As after a power loss.
            continue
        with pytest.raises(LedgerCorruptError, match="in line|to have version"):
            read_ledger(changed)


def test_lines_that_are_deleted_swapped_or_doubled_are_refused(whole, tmp_path):
    lines = whole.read_bytes().splitlines(keepends=True)
    changed = tmp_path / "changed"
    for n in range(len(lines)):
        for some in (
            lines[:n] + lines[n + 1 :] if n < len(lines) - 1 else lines[1:],
            lines[: n + 1] + lines[n:],
            lines[:n] + lines[n : n + 2][::-1] + lines[n + 2 :] if n < len(lines) - 1 else [],
            lines[:n] + [b"\n"] + lines[n:],
            lines[:n] + [lines[n].replace(b"\n", b"\r\n")] + lines[n + 1 :],
        ):
            changed.write_bytes(b"".join(some))
            with pytest.raises(LedgerCorruptError):
                read_ledger(changed)


@pytest.mark.parametrize(
    "data, what",
    [
        (b"", "an empty file in line 1"),
        (b"\0" * 100, "no whole header in line 1"),
        (b'{"line":1,"kind":"header"', "no whole header in line 1"),
        (b"\xff\xfe\n", "not UTF-8 text in line 1"),
        (b"hello\n", "no entry of a ledger in line 1"),
        (b"\n\n\n", "no entry of a ledger in line 1"),
        (os.urandom(3000).replace(b"\n", b"") + b"\n", "in line 1"),
    ],
    ids=["empty", "zeros", "half a header", "not UTF-8", "text", "empty lines", "anything"],
)
def test_what_is_no_ledger_is_refused(path, data, what):
    path.write_bytes(data)
    for opening in (read_ledger, lambda path: reopen_ledger(path, PLAN)):
        with pytest.raises(LedgerCorruptError, match=what):
            opening(path)
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    "rest", [b"x", b"\xff", b'{"line":99', b" ", b"\0{", b'{"line":3,"kind":"\t']
)
def test_garbage_at_the_end_is_no_torn_line(path, rest):
    made(create_ledger(path, PLAN))
    path.write_bytes(path.read_bytes() + rest)
    with pytest.raises(LedgerCorruptError, match="no beginning of a line in line 2"):
        read_ledger(path)


@pytest.mark.parametrize("end", [b"x", b" ", b"}", b"\0x"])
def test_a_last_line_with_another_end_is_not_torn(whole, end):
    whole.write_bytes(whole.read_bytes()[:-1] + end)
    with pytest.raises(LedgerCorruptError, match="no beginning of a line"):
        read_ledger(whole)


def forge(path, *entries):
    """Writes entries with right checksums, as somebody does who means to deceive."""
    create_ledger(path, PLAN).close()
    data = path.read_bytes()
    for number, entry in enumerate(entries, 2):
        before = json.loads(data.splitlines()[-1])["sum"]
        data += ledger_file._line(number, entry, before)
    path.write_bytes(data)


UPDATES, MADE = {"kind": "updates", "count": 3}, {"kind": "made", "digest": 1}


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
        [MADE],
        [UPDATES, MADE, MADE],
        [UPDATES, {"kind": "made", "digest": 2**64}],
        [UPDATES, {"kind": "differs", "digest": 1}],
        [UPDATES, {"kind": "resume", "position": 4, "same_randomness": True}],
        [UPDATES, {"kind": "resume", "position": 2, "same_randomness": 1}],
        [UPDATES, MADE, {"kind": "resume", "position": 0, "same_randomness": True}, UPDATES,
         {"kind": "made", "digest": 2}],
        [{"kind": "answer", "name": "accuracy", "value": 1.0}],
        [{"kind": "query", "name": "accuracy", "noise_multiplier": 1.0}],
        [{"kind": "void", "reason": "a"}, {"kind": "void", "reason": "a"}],
        [{"kind": "void", "reason": " a"}],
    ],
)  # fmt: skip
def test_entries_that_contradict_each_other_are_refused(path, entries):
    forge(path, *entries)
    with pytest.raises(LedgerCorruptError, match=f"in line {1 + len(entries)}"):
        read_ledger(path)


def test_a_wrong_number_under_a_right_checksum_is_refused(path):
    forge(path)
    header = path.read_bytes()
    path.write_bytes(header + ledger_file._line(3, UPDATES, json.loads(header)["sum"]))
    with pytest.raises(LedgerCorruptError, match="another line number"):
        read_ledger(path)


@pytest.mark.parametrize(
    "changes, what",
    [
        ({"kind": "updates"}, "no header"),
        ({"format": "csv"}, "no header"),
        ({"version": 2}, "to have version 1 of the format, received 2. Read it with the release"),
        ({"plan": None}, "without a valid plan"),
        ({"plan": {"steps": 3}}, "without a valid plan"),
        ({"plan": {**SETTINGS, "delta": 2}}, "without a valid plan"),
        ({"plan": {**SETTINGS, "no": 2}}, "without a valid plan"),
        ({"details": [1]}, "without a valid plan"),
    ],
)
def test_other_headers_are_refused(path, changes, what):
    plan = ledger_file._plan_fields(PLAN)
    header = {"kind": "header", "format": "tfdpnorm-ledger", "version": 1, "plan": plan}
    path.write_bytes(ledger_file._line(1, {**header, "details": {}, **changes}, "0" * 32))
    with pytest.raises(LedgerCorruptError, match=what):
        read_ledger(path)


def test_a_ledger_that_was_cut_short_does_not_reach_its_tail(whole):
    lines = whole.read_bytes().splitlines(keepends=True)
    tail = read_ledger(whole).tail
    whole.write_bytes(b"".join(lines[:-1]))
    ledger = reopen_ledger(whole, PLAN, DETAILS)
    with pytest.raises(LedgerCorruptError, match="received only"):
        ledger.check_reaches(tail)
    ledger.resume(0, same_randomness=False)
    with pytest.raises(LedgerCorruptError, match="another checksum there"):
        ledger.check_reaches(tail)
    ledger.check_reaches(ledger.tail)
    for bad in (None, 3, (1,), ("a", "b"), (1, 2, 3)):
        with pytest.raises(ValueError, match="Expected tail to be"):
            ledger.check_reaches(bad)
    for never in ((0, ""), (-1, tail[1]), (10**9, tail[1])):
        with pytest.raises(LedgerCorruptError):
            ledger.check_reaches(never)


def test_what_was_only_read_or_closed_records_nothing(whole):
    before = whole.read_bytes()
    closed = reopen_ledger(whole, PLAN, DETAILS)
    closed.close()
    closed.close()
    for ledger in (read_ledger(whole), closed):
        with pytest.raises(io.UnsupportedOperation, match="Open it with reopen_ledger"):
            ledger.record_updates()
        with pytest.raises(io.UnsupportedOperation):
            ledger.void("a reason")
        assert ledger.guarantee_holds
    assert whole.read_bytes() == before


def test_two_cannot_write_to_one_ledger(path):
    pytest.importorskip("fcntl")
    ledger = create_ledger(path, PLAN)
    with pytest.raises(BlockingIOError, match="two runs must not write to it"):
        reopen_ledger(path, PLAN)
    code = (
        "import sys, tfdpnorm.privacy as p\n"
        "plan = p.read_ledger(sys.argv[1]).plan\n"
        "try: p.reopen_ledger(sys.argv[1], plan)\n"
        "except BlockingIOError: sys.exit(7)\n"
    )
    other = [sys.executable, "-c", code, str(path)]
    assert subprocess.run(other, timeout=60).returncode == 7
    made(ledger, 1)
    assert read_ledger(path).updates == 1
    del ledger
    assert subprocess.run(other, timeout=60).returncode == 0


def test_a_process_that_is_killed_leaves_what_it_announced(path):
    code = (
        "import os, sys, tfdpnorm.privacy as p\n"
        f"plan = p.make_plan(**{SETTINGS!r})\n"
        "ledger = p.create_ledger(sys.argv[1], plan)\n"
        "ledger.record_updates(); ledger.record_made(1); ledger.record_updates()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], timeout=60)
    ledger = reopen_ledger(path, PLAN)
    assert ledger.updates == 2 and not ledger.torn
    ledger.resume(1, same_randomness=True)
    made(ledger, 2)
    assert ledger.updates == ledger.position == 2


@pytest.mark.parametrize("fails_in", ["write", "flush", "half"])
def test_a_full_disk_records_nothing(path, monkeypatch, fails_in):
    ledger = create_ledger(path, PLAN)
    made(ledger, 1)
    before, state, tail = path.read_bytes(), state_of(ledger), ledger.tail
    real = os.write

    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def half(descriptor, data):
        if len(data) < 40:
            full()
        return real(descriptor, data[: len(data) // 2])

    with monkeypatch.context() as patch:
        if fails_in == "flush":
            patch.setattr(ledger_file, "_TO_DISK", full)
        else:
            patch.setattr(os, "write", half if fails_in == "half" else full)
        for call in (ledger.record_updates, lambda: ledger.void("a reason")):
            with pytest.raises(OSError, match="No space left.*Nothing was recorded") as failed:
                call()
            assert failed.value.errno == errno.ENOSPC
    assert path.read_bytes() == before and state_of(ledger) == state and ledger.tail == tail
    made(ledger, 2)
    assert read_ledger(path).updates == 2


def test_a_write_that_cannot_be_undone_is_the_last_one(path, monkeypatch):
    ledger = create_ledger(path, PLAN)
    made(ledger, 1)
    real = os.write

    def broken(*arguments):
        if len(arguments) == 2 and isinstance(arguments[1], bytes) and len(arguments[1]) > 60:
            return real(arguments[0], arguments[1][:20])
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", broken)
        patch.setattr(os, "ftruncate", broken)
        with pytest.raises(OSError, match="Input/output error"):
            ledger.record_updates()
    with pytest.raises(OSError, match="an earlier failed write could not be undone"):
        ledger.record_updates()
    assert ledger.updates == 1 and read_ledger(path).torn
    ledger.close()
    assert reopen_ledger(path, PLAN).updates == 1


def test_an_interrupted_write_is_undone(path, monkeypatch):
    ledger = create_ledger(path, PLAN)
    before = path.read_bytes()

    def interrupt(descriptor):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ledger_file, "_TO_DISK", interrupt)
        with pytest.raises(KeyboardInterrupt):
            ledger.record_updates()
    assert path.read_bytes() == before and ledger.updates == 0


@pytest.mark.parametrize("how", ["append", "cut", "remove"])
def test_a_file_that_was_changed_meanwhile_is_noticed(path, how):
    ledger = create_ledger(path, PLAN)
    made(ledger, 1)
    if how == "remove":
        path.unlink()
    else:
        data = path.read_bytes()
        path.write_bytes(data + b"\n" if how == "append" else data[:-10])
    with pytest.raises(OSError, match="changed or removed the file"):
        ledger.record_updates()
    assert ledger.updates == 1


def test_a_folder_that_cannot_be_written_to(path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="Expected to create a ledger"):
        create_ledger(path.parent / "absent" / "ledger", PLAN)
    real = os.open

    def read_only(name, flags, *mode):
        if flags & (os.O_CREAT | os.O_RDWR):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        return real(name, flags, *mode)

    made(create_ledger(path, PLAN), 1)
    with monkeypatch.context() as patch:  # The tests may run as root, whom no mode stops.
        patch.setattr(os, "open", read_only)
        with pytest.raises(PermissionError, match="Expected to create a ledger"):
            create_ledger(path.parent / "other", PLAN)
        with pytest.raises(PermissionError, match="Expected a ledger, received: Permission"):
            reopen_ledger(path, PLAN)
    assert os.listdir(path.parent) == [path.name]


def test_a_header_that_cannot_be_written_leaves_no_file(path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="Expected to create a ledger, received: No space left"):
        create_ledger(path, PLAN)
    assert os.listdir(path.parent) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_device_without_space(path):
    ledger = create_ledger(path, PLAN)
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        os.dup2(full, ledger._descriptor)
    finally:
        os.close(full)
    ledger._size = 0  # The device has no size.
    with pytest.raises(OSError, match="No space left"):
        ledger.record_updates()
    assert ledger.updates == 0


@pytest.mark.parametrize("opening", [read_ledger, lambda path: reopen_ledger(path, PLAN)])
def test_an_absent_file(path, opening):
    with pytest.raises(FileNotFoundError, match="Expected a ledger, received: No such file"):
        opening(path)
    with pytest.raises(OSError, match="Expected a ledger, received: Is a directory"):
        opening(path.parent)


def test_random_runs_are_read_as_they_were(path):
    rng = random.Random(3)
    ledger = create_ledger(path, PLAN)
    for _ in range(400):
        act = rng.random()
        if act < 0.4 and ledger.remaining_updates:
            ledger.record_updates(min(rng.choice([1, 2, 3]), ledger.remaining_updates))
        elif act < 0.7 and ledger._announced:
            ledger.record_made(rng.choice([ledger.position, rng.randrange(2**63)]))
        elif act < 0.75:
            ledger.record_query("q", noise_multiplier=rng.choice([1.0, 2.5]), examples=3)
            ledger.record_answer("q", rng.gauss(0, 1))
        elif act < 0.9:
            position = rng.randrange(ledger._highest + 1)
            ledger.close()
            ledger = reopen_ledger(path, PLAN)
            ledger.resume(position, same_randomness=rng.random() < 0.8)
    assert state_of(read_ledger(path)) == state_of(ledger)
    assert ledger.recounted > 0 and ledger.resumes > 20
