"""The ledger as a file, from which alone epsilon follows.

Every entry is on the disk before the call that records it returns. The lines are those of
`tfdpnorm.privacy.ledger_format`. The file alone does not show that lines are missing *at its end*.
Against that, note `tail` elsewhere, as checkpoints do, and have `check_reaches` look.

A process that dies while it writes leaves its last line torn: without an end, or followed by zero
bytes after a power loss. What that line announces has then not happened. So it is not counted, and
is cut off when the file is reopened.
"""

import errno
import io
import os
import weakref

from tfdpnorm import files
from tfdpnorm.privacy import ledger_format
from tfdpnorm.privacy.ledger import BudgetExhaustedError, PrivacyLedger
from tfdpnorm.privacy.ledger_format import LedgerCorruptError

ENTRIES = {
    "updates": PrivacyLedger.record_updates,
    "resume": PrivacyLedger.resume,
    "query": PrivacyLedger.record_query,
    "answer": PrivacyLedger.record_answer,
    "void": PrivacyLedger.void,
    "exclude": PrivacyLedger.exclude,
    "establish": PrivacyLedger.establish,
    "foreign": PrivacyLedger.declare_foreign,
    "hold": PrivacyLedger.hold_to_plan,
    "finish": PrivacyLedger.finish,
    "search": PrivacyLedger.record_search,
    "trial": PrivacyLedger.record_trial,
}
"""The call that records each kind of entry. Reading a file makes the calls again."""

_OF_A_RUNNING_PROCESS = ("updates", "query", "answer")


class LedgerFile(PrivacyLedger):
    """A `PrivacyLedger` with a file; made by `create_ledger`, `reopen_ledger` and `read_ledger`.

    A call that cannot write raises OSError and records nothing; the line is cut off again, and
    later calls may succeed.

    Attributes:
        path: The file, a string.
        torn: Whether the file ended in a torn line when it was opened.
    """

    def __init__(self, path, plan, settings):
        super().__init__(plan, settings)
        self.path = path
        self.torn = False
        self._checksums = []  # Of each line, the header's first.
        self._size = 0
        self._descriptor = None
        self._close = lambda: None
        self._given = None  # The entry that is being read.
        self._must_resume = False
        self._is_broken = False

    @property
    def tail(self):
        """The number of lines and the checksum of the last one, a tuple; see `check_reaches`."""
        return len(self._checksums), self._checksums[-1]

    def check_reaches(self, tail):
        """Makes sure that the file goes on from where it once had the `tail` given, a pair.

        Raises:
            ValueError: if `tail` is no such pair.
            LedgerCorruptError: if lines are missing at its end, or it is another ledger.
        """
        try:
            lines, checksum = tail
            known = self._checksums[lines - 1] if 0 < lines <= len(self._checksums) else None
        except (TypeError, ValueError):
            raise ValueError(
                f"Expected tail to be (lines, checksum), got {tail!r}. Pass what the property "
                "tail gave."
            ) from None
        if known != checksum:
            what = "another checksum there"
            if known is None:
                what = f"only {len(self._checksums)} lines"
            raise LedgerCorruptError(
                f"Expected {self.path} to have line {lines} with checksum {checksum}, got "
                f"{what}. It was cut short or is another run's: bring back the newest copy."
            )

    def close(self):
        """Closes the file, so that other processes may open it; nothing can be recorded then."""
        self._descriptor = None
        self._close()

    def _append(self, entry):
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
                "Expected resume(position) after reopen_ledger, got "
                f"{entry['kind']!r}. Say first which updates the weights have seen."
            )
        lines, checksum = self.tail
        self._write(ledger_format.encode_line(lines + 1, entry, checksum))
        if entry["kind"] == "resume":
            self._must_resume = False

    def _write(self, line):
        try:
            if self._is_broken:
                raise OSError(errno.EIO, "an earlier failed write could not be undone")
            state = os.fstat(self._descriptor)
            if state.st_size != self._size or state.st_nlink == 0:
                raise OSError(errno.EIO, "another process has changed or removed the file")
        except OSError as error:
            raise self._failure(error) from error
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

    def _took(self, line):
        """Notes that `line`, bytes with its end, is in the file."""
        self._size += len(line)
        self._checksums.append(ledger_format.checksum_in(line))

    def _failure(self, error):
        return OSError(
            error.errno,
            f"Expected to write to the ledger, got: {error.strerror or error}. Nothing was "
            "recorded, and no update may be made until it can be. Repair the folder, or the file",
            self.path,
        )

    def _own(self, descriptor):
        self._descriptor = descriptor
        self._close = weakref.finalize(self, os.close, descriptor)

    def _read(self, lines):
        """Records the entries in `lines`, those after the header, bytes without line ends."""
        for line in lines:
            number = len(self._checksums) + 1
            entry = ledger_format.decode_line(self.path, number, line, self._checksums[-1])
            self._given = entry
            fields = dict(entry)
            call = ENTRIES.get(str(fields.pop("kind", None)))
            if call is None:
                raise ledger_format.corrupt(self.path, number, "an unknown kind of entry")
            try:
                call(self, **fields)
            except (ValueError, TypeError, OverflowError, BudgetExhaustedError) as error:
                what = f"an entry that contradicts those before it ({error})"
                raise ledger_format.corrupt(self.path, number, what) from error
            if self._given is not None:
                raise ledger_format.corrupt(self.path, number, "an entry that changes nothing")
            self._took(line + b"\n")


