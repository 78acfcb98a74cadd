"""Images per second and peak memory of a private step on a large batch, in physical batches.

    python -m benchmarks.lots --lot=1024 --physical_batch_sizes=64,128 --output=lots.json

Each size has a fresh process. Writes a JSON list of rows.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

from absl import flags

from benchmarks.step_time import run_app
from benchmarks.workloads import WORKLOADS, random_rows
from tfdpnorm import memory

FLAGS = flags.FLAGS
_ROOT = pathlib.Path(__file__).resolve().parents[1]


def define_flags():
    """Defines this program's flags."""
    flags.DEFINE_enum("model", "resnet9", WORKLOADS, "What is trained.")
    flags.DEFINE_integer("lot", 1024, "Rows of a batch.", lower_bound=1)
    flags.DEFINE_list("physical_batch_sizes", ["64"], "Rows at once; each divides the batch.")
    flags.DEFINE_integer("steps", 3, "Steps timed, after the first.", lower_bound=1)
    flags.DEFINE_string("output", None, "JSON file to write.")


def main():
    """Measures what the flags ask for."""
    sizes = [int(text) if text.isdecimal() else 0 for text in FLAGS.physical_batch_sizes]
    if not sizes or any(size == 0 or FLAGS.lot % size for size in sizes):
        raise ValueError(
            f"Expected --physical_batch_sizes to divide --lot={FLAGS.lot}, got "
            f"{','.join(FLAGS.physical_batch_sizes)}."
        )
    rows = []
    for size in sizes:
        rows.append(_in_a_process(FLAGS.model, FLAGS.lot, size, FLAGS.steps))
        print(text_of(rows[-1]), flush=True)
        if FLAGS.output is not None:
            pathlib.Path(FLAGS.output).write_text(json.dumps(rows, indent=1) + "\n")


def text_of(row):
    """Returns a row in a line."""
    peak = "unknown" if row["peak_megabytes"] is None else f"{row['peak_megabytes']:.0f} MB"
    return (
        f"{row['model']}, batches of {row['lot']} in {row['physical_batch_size']}s: "
        f"{row['rows_per_second']:.1f} rows per second, {row['seconds']:.2f} s a step, peak memory "
        f"of a step {peak}"
    )


def _in_a_process(*arguments):
    command = [sys.executable, "-m", "benchmarks.lots", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=_ROOT, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}, stdout=subprocess.PIPE
    )
    if done.returncode:
        raise ValueError(f"Expected {command[-4:]} to be measured, got status {done.returncode}.")
    return json.loads(done.stdout.decode().splitlines()[-1])


def measure(model, lot, physical_batch_size, steps):
    """Makes private steps in this process.

    Args:
        model: One of `WORKLOADS`.
        lot: Rows of a batch.
        physical_batch_size: Of them, rows at once.
        steps: How many are timed.

    Returns:
        Dict with the fields of a row: seconds by the clock, megabytes over those of the idle
        process that holds model, data and traces.
    """
    from benchmarks.keras_engines import prepare

    step = prepare("book_keeping", model, *random_rows(model, lot), physical_batch_size)
    step.trace()
    before = None
    if memory.is_measurable():
        memory.start_peak_anew()
        before = memory.resident_megabytes()
    step.run()
    started = time.perf_counter()
    for _ in range(steps):
        step.run()
    seconds = (time.perf_counter() - started) / steps
    return {
        "model": model,
        "lot": lot,
        "physical_batch_size": physical_batch_size,
        "cores": len(os.sched_getaffinity(0)),
        "seconds": round(seconds, 3),
        "rows_per_second": round(lot / seconds, 2),
        "peak_megabytes": None if before is None else round(memory.peak_megabytes() - before, 1),
        "steps": steps,
        "versions": step.versions,
    }


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] in WORKLOADS:
        print(json.dumps(measure(sys.argv[1], *map(int, sys.argv[2:]))))
    else:
        define_flags()
        run_app(main)
