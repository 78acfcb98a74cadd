"""Memory of this process, and what the machine has left, on Linux."""

import ctypes
import pathlib

_PROC, _CGROUPS = pathlib.Path("/proc"), pathlib.Path("/sys/fs/cgroup")
_MEGABYTE = 2**20


def is_measurable():
    """Whether this system reports the peak memory of a process and can reset it."""
    return (_PROC / "self/clear_refs").exists()


def resident_megabytes(pid="self"):
    """Megabytes of memory that a process holds now, or None if it or /proc is not there."""
    return _listed(_PROC / str(pid) / "status", "VmRSS")


def peak_megabytes():
    """Megabytes of this process's peak since `start_peak_anew`, or None."""
    return _listed(_PROC / "self/status", "VmHWM")


def start_peak_anew():
    """Returns free memory to the system, and forgets the peak so far."""
    # What the allocator keeps for later use is neither live before a step nor needed by it.
    ctypes.CDLL(None).malloc_trim(0)
    (_PROC / "self/clear_refs").write_text("5")


def available_megabytes():
    """Megabytes that this process may still take, or None where Linux does not say.

    What the machine has free or can free, and no more than the control groups of the process (of a
    container, or of a job) leave it.
    """
    free = _listed(_PROC / "meminfo", "MemAvailable")
    return None if free is None else min([free, *_left_by_cgroups()])


def _left_by_cgroups():
    """Yields megabytes that each group with a limit leaves, of this process's and those above."""
    for line in _text(_PROC / "self/cgroup").splitlines():
        _, kind, path = line.split(":", 2)
        if kind not in ("", "memory"):
            continue
        # Two versions: their folders, and the names of the limit, the use, and caches within it.
        root = _CGROUPS / kind
        names = ("memory.max", "memory.current", "inactive_file")
        if kind:
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        group = root / path.lstrip("/")
        for folder in (group, *(p for p in group.parents if p == root or root in p.parents)):
            limit, used = (_text(folder / name).strip() for name in names[:2])
            if limit.isdecimal() and used.isdecimal():
                caches = dict(map(str.split, _text(folder / "memory.stat").splitlines()))
                yield (int(limit) - int(used) + int(caches.get(names[2], 0))) / _MEGABYTE


def _listed(path, name):
    """Megabytes that a line "name: number kB" of a file has, or None."""
    for line in _text(path).splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    return None


def _text(path):
    """The content of a file; "" if it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""
