"""One run of a sweep, trained by the process that got it, and how it ended."""

import contextlib
import pathlib
import shutil
import time
import traceback
from collections.abc import Callable
from typing import NamedTuple

from tfdpnorm import files
from trainers.records.store import read_records
from trainers.runs.settings import differences
from trainers.sweeps.runs import is_done, run_folder, run_name


class Job(NamedTuple):
    """Shared settings of the runs of a sweep.

    `run_cell` is a function (spec, data_dir=, output_dir=, echo=, run_dir=, resume=), importable by
    name, that trains a cell, writes its record and returns a result with a `record`. It rejects a
    `run_dir` that holds another run. With a `models_dir` it takes model_file= as well.
    """

    run_cell: Callable
    data_dir: str | None
    output_dir: str
    runs_dir: str
    models_dir: str | None = None


class Outcome(NamedTuple):
    """How a run ended: "done", "done elsewhere", "locked", "died" or "failed".

    It has the record of one that is done here, or the reason why it is not done, in a line.
    """

    kind: str
    record: dict | None = None
    reason: str | None = None


def train(spec, job):
    """Trains one run in this process, unless it is done, or another process trains it.

    Returns an `Outcome`; whatever the run raises is one.
    """
    folder = run_folder(job.runs_dir, spec)
    log_path = folder.with_name(f"{folder.name}.log")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Never removed: who locks a removed file and who locks its successor both go ahead.
        with open(folder.with_name(f"{folder.name}.lock"), "a") as lock:
            try:
                is_locked = files.lock(lock.fileno())
            except BlockingIOError:
                return Outcome("locked", reason="another process is training it")
            if not is_locked:  # two processes could train the run, and spend its privacy twice
                raise OSError(
                    f"Expected runs_dir on a file system with locks, got {job.runs_dir}: it has "
                    "none. Name another one."
                )
            # Only now, for another process may have finished it just before.
            if is_done(spec, read_records(job.output_dir, spec.experiment)):
                return Outcome("done elsewhere")
            with (
                open(log_path, "a", buffering=1) as log,
                contextlib.redirect_stdout(log),
                contextlib.redirect_stderr(log),
            ):
                print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {run_name(spec)}")
                try:
                    return _train_locked(spec, job, folder)
                except (Exception, SystemExit):
                    traceback.print_exc()
                    raise
    except (Exception, SystemExit) as error:
        return Outcome("failed", reason=f"{_line(error)} See {log_path}.")


def _train_locked(spec, job, folder):
    kept = {}
    if job.models_dir is not None:
        kept["model_file"] = str(
            pathlib.Path(job.models_dir) / f"{spec.experiment}-{folder.name}.keras"
        )
    record = job.run_cell(
        spec,
        data_dir=job.data_dir,
        output_dir=job.output_dir,
        echo=print,
        run_dir=folder,
        resume=True,
        **kept,
    ).record
    # Without it the next sweep would train the run again, and this one is about to forget it.
    if not is_done(spec, read_records(job.output_dir, spec.experiment)):
        raise RuntimeError(
            f"There is no record of {run_name(spec)} with its settings in {job.output_dir}; "
            f"differences: {', '.join(differences(spec, record['flags'])) or 'none'}."
        )
    shutil.rmtree(folder, ignore_errors=True)  # it may have removed it itself
    return Outcome("done", record)


def _line(error):
    lines = str(error).strip().splitlines() or [""]
    # What a traced function raises begins with its call stack.
    text = lines[-1].strip() if lines[0].startswith("in user code") else lines[0]
    if isinstance(error, (ValueError, OSError)):
        return text
    return f"{type(error).__name__}: {text}"
