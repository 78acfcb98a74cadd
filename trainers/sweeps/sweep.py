"""Trains those runs of a table whose records are missing; a stopped sweep can be resumed.

A run is a cell of an experiment with a seed, hence a spec. It is done once the output folder holds
a record of it with the spec's settings. Until then it has, below `runs_dir/<experiment>/`:

- `<run>/`, the folder from which it is resumed, removed after the record is written;
- `<run>.lock`, locked by the process that trains it;
- `<run>.log`, what the run showed, and the traceback of a failure.

Locks are those of `tfdpnorm.files`; where there are none no run begins.
"""

import contextlib
import signal
import threading

from tfdpnorm import arguments, files
from tfdpnorm.privacy.rounding import ceil_text
from trainers.records.store import read_records
from trainers.sweeps.pool import ProcessPool, Workers
from trainers.sweeps.runs import duration, is_done, listing, run_name, select, time_left
from trainers.sweeps.worker import Job


def _show(text):
    print(text, flush=True)  # at once, also into a file


def sweep(
    specs,
    *,
    run_cell,
    seeds=1,
    first_seed=0,
    patterns=(),
    workers=1,
    data_dir=None,
    output_dir="results",
    runs_dir="outputs/runs",
    models_dir=None,
    kept_dir=None,
    dry_run=False,
    when_done=None,
    show=_show,
    make_pool=ProcessPool,
):
    """Trains those runs of an experiment that have no record yet, and says how it goes.

    Args:
        specs: The cells of a table, which may be trained for several experiments.
        patterns: Which cells, see `select`.
        workers: How many runs are trained at once, each as in `Job`.
        kept_dir: Folder of further records, by which times are judged where those of `output_dir`
            do not tell; None for none.
        when_done: A line that is shown when no run is left.

    Returns:
        Exit code: 0; 1 if a run failed; 130 or 143 if stopped by Ctrl-C or SIGTERM.
    """
    runs = select(specs, seeds, patterns, first_seed)
    arguments.whole("workers", workers, at_least=1)
    # A table may be made of another one's runs, which are not trained twice.
    experiments = dict.fromkeys(spec.experiment for spec in runs)
    records, kept = (
        [r for name in experiments for r in (read_records(folder, name) if folder else ())]
        for folder in (output_dir, kept_dir)
    )
    show(listing(runs, records, workers, kept))
    if dry_run:
        show("Nothing was trained.")
        return 0
    files.make_folder(output_dir, "output_dir")
    files.make_folder(runs_dir, "runs_dir")
    if models_dir is not None:
        files.make_folder(models_dir, "models_dir")
    workers_at_work = Workers(Job(run_cell, data_dir, output_dir, runs_dir, models_dir), make_pool)
    state = _Sweep(runs, records, kept, workers_at_work, workers, show)
    try:
        with _sigterm_raises():
            state.train_all()
    except (KeyboardInterrupt, _TerminatedError) as stop:
        show(
            f"Stopped with {state.progress()}. Unfinished runs are kept in {runs_dir}: the same "
            "command resumes them."
        )
        return 143 if isinstance(stop, _TerminatedError) else 130
    finally:
        workers_at_work.stop()
    if state.failed:
        lines = [f"  {run_name(spec)}: {reason}" for spec, reason in state.failed]
        show("\n".join([f"Failed: {len(lines)} of {len(runs)} runs.", *lines]))
        return 1
    if state.again:
        show(
            f"Still being trained by another process: {', '.join(map(run_name, state.again))}. "
            "Run the same command again to check."
        )
    elif when_done is not None:
        show(when_done)
    return 0


class _Sweep:
    """How far a sweep is."""

    def __init__(self, runs, records, kept, workers, count, show):
        self.failed = []  # pairs (spec, reason)
        self.again = []  # specs that another process was training, or whose worker died
        self._total = len(runs)
        self._left = [spec for spec in runs if not is_done(spec, records)]
        self._records, self._kept = list(records), kept
        self._workers, self._count, self._show = workers, count, show

    def progress(self):
        """How many runs are done, in words."""
        return f"{self._total - len(self._left)} of {self._total} done"

    def train_all(self):
        """Trains what is left; what is locked, or died, once more, one run at a time.

        That one has all the memory then.
        """
        self._train(list(self._left), self._count)
        if self.again:
            retried, self.again = self.again, []
            self._show(f"Looking again at {', '.join(map(run_name, retried))}.")
            self._train(retried, 1, dies_again=True)

    def _train(self, specs, count, dies_again=False):
        for spec, outcome in self._workers.outcomes(specs, count):
            if outcome.kind == "died" and dies_again:
                outcome = outcome._replace(kind="failed")
            self._show(f"{run_name(spec)}: {self._take(spec, outcome)}")

    def _take(self, spec, outcome):
        """Notes how a run ended, and returns it in words."""
        if outcome.kind in ("locked", "died"):
            self.again.append(spec)
            return f"{outcome.reason}; skipped for now"
        if outcome.kind == "failed":
            self.failed.append((spec, outcome.reason))
            return f"failed: {outcome.reason}"
        self._left.remove(spec)
        said = "finished by another process"
        if outcome.record is not None:
            self._records.append(record := outcome.record)
            holds = record["guarantee_holds"]
            spent = f"epsilon {ceil_text(record['epsilon'])}" if holds else "NO GUARANTEE"
            accuracy = f"test accuracy {record['test_accuracy']:.2f} %"
            said = f"{accuracy}, {spent}, {record['seconds']:.0f} s"
        failed = [spec for spec, _ in self.failed]
        todo = [spec for spec in self._left if spec not in failed]
        elapsed = self._workers.elapsed()
        seconds = time_left(todo, self._records, self._count, elapsed, self._kept)
        return f"{said}; {self.progress()}, time left: {duration(seconds)}"


class _TerminatedError(BaseException):
    """SIGTERM, as KeyboardInterrupt is SIGINT."""


@contextlib.contextmanager
def _sigterm_raises():
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return

    def stop(*_):
        raise _TerminatedError

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