def create_ledger(path, plan, settings=None):
    """Starts the ledger file of a new run. It appears whole or not at all.

    Args:
        path: A file that does not exist, in a folder that does.
        plan: The `PrivacyPlan` of the run.
        settings: What else must not change when it is resumed: a dict of str, int, float, bool or
            None by name.

    Returns:
        A `LedgerFile`, open for writing.

    Raises:
        ValueError: if `plan` is no plan, or `settings` has other values.
        FileExistsError: if there is a file already.
        OSError: if it cannot be written.
    """
    ledger = LedgerFile(os.fspath(path), plan, settings)
    header = ledger_format.encode_header(plan, ledger.settings)
    line = ledger_format.encode_line(1, header, ledger_format.NO_CHECKSUM)
    place = os.path.abspath(ledger.path)
    try:
        _refuse_existing(ledger.path)
        with files.scratch_file(place) as partial:
            ledger._own(os.open(partial, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o666))
            _lock(ledger._descriptor, ledger.path)
            files.write_all(ledger._descriptor, line)
            files.publish(partial, place)
        files.flush(os.path.dirname(place))
    except FileExistsError:
        ledger.close()
        _refuse_existing(ledger.path)  # Another process was faster.
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


def reopen_ledger(path, plan, settings=None):
    """Opens a ledger file to go on with its run, and cuts off a torn last line.

    Unless no update was announced yet, `resume` has to come next. The file is locked against other
    processes, where the operating system can, until the ledger is closed or forgotten.

    Args:
        path: A file that `create_ledger` made.
        plan: The `PrivacyPlan` of the run, the same as then.
        settings: The same as then.

    Returns:
        A `LedgerFile`, open for writing.

    Raises:
        LedgerCorruptError: if the file is not what was written.
        ValueError: if the run is another one: the message lists what differs.
        BlockingIOError: if another process, or another ledger in this one, has the file open.
        OSError: if it is absent, or cannot be written to.
    """
    path = os.fspath(path)
    given = PrivacyLedger(plan, settings)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
    except OSError as error:
        raise _cannot_open(error, path) from error
    try:
        _lock(descriptor, path)
        ledger = read_ledger(path)
        check_same_run(ledger, given.plan, given.settings)
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
    ledger._must_resume = ledger.updates > 0
    return ledger


def read_ledger(path):
    """Reads a ledger file, for reports; nothing can be recorded in the result.

    Args:
        path: A file that `create_ledger` made.

    Returns:
        A `LedgerFile`.

    Raises:
        LedgerCorruptError: if the file is not what was written.
        OSError: if it cannot be read.
    """
    path = os.fspath(path)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise _cannot_open(error, path) from error
    lines, rest = ledger_format.split_lines(path, data)
    header = ledger_format.decode_line(path, 1, lines[0], ledger_format.NO_CHECKSUM)
    ledger = LedgerFile(path, *ledger_format.decode_header(path, header))
    ledger._took(lines[0] + b"\n")
    ledger._read(lines[1:])
    ledger.torn = bool(rest)
    ledger_format.check_torn(path, len(lines) + 1, rest)
    return ledger


def _refuse_existing(path):
    if os.path.lexists(path):
        raise FileExistsError(
            errno.EEXIST,
            "Expected no ledger there yet, got one. Go on with its run by reopen_ledger, or "
            "name another file for another run",
            path,
        )


def check_same_run(ledger, plan, settings):
    """Checks that a ledger is that of the run with this `PrivacyPlan` and these settings.

    Raises:
        ValueError: listing what differs.
    """
    absent = "nothing"
    differences = []
    for old, new in (
        (ledger_format.plan_fields(ledger.plan), ledger_format.plan_fields(plan)),
        (ledger.settings, settings),
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


def _lock(descriptor, path):
    try:
        files.lock(descriptor)
    except BlockingIOError as error:
        raise BlockingIOError(
            error.errno,
            "Expected a ledger that no process has open, got one in use: two runs must not "
            "write to it. End the other one, or close() its ledger",
            path,
        ) from error


def _cannot_open(error, path):
    return OSError(
        error.errno,
        f"Expected a ledger, got: {error.strerror or error}. Name the file of a run; "
        "create_ledger starts one",
        path,
    )
