"""Origin of a result: device, settings, versions of packages, commit of the source."""

import os
import pathlib
import shlex
import subprocess
import sys

import tfdpnorm
from tfdpnorm._version import __version__
from tfdpnorm.privacy.software import package_versions

# Flags that name places of a machine, or how many runs it trains at once.
_OF_A_MACHINE = {"data_dir", "output_dir", "runs_dir", "run_dir", "models_dir", "cache_dir"}
_OF_A_MACHINE |= {"resume", "save_model", "checkpoint_every", "workers"}
_OF_MANY_RUNS = {"cells", "seed", "seeds"}  # of a sweep


def made_with(settings, run=None):
    """Returns the fields of a record that say what a result was made with.

    Args:
        settings: Dict; records have it as "flags".
        run: Spec of one of the runs of a sweep; None for what is none.
    """
    return {
        "device": device(),
        "command": command(sys.argv, run),
        "flags": settings,
        "versions": {"tfdpnorm": __version__, **package_versions()},
        "commit": source_commit(),
    }


def command(argv, run=None):
    """Returns the line that makes a result again, without places of this machine.

    None if `argv` is no program's of the trainers. The line of a sweep trains this `run` alone.
    Worker processes have the arguments of their sweep.
    """
    program = pathlib.Path(argv[0] if argv else "")
    if program.resolve().parent != pathlib.Path(__file__).resolve().parents[1]:
        return None
    of_sweep = program.stem == "sweep" and run is not None
    left_out = _OF_A_MACHINE | (_OF_MANY_RUNS if of_sweep else set())
    kept, is_kept = [], True
    for argument in argv[1:]:
        if argument.startswith("-"):  # else it is the value of the flag before
            is_kept = argument.lstrip("-").split("=")[0] not in left_out
        kept += [argument] if is_kept else []
    kept += [f"--cells={run.cell}", f"--seed={run.seed}"] if of_sweep else []
    return shlex.join(["python", "-m", f"trainers.{program.stem}", *kept])


def device():
    """Returns what this process computes on, such as "CPU, 2 cores" or "NVIDIA L4, 8 cores"."""
    allowed = getattr(os, "sched_getaffinity", None)  # not on every system
    cores = len(allowed(0)) if allowed else os.cpu_count()
    gpu = None
    if "tensorflow" in sys.modules:  # accounting alone is made without, which takes seconds to load
        from tfdpnorm.keras_compat.devices_and_precision import gpu_name

        gpu = gpu_name()
    return f"{gpu or 'CPU'}, {cores} core{'' if cores == 1 else 's'}"


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
