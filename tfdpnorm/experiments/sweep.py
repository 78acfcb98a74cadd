"""Trains those runs of a table whose records are missing; stopped, it goes on where it was.

A run is a cell of an experiment with a seed, hence a spec. It is done once the output folder holds
a record of it with the spec's settings. Until then it has, below `runs_dir/<experiment>/`:

- `<run>/`, the folder that its runner takes it up from, removed after the record is written;
- `<run>.lock`, locked by the process that trains it; says what settings the folder is of;
- `<run>.log`, what the runner showed, and the traceback of a failure.

Locks are those of POSIX systems (`flock`); on network file systems without them no run begins.
"""

import collections
import concurrent.futures
import contextlib
import dataclasses
import fcntl
import fnmatch
import gc
import json
import math
import multiprocessing
import numbers
import os
import pathlib
import re
import shutil
import signal
import statistics
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from typing import NamedTuple

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.experiments.records import make_folder, read_records
from tfdpnorm.privacy.rounding import ceil_text

# Fields of a spec that do not change what is measured.
NOT_MEASURED = ("physical_batch_size", "engine", "search", "paper_value")
# What `flags` of a record says besides the spec, for the runs that a sweep trains.
_BESIDES = {"precision": "float32"}


# --- which runs ---


def select(specs, seeds, patterns=()):
    """Returns the specs of all runs, seed by seed, so that a stopped sweep has whole tables.

    Args:
        specs: The cells, in their order.
        seeds: How many seeds each is trained with: 0, 1, ...
        patterns: Names of cells or shell-style patterns of them; empty for all cells.

    Raises:
        ValueError: for `seeds` below 1, or a pattern that no cell matches.
    """
    _at_least_one("seeds", seeds)
    chosen = [s for s in specs if not patterns or any(_matches(s.cell, p) for p in patterns)]
    for pattern in patterns:
        if not any(_matches(spec.cell, pattern) for spec in specs):
            raise ValueError(
                f"Expected cells to name some of {specs[0].experiment}, got {pattern!r}, which "
                f"matches none of {', '.join(spec.cell for spec in specs)}. Mend it."
            )
    return [dataclasses.replace(spec, seed=seed) for seed in range(seeds) for spec in chosen]


def differences(spec, flags):
    """Returns the names of the settings in which a run with `flags` is another than `spec`.

    Lists count as tuples, and a field that `flags` lacks counts as its default: older records do
    not have the newer fields. A field that the spec lacks is a difference. The seed is left out.

    Args:
        spec: An `ExperimentSpec` or `WeightNoiseSpec`.
        flags: Dict, such as the "flags" of a record.
    """
    defaults = {field.name: field.default for field in dataclasses.fields(spec)}
    ours = {**_BESIDES, **dataclasses.asdict(spec)}
    theirs = {**_BESIDES, **defaults, **flags}
    missing = dataclasses.MISSING  # equal to nothing but itself
    return [
        name
        for name in dict.fromkeys([*ours, *theirs])
        if name not in (*NOT_MEASURED, "seed")
        and not _equal(ours.get(name, missing), theirs.get(name, missing))
    ]


def is_done(spec, records):
    """Whether one of `records` is of this experiment, cell and seed, with these settings."""
    return any(
        record["experiment"] == spec.experiment
        and record["cell"] == spec.cell
        and record["seed"] == spec.seed
        and not differences(spec, record["flags"])
        for record in records
    )


def run_name(spec):
    """A run in words."""
    return f"{spec.cell} seed {spec.seed}"


def run_folder(runs_dir, spec):
    """Path of the folder of a run."""
    slug = re.sub(r"[^A-Za-z0-9.=_-]+", "-", spec.cell)
    return pathlib.Path(runs_dir) / spec.experiment / f"{slug}-seed{spec.seed}"


