"""Times engines in turns, each in a process of its own."""

import contextlib
import json
import os
import pathlib
import selectors
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from benchmarks import devices
from benchmarks.devices import CPU
from benchmarks.engines import ENGINES
from tfdpnorm import memory

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_POLL_SECONDS = 0.2
_SETTLING_STEPS = 3
# A turn should be long compared with the cost of switching between processes.
_TURN_MILLISECONDS = 100.0
_MOST_STEPS_A_TURN = 20
_SLOW_SECONDS = 10.0  # of a step
_BUILD_SECONDS = 300.0  # imports included, on a busy machine
_LATER_FACTOR = 4.0  # several steps, of which the first has shown how long one takes

# Columns of a row, in addition to model, batch size and engine.
_FIELDS = (
    "milliseconds",
    "ratio",
    "peak_megabytes",
    "error",
    "own_ratio",
    "min_milliseconds",
    "max_milliseconds",
    "wall_milliseconds",
    "idle_milliseconds",
    "rounds",
    "steps_per_round",
    "first_step_seconds",
    "trace_megabytes",
    "parameters",
    "device",
    "driver",
    "half",
    "cores",
    "versions",
)


class EngineError(Exception):
    """An engine failed, took too long or too much memory; the message says which, in one line."""


class WorkerProcess:
    """The parent's end of a `benchmarks.worker`.

    Args:
        python: Path of the interpreter.
        memory_limit: Megabytes that it may hold; more ends it.
        device: Of `benchmarks.devices`.
    """

    def __init__(self, python, memory_limit, device=CPU):
        self._limit = memory_limit
        self._errors = tempfile.TemporaryFile()
        paths = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": paths, "TF_CPP_MIN_LOG_LEVEL": "3"}
        environment |= devices.environment(device)
        # OpenMP, which PyTorch uses, would have threads without work spin, in this turn and after
        # it: that is process time too, and on a machine that others use, without measure.
        environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=_ROOT,
            env=environment,
        )
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)

    def ask(self, timeout, **request):
        """Returns the answer to a request as a dict.

        Raises:
            EngineError: if the worker fails, or takes more than `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        try:
            self._process.stdin.write((json.dumps(request) + "\n").encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise EngineError(self._last_words()) from None
        while not self._selector.select(_POLL_SECONDS):
            if time.monotonic() > deadline:
                self.close()
                raise EngineError(f"took more than {timeout:g} s")
            held = memory.resident_megabytes(self._process.pid)
            if held is not None and held > self._limit:
                self.close()
                raise EngineError(f"took more than {self._limit:g} MB of memory")
        line = self._process.stdout.readline()
        if not line:
            raise EngineError(self._last_words())
        answer = json.loads(line)
        if "error" in answer:
            raise EngineError(answer["error"])
        return answer

    def close(self):
        """Ends the process; once more does nothing."""
        self._process.kill()
        self._process.wait()
        self._selector.close()
        with contextlib.suppress(BrokenPipeError):  # of a request that nobody read
            self._process.stdin.close()
        self._process.stdout.close()
        self._errors.close()

    def _last_words(self):
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        if code < 0:
            return f"ended by {signal.Signals(-code).name}"
        return f"ended with code {code}: {lines[-1][:200] if lines else 'no message'}"


class Contender:
    """One engine on one model and batch: its process, and its row of results.

    Args:
        model: Name in `benchmarks.workloads.WORKLOADS`.
        batch_size: Rows of a step.
        engine: Name in `ENGINES`.
        limits: `Limits`.
        peer_python: Interpreter of peers.
        on: `On`.
    """

    def __init__(self, model, batch_size, engine, limits, peer_python, on):
        self._python = peer_python if ENGINES[engine].peer else sys.executable
        self._limits, self._on = limits, on
        self._worker = None
        self._steps = 1
        self._warm_up = 0
        self._turns = []
        self._seconds = 0.0
        self.row = {"model": model, "batch_size": batch_size, "engine": engine}
        self.row |= {**dict.fromkeys(_FIELDS), "half": on.half}

    def start(self):
        """Builds model and data, makes the first steps and measures their memory."""
        self._worker = WorkerProcess(self._python, self._limits.megabytes, self._on.device)
        named = {name: self.row[name] for name in ("model", "batch_size", "engine")}
        built = self._ask("build", _BUILD_SECONDS, **named, **self._on._asdict())
        first = self._ask("first", self._limits.seconds)
        if built is None or first is None:
            return
        slow = first["first_step_seconds"] > _SLOW_SECONDS
        steps = 1 if slow else _SETTLING_STEPS
        settled = self._ask("settle", _LATER_FACTOR * self._limits.seconds, steps=steps)
        if settled is None:
            return
        self._steps = round(_TURN_MILLISECONDS / max(settled["wall_milliseconds"], 1e-3))
        self._steps = min(max(self._steps, 1), _MOST_STEPS_A_TURN)
        # Other processes have had the caches since its last turn.
        self._warm_up = 1 if settled["wall_milliseconds"] < 1000 * _SLOW_SECONDS else 0
        self.row |= built | {
            "first_step_seconds": _rounded(first["first_step_seconds"]),
            "peak_megabytes": _rounded(settled["peak_megabytes"], 1),
            "trace_megabytes": _rounded(first["trace_megabytes"], 1),
        }

    def take_turn(self):
        """Times a few steps, unless this engine has failed or used up its time."""
        if self._worker is None or self._seconds > self._limits.seconds:
            return
        started = time.monotonic()
        seconds = _LATER_FACTOR * self._limits.seconds
        turn = self._ask("turn", seconds, steps=self._steps, warm_up=self._warm_up)
        self._seconds += time.monotonic() - started
        if turn is not None:
            self._turns.append(turn)

    def close(self):
        """Ends the process."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def sum_up(self):
        """Puts the turns into `row`."""
        if self.row["error"] is not None:
            self.row["peak_megabytes"] = None  # it may have failed before the peak
            return
        column = {name: [turn[name] for turn in self._turns] for name in self._turns[0]}
        times = column["milliseconds"]
        self.row |= {
            "milliseconds": _rounded(statistics.median(times)),
            "min_milliseconds": _rounded(min(times)),
            "max_milliseconds": _rounded(max(times)),
            "wall_milliseconds": _rounded(statistics.median(column["wall_milliseconds"])),
            "idle_milliseconds": _rounded(statistics.median(column["idle_milliseconds"])),
            "rounds": len(times),
            "steps_per_round": self._steps,
        }

    def _ask(self, what, seconds, **arguments):
        """The answer of the worker, or None and an error in `row`."""
        if self._worker is None:
            return None
        try:
            return self._worker.ask(seconds, do=what, **arguments)
        except EngineError as error:
            self.row["error"] = str(error)
            self.close()
            return None


