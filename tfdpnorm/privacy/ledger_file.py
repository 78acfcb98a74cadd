"""The ledger as a file, from which alone epsilon follows.

One JSON object a line. The first holds the plan and what else describes the run; each other one is
an entry of `PrivacyLedger`, on the disk before the call that records it returns. (That goes for
`record_made` too: were its digest lost with the power, a repetition that came out otherwise would
pass for free.) Every line has its number, and ends with a checksum over its own text and the
checksum of the line before (SHA-256, its first 128 bits), so that a changed, removed, inserted or
moved line is noticed.

**It is a checksum, not a signature.** It guards against accidents and careless edits: somebody who
rewrites the whole file can make all checksums right. Nor can one see in the file alone that lines
are missing *at its end*; against that, note `tail` elsewhere, as checkpoints do, and have
`check_reaches` look.

A process that dies while it writes leaves its last line torn: without an end, or followed by zero
bytes after a power loss. What that line announces has then not happened, so that it is not
counted, and is cut off when the file is reopened.
"""

import contextlib
import dataclasses
import errno
import hashlib
import io
import json
import math
import os
import re
import secrets
import weakref
from collections.abc import Mapping, Sequence

from tfdpnorm.privacy.ledger import BudgetExhaustedError, PrivacyLedger
from tfdpnorm.privacy.plan import PrivacyPlan

try:
    import fcntl
except ImportError:  # Windows has no such locks.
    fcntl = None

_FORMAT, _VERSION = "tfdpnorm-ledger", 1
_NO_SUM = "0" * 32
_LINE = re.compile(rb'(\{"line":[0-9]+,[^\n]*),"sum":"([0-9a-f]{32})"\}')
_TO_DISK = getattr(os, "fdatasync", os.fsync)
_CALLS = {
    "updates": PrivacyLedger.record_updates,
    "made": PrivacyLedger.record_made,
    "differs": PrivacyLedger.record_made,
    "resume": PrivacyLedger.resume,
    "query": PrivacyLedger.record_query,
    "answer": PrivacyLedger.record_answer,
    "void": PrivacyLedger.void,
    "exclude": PrivacyLedger.exclude,
    "hold": PrivacyLedger.hold_to_plan,
}
_OF_A_RUNNING_PROCESS = ("updates", "made", "differs", "query", "answer")


class LedgerCorruptError(ValueError):
    """A ledger file is not what was written."""


