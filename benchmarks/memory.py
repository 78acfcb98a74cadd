"""Memory of this process, on Linux."""

import ctypes
import pathlib

_PROC = pathlib.Path("/proc")


def is_measurable():
    """Whether this system reports the peak memory of a process and can reset it."""
    return (_PROC / "self/clear_refs").exists()


def resident_megabytes(pid="self"):
    """Megabytes of memory that a process holds now, or None if it or /proc is not there."""
    return _status(pid, "VmRSS")


def peak_megabytes():
    """Megabytes of this process's peak since `start_peak_anew`, or None."""
    return _status("self", "VmHWM")


def start_peak_anew():
    """Returns free memory to the system, and forgets the peak so far."""
    # What the allocator keeps for later use is neither live before a step nor needed by it.
    ctypes.CDLL(None).malloc_trim(0)
    (_PROC / "self/clear_refs").write_text("5")


def _status(pid, name):
    try:
        status = (_PROC / str(pid) / "status").read_text()
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    return None
