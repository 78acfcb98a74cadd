"""A process that makes the training steps of one engine on request.

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

from benchmarks.devices import GPU, Gpu, Processor
from benchmarks.engines import ENGINES, UnsupportedError
from benchmarks.workloads import WORKLOADS, random_rows


class Worker:
    """Answers requests about one engine on one model and batch."""

    def __init__(self):
        self._prepared = None
        self._before = None
        self._last_turn = None
        self._on = Processor()

    def look(self, device):
        """Says what the device is; an error if it is not there."""
        if device == GPU:
            self._on = Gpu()
        return self._on.description

    def build(self, model, batch_size, engine, device, half):
        """Builds model and data."""
        described = self.look(device)
        if WORKLOADS[model].private_norm is not None and not ENGINES[engine].replaces_norm:
            raise UnsupportedError("no private normalisation to put in place of the model's")
        module = importlib.import_module(ENGINES[engine].module)
        x, y = random_rows(model, batch_size)
        self._prepared = module.prepare(engine, model, x, y, **({"half": True} if half else {}))
        expected = WORKLOADS[model].parameters
        if self._prepared.parameters != expected:
            raise UnsupportedError(
                f"{self._prepared.parameters} parameters, not the {expected} of the others"
            )
        versions = {
            "python": platform.python_version(),
            **self._prepared.versions,
            **self._on.versions,
        }
        return {"parameters": expected, "versions": versions, **described}

    def first(self):
        """Traces and makes the first step."""
        built = self._on.start_peak_anew()
        started = time.perf_counter()
        self._prepared.trace()
        seconds = time.perf_counter() - started
        # Tracing is done once, and holds memory for a while that no step needs.
        self._before = self._on.start_peak_anew()
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
        peak = None if self._before is None else self._on.peak_megabytes() - self._before
        return {"peak_megabytes": peak, "wall_milliseconds": wall}

    def turn(self, steps, warm_up):
        """Mean milliseconds of an update in `steps` runs: by the device, and on the clock."""
        idle = 0.0 if self._last_turn is None else time.process_time() - self._last_turn
        for _ in range(warm_up):
            self._prepared.run()
        wall, own = time.perf_counter(), self._on.seconds()
        for _ in range(steps):
            self._prepared.run()
        own, wall = self._on.seconds() - own, time.perf_counter() - wall
        self._last_turn = time.process_time()
        updates = steps * self._prepared.updates
        return {
            "milliseconds": 1000 * own / updates,
            "wall_milliseconds": 1000 * wall / updates,
            "idle_milliseconds": 1000 * idle,
        }


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
        except Exception as error:  # an engine may fail in any way, and the run continues
            answer = {"error": short_reason(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
