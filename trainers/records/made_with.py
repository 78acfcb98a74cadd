"""Origin of a result: device, settings, versions of packages, commit of the source."""

import os
import pathlib
import subprocess
import sys

import tfdpnorm
from tfdpnorm._version import __version__
from tfdpnorm.privacy.software import package_versions


def made_with(settings):
    """Returns the fields of a record that say what a result was made with.

    Args:
        settings: Dict; records have it as "flags".
    """
    return {
        "device": device(),
        "flags": settings,
        "versions": {"tfdpnorm": __version__, **package_versions()},
        "commit": source_commit(),
    }


def device():
    """Returns what this process computes on, such as "CPU, 2 cores" or "NVIDIA L4, 8 cores"."""
    allowed = getattr(os, "sched_getaffinity", None)  # not on every system
    cores = len(allowed(0)) if allowed else os.cpu_count()
    return f"{_processor()}, {cores} core{'' if cores == 1 else 's'}"


def _processor():
    # Accounting alone is made without TensorFlow, which takes seconds to load.
    if "tensorflow" not in sys.modules:
        return "CPU"
    from tfdpnorm.keras_compat.devices_and_precision import gpu_name

    return gpu_name() or "CPU"


def source_commit():
    """Returns the commit of the code, "+changes" if it is not clean; None outside of git."""
    trainers = pathlib.Path(__file__).parents[1]
    code = [str(trainers), str(pathlib.Path(tfdpnorm.__file__).parent)]

    def git(*arguments):
        return subprocess.run(
            ["git", "-C", str(trainers), *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        commit = git("rev-parse", "--short=12", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no", "--", *code)
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+changes" if changed else "")