def listing(runs, records, workers=1):
    """Returns, a line for each cell, what is done and what is left, and the time that takes."""
    cells = {}
    for spec in runs:
        cells.setdefault(spec.cell, []).append(spec)
    width = max(map(len, cells))
    lines, left = [], [spec for spec in runs if not is_done(spec, records)]
    for cell, specs in cells.items():
        todo = [spec.seed for spec in specs if spec in left]
        done = [spec.seed for spec in specs if spec not in left]
        line = f"  {cell:<{width}}  done: {_list(done)}  left: {_list(todo)}"
        if todo:
            line += f"  each: {duration(estimate(specs[0], records))}"
        others = sum(r["cell"] == cell and bool(differences(specs[0], r["flags"])) for r in records)
        if others:
            line += f"  ({others} record{'s' * (others > 1)} with other settings)"
        lines.append(line)
    return "\n".join(
        [
            f"{runs[0].experiment}: {len(runs) - len(left)} of {len(runs)} runs done, "
            f"{len(left)} left; seeds of each cell:",
            *lines,
            f"Estimated time with {workers} worker{'s' * (workers > 1)}: "
            f"{duration(time_left(left, records, workers))}.",
        ]
    )


# --- how long they take ---


def estimate(spec, records):
    """Returns the seconds that a run will take, or None if no record tells.

    The mean of the same cell's runs with the same settings; without one, that of the experiment's
    runs of the same network, or else of all its runs, each scaled by updates times batch size.

    Args:
        spec: The run.
        records: Records of its experiment.
    """
    same = [r for r in records if r["cell"] == spec.cell and not differences(spec, r["flags"])]
    network = [r for r in records if r["flags"].get("model") == spec.model]
    for known, factor in ((same, lambda _: 1.0), (network, _scale(spec)), (records, _scale(spec))):
        times = [(_whole_seconds(record), factor(record)) for record in known]
        times = [seconds * scale for seconds, scale in times if seconds is not None]
        if times:
            return statistics.mean(times)
    return None


def time_left(left, records, workers, elapsed=None):
    """Returns the seconds until all runs of `left` are done, or None if they are not known.

    Args:
        left: List of specs.
        records: Records of their experiment.
        workers: How many are trained at once.
        elapsed: Dict from `run_name` to the seconds that a run has been training for.
    """
    times = []
    for spec in left:
        seconds = estimate(spec, records)
        if seconds is None:
            return None
        times.append(max(0.0, seconds - (elapsed or {}).get(run_name(spec), 0.0)))
    # Idle workers do not shorten the last run.
    return max(sum(times) / workers, *times) if times else 0.0


def duration(seconds):
    """Seconds in words; None is "unknown"."""
    if seconds is None:
        return "unknown"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


def _scale(spec):
    """Function from another run's record to the quotient of this run's work and that one's."""

    def factor(record):
        work, examples = _work(record), record["num_examples"]
        batch = getattr(spec, "expected_batch_size", None) or getattr(spec, "batch_size", None)
        if not work or not examples or not batch:
            return 1.0
        return spec.updates(examples) * batch / work

    return factor


def _work(record):
    """Examples that a recorded run went through, or None."""
    batch = record["expected_batch_size"] or record["flags"].get("batch_size")
    return record["updates"] * batch if record["updates"] and batch else None


def _whole_seconds(record):
    """Seconds of a recorded run, or None if it does not say."""
    if record["resumes"] == 0:
        return record["seconds"]
    # Its seconds are those since it was last taken up; its speed holds for all of it.
    work, speed = _work(record), record["examples_per_second"]
    return work / speed if work and speed else None


# --- one run, in a worker ---


class Job(NamedTuple):
    """What the runs of a sweep share.

    Attributes:
        run_cell: Function (spec, data_dir=, output_dir=, echo=, run_dir=, resume=) that trains a
            cell, writes its record and returns a result with a `record`; importable by name.
        data_dir: TFDS directory.
        output_dir: Folder of the records.
        runs_dir: Folder of the folders of runs.
    """

    run_cell: Callable
    data_dir: str | None
    output_dir: str
    runs_dir: str


class Outcome(NamedTuple):
    """How a run ended.

    Attributes:
        kind: "done", "done elsewhere", "locked" or "failed".
        record: The record of one that is done here.
        reason: Why it failed, in a line.
    """

    kind: str
    record: dict | None = None
    reason: str | None = None


