"""The file of a ledger: lines that are on the disk before the call that writes them returns.

One JSON object a line. The first is the header, each other one an entry. Every line has its number,
and ends with a checksum over its own text and the checksum of the line before (SHA-256, its first
128 bits). So a changed, removed, inserted or moved line is noticed. **It is a checksum, not a
signature.** It guards against accidents and careless edits: an attacker who rewrites the whole file
can make all checksums right. And the file alone does not show that lines are missing *at its end*.
Against that, note `tail` elsewhere, as checkpoints do, and call `check_reaches`.

A process that dies while it writes leaves its last line torn: without an end, or followed by zero
bytes after a power loss. What that line announces has then not happened. So it is not counted, and
is cut off when the file is opened for writing.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import weakref

from tfdpnorm import files
from tfdpnorm.errors import PrivacyError

NO_CHECKSUM = "0" * 32  # What the first line takes for the checksum of the line before.

_OF_A_RUN = "Pass the file of a run, the ledger.jsonl in its run_dir"
_LINE = re.compile(rb'(\{"line":[0-9]+,[^\n]*),"sum":"([0-9a-f]{32})"\}')


class LedgerCorruptError(PrivacyError):
    """A ledger file is not what was written."""


class Journal:
    """The file of a ledger; made by `create_journal` and `read_journal`.

    A call that cannot write raises OSError and records nothing; the line is cut off again, and
    later calls may succeed.

    Attributes:
        path: The file, a string.
        torn: Whether the file ended in a torn line when it was read.
    """

    def __init__(self, path):
        self.path = os.fspath(path)
        self.torn = False
        self._checksums = []  # Of each line, the header's first.
        self._size = 0
        self._digest = None  # of the whole file, when it was read
        self._whole_lines = hashlib.sha256()
        self._descriptor = None
        self._close = lambda: None
        self._is_broken = False

    @property
    def tail(self):
        """The number of lines and the checksum of the last one, a tuple; see `check_reaches`."""
        return len(self._checksums), self._checksums[-1]

    @property
    def sha256(self):
        """The SHA-256 of the lines, 64 hexadecimal digits: `head -n LINES FILE | sha256sum`."""
        return self._whole_lines.hexdigest()

    def check_reaches(self, tail):
        """Makes sure that the file continues from where it once had the `tail` given, a pair.

        Raises:
            ValueError: if `tail` is no such pair.
            LedgerCorruptError: if lines are missing at its end, or it is another ledger.
        """
        try:
            lines, checksum = tail
            known = self._checksums[lines - 1] if 0 < lines <= len(self._checksums) else None
        except (TypeError, ValueError):
            raise ValueError(
                f"Expected tail to be (lines, checksum), got {tail!r}. Pass the value of the "
                "property tail."
            ) from None
        if known != checksum:
            found = "another checksum there"
            if known is None:
                found = f"only {len(self._checksums)} lines"
            raise LedgerCorruptError(
                f"Expected {self.path} to have line {lines} with checksum {checksum}, got "
                f"{found}. The file was truncated, or belongs to another run. Restore the newest "
                "copy."
            )

    def append(self, fields):
        """Writes an entry, a dict that JSON can hold; it is on the disk when the call returns.

        Raises:
            io.UnsupportedOperation: if the file was only read, or is closed.
            OSError: if it cannot be written. Then nothing is recorded.
        """
        if self._descriptor is None:
            raise io.UnsupportedOperation(
                f"The ledger {self.path} is not open for writing: it was only read, or is closed. "
                "Open it with reopen_ledger."
            )
        lines, checksum = self.tail
        line = encode_line(lines + 1, fields, checksum)
        self._check_unchanged()
        try:
            files.write_all(self._descriptor, line)
        except BaseException as error:
            try:
                os.ftruncate(self._descriptor, self._size)
            except OSError:
                self._is_broken = True
            if isinstance(error, OSError):
                raise self._failure(error) from error
            raise
        self._took(line)

    def open(self):
        """Opens for writing what was read, locks it, and cuts off a torn last line.

        Raises:
            BlockingIOError: if another process, or another ledger in this one, has the file open.
            OSError: if it cannot be written to.
        """
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise _cannot("open", error, _OF_A_RUN, self.path) from error
        try:
            _lock(descriptor, self.path)
            with open(descriptor, "rb", closefd=False) as file:
                if hashlib.sha256(file.read()).digest() != self._digest:  # since it was read
                    raise _in_use(self.path, errno.EAGAIN)
            if self.torn:
                os.ftruncate(descriptor, self._size)
                os.fsync(descriptor)
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, OSError) and not isinstance(error, BlockingIOError):
                raise self._failure(error) from error
            raise
        self._own(descriptor)

    def close(self):
        """Closes the file, so that other processes may open it; nothing can be recorded then."""
        self._descriptor = None
        self._close()

    def _check_unchanged(self):
        try:
            if self._is_broken:
                raise OSError(errno.EIO, "an earlier failed write could not be undone")
            status = os.fstat(self._descriptor)
            if status.st_size != self._size or status.st_nlink == 0:
                raise OSError(errno.EIO, "another process has changed or removed the file")
        except OSError as error:
            raise self._failure(error) from error

    def _took(self, line):
        """Notes that `line`, bytes with its end, is in the file."""
        self._size += len(line)
        self._whole_lines.update(line)
        self._checksums.append(_LINE.match(line)[2].decode())

    def _own(self, descriptor):
        self._descriptor = descriptor
        self._close = weakref.finalize(self, os.close, descriptor)

    def _failure(self, error):
        remedy = (
            "Nothing was recorded, and no update can be made until writing works. Repair the "
            "folder, or the file"
        )
        return _cannot("write to", error, remedy, self.path)


def create_journal(path, header):
    """Starts a file, which appears whole or not at all; returns its `Journal`, open for writing.

    `path` is a file that does not exist, in a folder that does; `header` a dict that JSON can hold.

    Raises:
        FileExistsError: if there is a file already.
        OSError: if it cannot be written.
    """
    journal = Journal(path)
    line = encode_line(1, header, NO_CHECKSUM)
    place = os.path.abspath(journal.path)
    try:
        _check_absent(journal.path)
        with files.scratch_file(place) as partial:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL
            journal._own(os.open(partial, flags, 0o666))
            _lock(journal._descriptor, journal.path)
            files.write_all(journal._descriptor, line)
            files.publish(partial, place)
        files.flush(os.path.dirname(place))
    except FileExistsError:
        journal.close()
        _check_absent(journal.path)  # Another process was faster.
        raise
    except OSError as error:
        journal.close()
        raise _cannot("create", error, "Name a file in a writable folder", path) from error
    journal._took(line)
    return journal


def read_journal(path):
    """Reads a file that `create_journal` made.

    Returns a `Journal`, to which nothing can be written before `open`, and its lines, dicts.

    Raises:
        LedgerCorruptError: if the file is not what was written.
        OSError: if it cannot be read.
    """
    journal = Journal(path)
    try:
        with open(journal.path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise _cannot("open", error, _OF_A_RUN, journal.path) from error
    *lines, rest = data.split(b"\n")
    if not lines:
        raise corrupt(path, 1, "no whole header" if data else "an empty file")
    decoded, before = [], NO_CHECKSUM
    for number, line in enumerate(lines, 1):
        decoded.append(_decode_line(path, number, line, before))
        journal._took(line + b"\n")
        before = journal._checksums[-1]
    # Rejects bytes after the last line that are not the beginning of the following one.
    following = len(lines) + 1
    text = rest.rstrip(b"\0")
    begin = b'{"line":%d,"kind":"' % following
    is_text = all(32 <= byte < 127 for byte in text)
    begins = text.startswith(begin) or begin.startswith(text)
    whole = _LINE.match(text)
    if not is_text or not begins or (whole and whole.end() != len(text)):
        raise corrupt(path, following, "bytes that do not begin a line")
    journal.torn, journal._digest = bool(rest), hashlib.sha256(data).digest()
    return journal, decoded


def corrupt(path, number, found):
    """Returns the error for a file `path` that has `found` in line `number`."""
    return LedgerCorruptError(
        f"Expected {path} to be a ledger as it was written, got {found} in line {number}. Restore "
        "a copy of the file: without it the budget spent is unknown."
    )


def encode_line(number, fields, before):
    """Returns line `number`, from 1, as bytes with its end; `before` is the checksum before it."""
    text = json.dumps({"line": number, **fields}, separators=(",", ":"), allow_nan=False)[:-1]
    return f'{text},"sum":"{checksum(before, text.encode())}"}}\n'.encode()


def checksum(before, text):
    """Returns the checksum of a line, 32 characters, from that `before` it and its own bytes."""
    return hashlib.sha256(before.encode() + text).hexdigest()[:32]


def _decode_line(path, number, line, before):
    parts = _LINE.fullmatch(line)
    if parts is None:
        try:
            line.decode()
        except UnicodeDecodeError:
            raise corrupt(path, number, "bytes that are not UTF-8 text") from None
        raise corrupt(path, number, "a line that is not an entry of a ledger")
    if checksum(before, parts[1]) != parts[2].decode():
        raise corrupt(path, number, "a wrong checksum: it, or the line before it, was changed")
    try:
        fields = json.loads(line)
        if fields.pop("line") != number:
            raise ValueError
    except (ValueError, RecursionError):
        raise corrupt(path, number, "another line number, or no JSON") from None
    del fields["sum"]
    return fields


def _check_absent(path):
    if os.path.lexists(path):
        raise FileExistsError(
            errno.EEXIST,
            "The ledger exists already. Continue its run with reopen_ledger, or name another file "
            "for another run or release, and pass this one as after=... to count both",
            path,
        )


def _lock(descriptor, path):
    try:
        files.lock(descriptor)
    except BlockingIOError as error:
        raise _in_use(path, error.errno) from error


def _in_use(path, number):
    return BlockingIOError(
        number,
        "The ledger is in use already: two runs must not write to it. End the other run, or, in "
        "this process, call ledger.close() of what holds it: private.ledger.close()",
        path,
    )


def _cannot(verb, error, remedy, path):
    problem = f"Cannot {verb} the ledger: {error.strerror or error}"
    return OSError(error.errno, f"{problem}. {remedy}", os.fspath(path))