class Limits(NamedTuple):
    """Limits on the time and memory of one engine on one model and batch.

    Attributes:
        seconds: For the first step, with tracing; and for all of its turns, of which it has at
            least one.
        megabytes: Memory of its process.
    """

    seconds: float
    megabytes: float


class On(NamedTuple):
    """The device and precision of steps.

    Attributes:
        device: Of `benchmarks.devices`.
        half: Whether layers compute in half precision.
    """

    device: str = CPU
    half: bool = False


def check_device(device):
    """Raises ValueError if a GPU is asked for and TensorFlow sees none."""
    process = WorkerProcess(sys.executable, float("inf"), device)
    try:
        process.ask(_BUILD_SECONDS, do="look", device=device)
    except EngineError as error:
        raise ValueError(
            f"Expected a GPU for --device={device}, got none: {error}; see docs/gpu.md."
        ) from None
    finally:
        process.close()


def measure(
    model, batch_sizes, engines, *, rounds, limits, peer_python, on=None, report=lambda text: None
):
    """Times engines in turns and returns one row for each batch size and engine.

    Args:
        model: Name in `benchmarks.workloads.WORKLOADS`.
        batch_sizes: Take turns too.
        engines: Names in `ENGINES`.
        rounds: Turns of each.
        limits: `Limits`.
        peer_python: Interpreter of peers.
        on: `On`; None for the processor in float32.
        report: Function that gets a line about each event.
    """
    contenders = []
    try:
        for size in batch_sizes:
            for engine in engines:
                contender = Contender(model, size, engine, limits, peer_python, on or On())
                contenders.append(contender)
                contender.start()
                error = contender.row["error"]
                report(f"{model} {size} {engine}: {error or 'ready'}")
        for number in range(rounds):
            # Not always after the same neighbour.
            first = number % len(contenders)
            for contender in contenders[first:] + contenders[:first]:
                contender.take_turn()
    finally:
        for contender in contenders:
            contender.close()
    for contender in contenders:
        contender.sum_up()
    rows = [contender.row for contender in contenders]
    for row in rows:
        row["cores"] = len(os.sched_getaffinity(0))
        row["ratio"] = _ratio(row, rows, "keras")
        row["own_ratio"] = _ratio(row, rows, ENGINES[row["engine"]].plain)
    return rows


def _ratio(row, rows, engine):
    """Time over that of another engine on the same batch."""
    for other in rows:
        same = (other["batch_size"], other["engine"]) == (row["batch_size"], engine)
        if same and other["milliseconds"] and row["milliseconds"]:
            return _rounded(row["milliseconds"] / other["milliseconds"])
    return None


def _rounded(value, digits=3):
    return None if value is None else round(value, digits)