def train(spec, job):
    """Trains one run in this process, unless it is done, or another process trains it.

    Args:
        spec: The run.
        job: `Job`.

    Returns:
        `Outcome`; whatever the run raises is one.
    """
    folder = run_folder(job.runs_dir, spec)
    beside = lambda suffix: folder.with_name(folder.name + suffix)  # noqa: E731
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Never removed: who locks a removed file and who locks its successor both go ahead.
        with open(beside(".lock"), "a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return Outcome("locked")
            # Only now, for another process may have finished it just before.
            if is_done(spec, read_records(job.output_dir, spec.experiment)):
                return Outcome("done elsewhere")
            with (
                open(beside(".log"), "a", buffering=1) as log,
                contextlib.redirect_stdout(log),
                contextlib.redirect_stderr(log),
            ):
                print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {run_name(spec)}")
                try:
                    return _train_locked(spec, job, folder, lock)
                except (Exception, SystemExit):
                    traceback.print_exc()
                    raise
    except (Exception, SystemExit) as error:
        return Outcome("failed", reason=f"{_line(error)} See {beside('.log')}.")


def _train_locked(spec, job, folder, lock):
    _check_folder(spec, folder, lock)
    record = job.run_cell(
        spec,
        data_dir=job.data_dir,
        output_dir=job.output_dir,
        echo=print,
        run_dir=folder,
        resume=True,
    ).record
    # Without it the next sweep would train the run again, and this one is about to forget it.
    if not is_done(spec, read_records(job.output_dir, spec.experiment)):
        raise RuntimeError(
            f"Expected a record of {run_name(spec)} with its settings in {job.output_dir}, got "
            f"none; differences: {', '.join(differences(spec, record['flags'])) or 'none'}."
        )
    shutil.rmtree(folder, ignore_errors=True)  # a run without privacy has removed it itself
    return Outcome("done", record)


def _check_folder(spec, folder, lock):
    """Has the folder's run go on with its own settings only.

    A run folder of private training knows what concerns privacy; learning rates do not.
    """
    if folder.exists() and any(folder.iterdir()):
        lock.seek(0)
        text = lock.read()
        other = differences(spec, json.loads(text)) if text else ["nobody noted which"]
        if other:
            raise ValueError(
                f"Expected {folder} to hold a run with the present settings, got an interrupted "
                f"one with other settings: {', '.join(other)}. Move it away, or name another "
                "runs_dir."
            )
        return
    lock.truncate(0)
    lock.write(json.dumps({**_BESIDES, **dataclasses.asdict(spec)}))
    lock.flush()


# --- the workers ---


class ProcessPool:
    """Processes that train runs, each of them one after the other.

    They share the cores. They end as soon as `stop` is called or this process ends, however it
    ends, and leave the folders of their runs; Ctrl-C in a terminal does not reach them.

    Args:
        workers: How many.
    """

    def __init__(self, workers):
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # inherited; read as TensorFlow loads
        allowed = getattr(os, "sched_getaffinity", None)  # not on every system
        cores = len(allowed(0)) if allowed else os.cpu_count()
        context = multiprocessing.get_context("spawn")
        self._far_end, self._lifeline = context.Pipe(duplex=False)
        self._pool = concurrent.futures.ProcessPoolExecutor(
            workers,
            mp_context=context,
            initializer=_prepare_worker,
            initargs=(self._far_end, max(1, cores // workers)),
        )

    def submit(self, function, *arguments):
        """Has a worker call a function; returns a future."""
        # Workers start here and inherit the mask, under which they get no SIGINT.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return self._pool.submit(_call_and_clear, function, *arguments)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def stop(self):
        """Ends all workers, whatever they are doing."""
        self._lifeline.close()
        self._pool.shutdown(cancel_futures=True)
        self._far_end.close()


def _prepare_worker(lifeline, threads):
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    tf.get_logger().setLevel("ERROR")  # its warnings would stand between the sweep's lines
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)


def _call_and_clear(function, *arguments):
    try:
        return function(*arguments)
    finally:
        keras.backend.clear_session()  # the next run has its memory and names for itself
        gc.collect()


def _end_with(lifeline):
    """Ends this process when the other end of the pipe is closed, or gone with its process."""
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv()
    os._exit(1)


# --- the sweep ---


def _show(text):
    print(text, flush=True)  # at once, also into a file


def sweep(
    specs,
    *,
    run_cell,
    seeds=1,
    patterns=(),
    workers=1,
    data_dir=None,
    output_dir="results",
    runs_dir="outputs/runs",
    dry_run=False,
    when_done=None,
    show=_show,
    make_pool=ProcessPool,
):
    """Trains those runs of an experiment that have no record yet, and says how it goes.

    Args:
        specs: The cells of one experiment.
        run_cell: See `Job`.
        seeds: How many seeds each cell is trained with.
        patterns: Which cells, see `select`.
        workers: How many runs are trained at once.
        data_dir: TFDS directory.
        output_dir: Folder of the records.
        runs_dir: Folder of the folders of runs that are not done.
        dry_run: Only say what is done, what is left and how long it will take.
        when_done: A line that is shown when no run is left.
        show: Function that shows a text.
        make_pool: Function from a number of workers to what has `ProcessPool`'s methods.

    Returns:
        Exit code: 0; 1 if a run failed; 130 or 143 if stopped by Ctrl-C or SIGTERM.

    Raises:
        ValueError: for values that make no sense, or a file among the records that is none.
        OSError: before training, if a folder cannot be written to.
    """
    runs = select(specs, seeds, patterns)
    _at_least_one("workers", workers)
    records = read_records(output_dir, runs[0].experiment)
    show(listing(runs, records, workers))
    if dry_run:
        show("Nothing was trained.")
        return 0
    make_folder(output_dir)
    _make_runs_dir(runs_dir)
    job = Job(run_cell, data_dir, output_dir, runs_dir)
    state = _Sweep(runs, records, job, workers, make_pool, show)
    try:
        with _sigterm_raises():
            state.train_all()
    except (KeyboardInterrupt, _TerminatedError) as stop:
        show(
            f"Stopped with {state.progress()}. What was begun is kept in {runs_dir}: the same "
            "command goes on with it."
        )
        return 143 if isinstance(stop, _TerminatedError) else 130
    if state.failed:
        lines = [f"  {run_name(spec)}: {reason}" for spec, reason in state.failed]
        show("\n".join([f"Failed: {len(lines)} of {len(runs)} runs.", *lines]))
        return 1
    if state.locked:
        show(
            "Still being trained by another process: "
            f"{', '.join(map(run_name, state.locked))}. The same command looks again."
        )
    elif when_done is not None:
        show(when_done)
    return 0


class _Sweep:
    """How far a sweep is."""

    def __init__(self, runs, records, job, workers, make_pool, show):
        self.failed = []  # pairs (spec, reason)
        self.locked = []  # specs that another process was training
        self._total = len(runs)
        self._left = [spec for spec in runs if not is_done(spec, records)]
        self._records = list(records)
        self._job, self._workers = job, workers
        self._make_pool, self._show = make_pool, show
        self._pool = None
        self._flying = {}  # future -> spec
        self._started = {}  # name of a run in flight -> when
        self._suspects = set()  # names of runs in flight when a worker died

    def progress(self):
        """How many runs are done, in words."""
        return f"{self._total - len(self._left)} of {self._total} done"

    def train_all(self):
        """Trains what is left; what is locked is looked at twice."""
        if not self._left:
            return
        try:
            self._work_off(self._left)
            if self.locked:
                again, self.locked = self.locked, []
                self._show(f"Looking again at {', '.join(map(run_name, again))}.")
                self._work_off(again)
        finally:
            if self._pool is not None:
                self._pool.stop()

    def _work_off(self, specs):
        queue = collections.deque(specs)
        while queue or self._flying:
            crashed = not self._submit(queue)
            # In slices: a signal that another thread took is noticed between them.
            finished = concurrent.futures.wait(
                self._flying, timeout=1.0, return_when=concurrent.futures.FIRST_COMPLETED
            ).done
            crashed = crashed or any(_has_crashed(future) for future in finished)
            if crashed:  # then all of them end, one way or the other
                finished = concurrent.futures.wait(self._flying).done
            in_flight = []
            for future in [future for future in self._flying if future in finished]:
                spec = self._flying.pop(future)
                if _has_crashed(future):
                    in_flight.append(spec)
                else:
                    self._take(spec, future.result())
                self._started.pop(run_name(spec))
            if crashed:
                self._pool.stop()
                self._pool = None
                queue.extendleft(reversed(self._after_crash(in_flight)))

    def _submit(self, queue):
        """Gives runs to idle workers; returns whether the pool was whole."""
        if self._pool is None:
            self._pool = self._make_pool(self._workers)
        while queue and len(self._flying) < self._workers:
            names = {run_name(spec) for spec in (*self._flying.values(), queue[0])}
            # Alone: with all the memory, and if its worker dies again, there is no other suspect.
            if self._flying and names & self._suspects:
                break
            try:
                future = self._pool.submit(train, queue[0], self._job)
            except BrokenProcessPool:  # an idle worker died
                return False
            spec = queue.popleft()
            self._flying[future] = spec
            self._started[run_name(spec)] = time.perf_counter()
        return True

    def _after_crash(self, in_flight):
        """Returns those of the runs in flight that are to be tried once more."""
        again = [spec for spec in in_flight if run_name(spec) not in self._suspects]
        for spec in in_flight:
            if spec not in again:
                self._fail(spec, "the process that trained it died, twice; too little memory?")
        if again:
            names = ", ".join(map(run_name, again))
            self._show(f"A worker died while training {names}: tried once more, one at a time.")
        self._suspects.update(map(run_name, again))
        return again

    def _take(self, spec, outcome):
        if outcome.kind == "locked":
            self.locked.append(spec)
            self._show(f"{run_name(spec)}: another process is training it; passed over for now")
            return
        if outcome.kind == "failed":
            self._fail(spec, outcome.reason)
            return
        self._left.remove(spec)
        said = "done by another process meanwhile"
        if outcome.record is not None:
            self._records.append(outcome.record)
            said = _result(outcome.record)
        now = time.perf_counter()
        elapsed = {name: now - started for name, started in self._started.items()}
        failed = [spec for spec, _ in self.failed]
        todo = [spec for spec in self._left if spec not in failed]
        remaining = duration(time_left(todo, self._records, self._workers, elapsed))
        self._show(f"{run_name(spec)}: {said}; {self.progress()}, time left: {remaining}")

    def _fail(self, spec, reason):
        self.failed.append((spec, reason))
        self._show(f"{run_name(spec)}: failed: {reason}")


def _has_crashed(future):
    return future.done() and isinstance(future.exception(), BrokenProcessPool)


def _result(record):
    spent = "NO GUARANTEE"
    if record["guarantee_holds"]:
        spent = f"epsilon {ceil_text(record['epsilon'])}"
    return f"test accuracy {record['test_accuracy']:.2f} %, {spent}, {record['seconds']:.0f} s"


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


def _make_runs_dir(path):
    try:
        pathlib.Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"Expected runs_dir to be a folder, got {path}: {error.strerror}. Name another one."
        ) from error


def _at_least_one(name, value):
    if value < 1:
        raise ValueError(f"Expected {name} >= 1, got {value!r}.")


def _matches(cell, pattern):
    return cell == pattern or fnmatch.fnmatchcase(cell, pattern)


def _equal(first, second):
    if isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
        return len(first) == len(second) and all(map(_equal, first, second))
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, numbers.Real) and isinstance(second, numbers.Real):
        return math.isclose(first, second)  # 1.5 * 0.4 and 0.6 are the same setting
    return first == second


def _list(seeds):
    return ",".join(map(str, seeds)) or "-"


def _line(error):
    lines = str(error).strip().splitlines() or [""]
    # What a traced function raises begins with its call stack.
    text = lines[-1].strip() if lines[0].startswith("in user code") else lines[0]
    if isinstance(error, (ValueError, OSError)):
        return text
    return f"{type(error).__name__}: {text}"
