"""A process that makes the training steps of one engine, when it is told to.

    python -m benchmarks.worker

One JSON object a line comes in, one goes out; `benchmarks.turns` is at the other end. A process of
its own gives each engine its own threads, its own peak memory, and, for peers, its own Python.
"""

import importlib
import json
import os
import platform
import sys
import time

from benchmarks.engines import ENGINES, UnsupportedError
from benchmarks.workloads import WORKLOADS, random_rows
from tfdpnorm import memory


class Worker:
    """Answers requests about one engine on one model and batch."""

    def __init__(self):
        self._prepared = None
        self._before = None
        self._last_turn = None

    def build(self, model, batch_size, engine):
        """Builds model and data."""
        if WORKLOADS[model].private_norm is not None and not ENGINES[engine].replaces_norm:
            raise UnsupportedError("no private normalisation to put in place of the model's")
        module = importlib.import_module(ENGINES[engine].module)
        x, y = random_rows(model, batch_size)
        self._prepared = module.prepare(engine, model, x, y)
        expected = WORKLOADS[model].parameters
        if self._prepared.parameters != expected:
            raise UnsupportedError(
                f"{self._prepared.parameters} parameters, not the {expected} of the others"
            )
        versions = {"python": platform.python_version(), **self._prepared.versions}
        return {"parameters": expected, "versions": versions}

    def first(self):
        """Traces and makes the first step."""
        built = self._idle_megabytes()
        started = time.perf_counter()
        self._prepared.trace()
        seconds = time.perf_counter() - started
        # Tracing is done once, and holds memory for a while that no step needs.
        self._before = self._idle_megabytes()
        started = time.perf_counter()
        self._prepared.run()
        seconds += time.perf_counter() - started
        traced = None if built is None else self._before - built
        return {"first_step_seconds": seconds, "trace_megabytes": traced}

    def settle(self, steps):
        """Makes more steps; gives the peak of memory over that before the first, and a duration."""
        wall = None
        for _ in range(steps):
            started = time.perf_counter()
            self._prepared.run()
            wall = 1000 * (time.perf_counter() - started)
        peak = None if self._before is None else memory.peak_megabytes() - self._before
        return {"peak_megabytes": peak, "wall_milliseconds": wall}

    def turn(self, steps, warm_up):
        """Mean milliseconds of `steps` steps: of all cores' work, and on the clock."""
        idle = 0.0 if self._last_turn is None else time.process_time() - self._last_turn
        for _ in range(warm_up):
            self._prepared.run()
        wall, process = time.perf_counter(), time.process_time()
        for _ in range(steps):
            self._prepared.run()
        process, wall = time.process_time() - process, time.perf_counter() - wall
        self._last_turn = time.process_time()
        return {
            "milliseconds": 1000 * process / steps,
            "wall_milliseconds": 1000 * wall / steps,
            "idle_milliseconds": 1000 * idle,
        }

    def _idle_megabytes(self):
        if not memory.is_measurable():
            return None
        memory.start_peak_anew()
        return memory.resident_megabytes()


def short_reason(error):
    """One line that says why an engine failed."""
    if isinstance(error, ModuleNotFoundError):
        name = (error.name or "a module").split(".")[0]
        return f"{name} is not installed for {sys.executable}, see --peer_python"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # TensorFlow puts the cause at the end of a traceback, Keras at the start of a paragraph.
    if len(lines) > 1:
        marked = [line for line in lines if "Error: " in line]
        lines = marked[-1:] or lines[:1]
    text = lines[0] if lines else ""
    if isinstance(error, UnsupportedError):
        return text[:200]
    name = type(error).__name__
    return (text if name in text else f"{name}: {text}")[:200]


def main():
    """Answers requests until there are no more."""
    # Whatever a framework prints must not get between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    worker = Worker()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(worker, request.pop("do"))(**request)
        except Exception as error:  # an engine may fail in any way, and the run goes on
            answer = {"error": short_reason(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
