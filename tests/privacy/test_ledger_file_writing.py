"""Ledger files of two writers, killed processes and full disks."""

import errno
import os
import subprocess
import sys

import pytest

from tests.privacy.ledger_doubles import PLAN, announced
from tfdpnorm import files
from tfdpnorm.privacy import (
    create_ledger,
    read_ledger,
    reopen_ledger,
)
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.entries import Updates


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
    announced(ledger, 1)
    assert read_ledger(path).updates == 1
    del ledger
    reopen_ledger(path, PLAN)


@pytest.mark.parametrize("how", ["longer", "of the same size", "torn no longer"])
def test_file_changed_between_reading_and_locking(path, monkeypatch, how):
    announced(create_ledger(path, PLAN), 2)
    data = path.read_bytes()
    other = {"longer": data + b"\0", "torn no longer": data[:-1]}.get(how, data[:-2] + b"x\n")
    real = files.lock

    def late(descriptor):
        path.write_bytes(other)
        return real(descriptor)

    monkeypatch.setattr(files, "lock", late)
    with pytest.raises(BlockingIOError, match="two runs must not write to it"):
        reopen_ledger(path, PLAN)
    assert path.read_bytes() == other


@pytest.mark.parametrize("fails_in", ["write", "flush", "half"])
def test_a_full_disk_records_nothing(path, monkeypatch, fails_in):
    ledger = create_ledger(path, PLAN)
    announced(ledger, 1)
    before, state, tail = path.read_bytes(), ledger.state, ledger.file.tail
    real = os.write

    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def half(descriptor, data):
        if len(data) < 40:
            full()
        return real(descriptor, data[: len(data) // 2])

    with monkeypatch.context() as patch:
        if fails_in == "flush":
            patch.setattr(files, "_TO_DISK", full)
        else:
            patch.setattr(os, "write", half if fails_in == "half" else full)
        for call in (
            lambda: ledger.record(Updates()),
            lambda: ledger.record(caveat("no_guarantee", sentence="a reason")),
        ):
            with pytest.raises(OSError, match="No space left.*Nothing was recorded") as failed:
                call()
            assert failed.value.errno == errno.ENOSPC
    assert path.read_bytes() == before and ledger.state == state and ledger.file.tail == tail
    announced(ledger, 1)
    assert read_ledger(path).updates == 2


def test_a_write_that_cannot_be_undone_is_the_last_one(path, monkeypatch):
    ledger = create_ledger(path, PLAN)
    announced(ledger, 1)
    real = os.write

    def broken(*arguments):
        if len(arguments) == 2 and isinstance(arguments[1], bytes) and len(arguments[1]) > 60:
            return real(arguments[0], arguments[1][:20])
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", broken)
        patch.setattr(os, "ftruncate", broken)
        with pytest.raises(OSError, match="Input/output error"):
            ledger.record(Updates())
    with pytest.raises(OSError, match="an earlier failed write could not be undone"):
        ledger.record(Updates())
    assert ledger.updates == 1 and read_ledger(path).file.torn
    ledger.close()
    assert reopen_ledger(path, PLAN).updates == 1


def test_an_interrupted_write_is_undone(path, monkeypatch):
    ledger = create_ledger(path, PLAN)
    before = path.read_bytes()

    def interrupt(descriptor):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(files, "_TO_DISK", interrupt)
        with pytest.raises(KeyboardInterrupt):
            ledger.record(Updates())
    assert path.read_bytes() == before and ledger.updates == 0


@pytest.mark.parametrize("how", ["append", "cut", "remove"])
def test_a_file_that_was_changed_meanwhile_is_noticed(path, how):
    ledger = create_ledger(path, PLAN)
    announced(ledger, 1)
    if how == "remove":
        path.unlink()
    else:
        data = path.read_bytes()
        path.write_bytes(data + b"\n" if how == "append" else data[:-10])
    with pytest.raises(OSError, match="changed or removed the file"):
        ledger.record(Updates())
    assert ledger.updates == 1


def test_a_folder_that_cannot_be_written_to(path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="Cannot create the ledger"):
        create_ledger(path.parent / "absent" / "ledger", PLAN)
    real = os.open

    def read_only(name, flags, *mode):
        if flags & (os.O_CREAT | os.O_RDWR):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        return real(name, flags, *mode)

    announced(create_ledger(path, PLAN), 1)
    with monkeypatch.context() as patch:  # The tests may run as root, whom no mode stops.
        patch.setattr(os, "open", read_only)
        with pytest.raises(PermissionError, match="Cannot create the ledger"):
            create_ledger(path.parent / "other", PLAN)
        with pytest.raises(PermissionError, match="Cannot open the ledger: Permission"):
            reopen_ledger(path, PLAN)
    assert os.listdir(path.parent) == [path.name]


def test_a_header_that_cannot_be_written_leaves_no_file(path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="Cannot create the ledger: No space left"):
        create_ledger(path, PLAN)
    assert os.listdir(path.parent) == []