class LedgerFile(PrivacyLedger):
    """A `PrivacyLedger` with a file; made by `create_ledger`, `reopen_ledger` and `read_ledger`.

    A call that cannot write raises OSError and records nothing; the line is cut off again, and
    later calls may succeed.

    Attributes:
      path: The file, a string.
      torn: Whether the file ended in a torn line when it was opened.
    """

    def __init__(self, path: str, plan: PrivacyPlan, details: Mapping[str, object] | None):
        super().__init__(plan, details)
        self.path = path
        self.torn = False
        self._sums: list[str] = []
        self._size = 0
        self._descriptor: int | None = None
        self._close = lambda: None
        self._given: dict[str, object] | None = None  # The entry that is being read.
        self._must_resume = False
        self._is_broken = False

    @property
    def tail(self) -> tuple[int, str]:
        """The number of lines and the checksum of the last one; see `check_reaches`."""
        return len(self._sums), self._sums[-1]

    def check_reaches(self, tail: Sequence[object]) -> None:
        """Makes sure that the file goes on from where it once had the `tail` given.

        Raises:
          LedgerCorruptError: It does not: lines are missing at its end, or it is another ledger.
        """
        try:
            lines, checksum = tail
            known = self._sums[lines - 1] if 0 < lines <= len(self._sums) else None
        except (TypeError, ValueError):
            raise ValueError(
                f"Expected tail to be (lines, checksum), got {tail!r}. Pass what the property "
                "tail gave."
            ) from None
        if known != checksum:
            what = f"only {len(self._sums)} lines" if known is None else "another checksum there"
            raise LedgerCorruptError(
                f"Expected {self.path} to have line {lines} with checksum {checksum}, got "
                f"{what}. It was cut short or is another run's: bring back the newest copy."
            )

    def close(self) -> None:
        """Gives the file free for other processes; nothing can be recorded afterwards."""
        self._descriptor = None
        self._close()

    def _append(self, entry: dict[str, object]) -> None:
        if self._given is not None:
            if entry != self._given:
                raise ValueError(f"{self._given} where {entry} would follow")
            self._given = None
            return
        if self._descriptor is None:
            raise io.UnsupportedOperation(
                f"Expected a ledger that is open for writing, got {self.path}, which was only "
                "read, or is closed. Open it with reopen_ledger."
            )
        if self._must_resume and entry["kind"] in _OF_A_RUNNING_PROCESS:
            raise ValueError(
                "Expected resume(position, same_randomness=...) after reopen_ledger, got "
                f"{entry['kind']!r}. Say first which updates the weights have seen."
            )
        self._write(_line(len(self._sums) + 1, entry, self._sums[-1]))
        if entry["kind"] == "resume":
            self._must_resume = False

    def _write(self, line: bytes) -> None:
        try:
            if self._is_broken:
                raise OSError(errno.EIO, "an earlier failed write could not be undone")
            state = os.fstat(self._descriptor)
            if state.st_size != self._size or state.st_nlink == 0:
                raise OSError(errno.EIO, "another process has changed or removed the file")
        except OSError as error:
            raise self._failure(error) from error
        try:
            _write_all(self._descriptor, line)
        except BaseException as error:
            try:
                os.ftruncate(self._descriptor, self._size)
            except OSError:
                self._is_broken = True
            if isinstance(error, OSError):
                raise self._failure(error) from error
            raise
        self._took(line)

    def _took(self, line: bytes) -> None:
        self._size += len(line)
        self._sums.append(_LINE.fullmatch(line, 0, len(line) - 1)[2].decode())

    def _failure(self, error: OSError) -> OSError:
        return OSError(
            error.errno,
            f"Expected to write to the ledger, got: {error.strerror or error}. Nothing was "
            "recorded, and no update may be made until it can be. Mend the folder, or the file",
            self.path,
        )

    def _own(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._close = weakref.finalize(self, os.close, descriptor)

    def _read(self, lines: list[bytes]) -> None:
        """Takes the entries after the header, `lines` without line ends."""
        for line in lines:
            entry = _entry(self.path, len(self._sums) + 1, line, self._sums[-1])
            self._given = entry
            fields = dict(entry)
            call = _CALLS.get(str(fields.pop("kind", None)))
            if call is None:
                raise _corrupt(self.path, len(self._sums) + 1, "an unknown kind of entry")
            try:
                call(self, **fields)
            except (ValueError, TypeError, OverflowError, BudgetExhaustedError) as error:
                what = f"an entry that contradicts those before it ({error})"
                raise _corrupt(self.path, len(self._sums) + 1, what) from error
            if self._given is not None:
                raise _corrupt(self.path, len(self._sums) + 1, "an entry that changes nothing")
            self._took(line + b"\n")


def create_ledger(
    path: str | os.PathLike, plan: PrivacyPlan, details: Mapping[str, object] | None = None
) -> LedgerFile:
    """Starts the ledger file of a new run. It appears whole or not at all.

    Args:
      path: A file that does not exist, in a folder that does.
      plan: What the run is going to do.
      details: What else must not change when it is resumed; str, int, float, bool or None by name.

    Raises:
      ValueError: `plan` is no plan, or `details` has other values.
      FileExistsError: There is a file already.
      OSError: It cannot be written.
    """
    ledger = LedgerFile(os.fspath(path), plan, details)
    header = {
        "kind": "header",
        "format": _FORMAT,
        "version": _VERSION,
        "plan": _plan_fields(plan),
        "details": ledger.details,
    }
    line = _line(1, header, _NO_SUM)
    folder, name = os.path.split(os.path.abspath(ledger.path))
    partial = os.path.join(folder, f".{name}.{secrets.token_hex(4)}")
    try:
        _refuse_existing(ledger.path)
        ledger._own(os.open(partial, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o666))
        try:
            _lock(ledger._descriptor, ledger.path)
            _write_all(ledger._descriptor, line)
            _publish(partial, ledger.path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(partial)
        _flush_folder(folder)
    except FileExistsError:
        ledger.close()
        raise
    except OSError as error:
        ledger.close()
        raise OSError(
            error.errno,
            f"Expected to create a ledger, got: {error.strerror or error}. Name a file in a "
            "folder that can be written to",
            ledger.path,
        ) from error
    ledger._took(line)
    return ledger


def reopen_ledger(
    path: str | os.PathLike, plan: PrivacyPlan, details: Mapping[str, object] | None = None
) -> LedgerFile:
    """Opens a ledger file to go on with its run, and cuts off a torn last line.

    Unless no update was announced yet, `resume` has to come next. The file is locked against other
    processes, where the operating system can, until the ledger is closed or forgotten.

    Args:
      path: A file that `create_ledger` made.
      plan: The plan of the run, the same as then.
      details: The same as then.

    Raises:
      LedgerCorruptError: The file is not what was written.
      ValueError: The run is another one: the message lists what differs.
      BlockingIOError: Another process, or another ledger in this one, has the file open.
      OSError: It is absent, or cannot be written to.
    """
    path = os.fspath(path)
    given = PrivacyLedger(plan, details)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
    except OSError as error:
        raise _cannot_open(error, path) from error
    try:
        _lock(descriptor, path)
        ledger = read_ledger(path)
        _refuse_another_run(ledger, given)
        if ledger.torn:
            try:
                os.ftruncate(descriptor, ledger._size)
                os.fsync(descriptor)
            except OSError as error:
                raise ledger._failure(error) from error
    except BaseException:
        os.close(descriptor)
        raise
    ledger._own(descriptor)
    ledger._must_resume = ledger._highest > 0
    return ledger


def read_ledger(path: str | os.PathLike) -> LedgerFile:
    """Reads a ledger file, for reports; nothing can be recorded in the result.

    Raises:
      LedgerCorruptError: The file is not what was written.
      OSError: It cannot be read.
    """
    path = os.fspath(path)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise _cannot_open(error, path) from error
    *lines, rest = data.split(b"\n")
    if not lines:
        raise _corrupt(path, 1, "no whole header" if data else "an empty file")
    header = _entry(path, 1, lines[0], _NO_SUM)
    ledger = LedgerFile(path, *_plan_and_details(path, header))
    ledger._took(lines[0] + b"\n")
    ledger._read(lines[1:])
    ledger.torn = bool(rest)
    _check_torn(path, len(lines) + 1, rest)
    return ledger


def _line(number: int, entry: dict[str, object], before: str) -> bytes:
    text = json.dumps({"line": number, **entry}, separators=(",", ":"), allow_nan=False)[:-1]
    return f'{text},"sum":"{_checksum(before, text.encode())}"}}\n'.encode()


def _checksum(before: str, text: bytes) -> str:
    return hashlib.sha256(before.encode() + text).hexdigest()[:32]


def _entry(path: str, number: int, line: bytes, before: str) -> dict[str, object]:
    """The entry in a `line` without its end, after the line with checksum `before`."""
    parts = _LINE.fullmatch(line)
    if parts is None:
        try:
            line.decode()
        except UnicodeDecodeError:
            raise _corrupt(path, number, "bytes that are not UTF-8 text") from None
        raise _corrupt(path, number, "no entry of a ledger")
    if _checksum(before, parts[1]) != parts[2].decode():
        raise _corrupt(path, number, "a wrong checksum: it, or the line before it, is another one")
    try:
        entry = json.loads(line)
        if entry.pop("line") != number:
            raise ValueError
    except (ValueError, RecursionError):
        raise _corrupt(path, number, "another line number, or no JSON") from None
    del entry["sum"]
    return entry


def _plan_fields(plan: PrivacyPlan) -> dict[str, object]:
    fields = {field.name: getattr(plan, field.name) for field in dataclasses.fields(plan)}
    # JSON has no infinity.
    return {name: "inf" if value == math.inf else value for name, value in fields.items()}


def _plan_and_details(
    path: str, header: dict[str, object]
) -> tuple[PrivacyPlan, dict[str, object]]:
    if (header.get("kind"), header.get("format")) != ("header", _FORMAT):
        raise _corrupt(path, 1, "no header")
    if header.get("version") != _VERSION:
        raise LedgerCorruptError(
            f"Expected {path} to have version {_VERSION} of the format, got "
            f"{header.get('version')!r}. Read it with the release that wrote it."
        )
    try:
        fields = {n: math.inf if v == "inf" else v for n, v in header["plan"].items()}
        plan, details = PrivacyPlan(**fields), header["details"]
        PrivacyLedger(plan, details)
    except (KeyError, AttributeError, TypeError, ValueError, OverflowError) as error:
        raise _corrupt(path, 1, f"a header without a valid plan ({error})") from error
    return plan, details


def _check_torn(path: str, number: int, rest: bytes) -> None:
    """Refuses a `rest` without a line end that is not the beginning of the next line."""
    text = rest.rstrip(b"\0")
    begin = b'{"line":%d,"kind":"' % number
    is_text = all(32 <= byte < 127 for byte in text)
    begins = text.startswith(begin) or begin.startswith(text)
    whole = _LINE.match(text)
    if not is_text or not begins or (whole and whole.end() != len(text)):
        raise _corrupt(path, number, "bytes that are no beginning of a line")


def _refuse_existing(path: str) -> None:
    if os.path.lexists(path):
        raise FileExistsError(
            errno.EEXIST,
            "Expected no ledger there yet, got one. Go on with its run by reopen_ledger, or "
            "name another file for another run",
            path,
        )


def _refuse_another_run(ledger: PrivacyLedger, given: PrivacyLedger) -> None:
    absent = "nothing"
    differences = []
    for old, new in (
        (_plan_fields(ledger.plan), _plan_fields(given.plan)),
        (ledger.details, given.details),
    ):
        for name in dict.fromkeys((*old, *new)):
            before, now = (repr(d[name]) if name in d else absent for d in (old, new))
            if before != now:
                differences.append(f"{name} is {before} there and {now} here")
    if differences:
        raise ValueError(
            f"Expected the run of the ledger {ledger.path}, got another one: "
            f"{'; '.join(differences)}. Restore these settings to go on with it, or name another "
            "ledger; what this one has spent adds to what another run on the same data spends."
        )


def _publish(partial: str, path: str) -> None:
    """Gives a file its name, unless something has it."""
    try:
        os.link(partial, path)
    except FileExistsError:
        _refuse_existing(path)
        raise
    except OSError:  # A file system without hard links: reserve the name, then replace it.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        os.replace(partial, path)


def _lock(descriptor: int, path: str) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BlockingIOError(
            error.errno,
            "Expected a ledger that no process has open, got one in use: two runs must not "
            "write to it. End the other one, or close() its ledger",
            path,
        ) from error
    except OSError:
        pass  # Some network file systems have no locks.


def _write_all(descriptor: int, line: bytes) -> None:
    left = line
    while left:
        left = left[os.write(descriptor, left) :]
    _TO_DISK(descriptor)


def _flush_folder(folder: str) -> None:
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:  # Windows opens no folders, and a folder may be write-only.
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cannot_open(error: OSError, path: str) -> OSError:
    return OSError(
        error.errno,
        f"Expected a ledger, got: {error.strerror or error}. Name the file of a run; "
        "create_ledger starts one",
        path,
    )


def _corrupt(path: str, number: int, what: str) -> LedgerCorruptError:
    return LedgerCorruptError(
        f"Expected {path} to be a ledger as it was written, got {what} in line {number}. "
        "Bring back a copy of the file: what was spent cannot be known without it."
    )
