"""Folders, files that are written whole or not at all, and locks.

A writer that is killed leaves what was there before, or all of what it wrote, and perhaps a hidden
file beside it. (Only `publish`, on a file system without hard links, may leave an empty file.) What
must also survive a power loss is written with `durable`.
"""

import contextlib
import os
import pathlib
import secrets

try:
    import fcntl
except ImportError:  # Windows has no such locks.
    fcntl = None

_TO_DISK = getattr(os, "fdatasync", os.fsync)


def reason(error):
    """Returns why an operation failed, in a line: the operating system's words if it has any."""
    lines = str(error).splitlines()
    return getattr(error, "strerror", None) or (lines[0] if lines else type(error).__name__)


def make_folder(path, name):
    """Makes a folder, if absent, and tries to write to it, so that a run fails before it trains.

    Returns its `pathlib.Path`. Raises OSError, which calls it `name`, if it cannot be made or
    written to.
    """
    path = pathlib.Path(path)
    probe = path / f".writable-{secrets.token_hex(4)}"
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe.touch(exist_ok=False)
        probe.unlink()
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name.
        is_file = os.path.exists(path) and not os.path.isdir(path)
        why = "it is not a folder" if is_file else reason(error)
        raise OSError(
            f"Expected {name} to be a folder that can be written to, got {path}: {why}. Name "
            "another one."
        ) from error
    return path


def write_whole(path, data, *, durable=False):
    """Writes text or bytes to a file, in place of one that was there, whole or not at all.

    Returns its `pathlib.Path`. With `durable`, it is on the disk then. Raises OSError if it cannot
    be written. Then nothing has changed, unless the last step failed, to flush the folder.
    """
    path = pathlib.Path(path)
    with scratch_file(path) as partial:
        _write(partial, data, durable)
        os.replace(partial, path)
    if durable:
        flush(path.parent)
    return path


def write_new(path, data, *, durable=False):
    """Writes a file as `write_whole` does, but raises FileExistsError if something has the name."""
    path = pathlib.Path(path)
    with scratch_file(path) as partial:
        _write(partial, data, durable)
        publish(partial, path)
    if durable:
        flush(path.parent)
    return path


@contextlib.contextmanager
def scratch_file(path):
    """Context of a path next to `path`, to write to and rename; a file left there is removed."""
    path = pathlib.Path(path)
    # Hidden, and with the ending of the file: some writers choose the format by it.
    partial = path.with_name(f".{secrets.token_hex(4)}.{path.name}")
    try:
        yield partial
    finally:
        # Should that fail, it must not hide an error of the caller's.
        with contextlib.suppress(OSError):
            partial.unlink()


def publish(partial, path):
    """Gives the file `partial` the name `path`; raises FileExistsError if something has that name.

    Without hard links, a process that is killed between two steps leaves an empty file there.
    """
    try:
        os.link(partial, path)
    except FileExistsError:
        raise
    except OSError:  # A file system without hard links: reserve the name, then replace it.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        try:
            os.replace(partial, path)
        except OSError:
            os.unlink(path)
            raise


def write_all(descriptor, data):
    """Writes bytes to an open file; they are on the disk when the call returns."""
    _write_bytes(descriptor, data)
    _TO_DISK(descriptor)


def flush(path):
    """Makes the operating system write a file, or the names in a folder, to the disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:  # Windows opens no folders, and a folder may be write-only.
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(descriptor, *, wait=False):
    """Locks an open file or folder against other processes, until it is closed.

    Returns whether it is locked: where the operating system or the file system has no such locks,
    it is not. Raises BlockingIOError if another process has it locked, and `wait` is False.
    """
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError:
        return False  # Some network file systems have none.
    return True


@contextlib.contextmanager
def locked_folder(folder, echo):
    """Context in which a folder is locked; waits for others, and if it has to, `echo`es a line.

    Where there are no such locks, it continues without one.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            lock(descriptor)
        except BlockingIOError:
            echo(f"  another process is working in {folder}: waiting for it")
            lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


def _write(partial, data, durable):
    # The view rejects values that are neither text nor bytes, such as None.
    data = data.encode() if isinstance(data, str) else bytes(memoryview(data))
    # With the mode that the umask leaves, as an ordinary file.
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        _write_bytes(descriptor, data)
        if durable:
            _TO_DISK(descriptor)
    finally:
        os.close(descriptor)


def _write_bytes(descriptor, data):
    while data:
        data = data[os.write(descriptor, data) :]
