"""Milliseconds and memory of one training step, by model, batch size and gradient engine.

    python -m benchmarks.step_time --models=lenet5,mlp --batch_sizes=64,256 \\
        --engines=keras,book_keeping --output=benchmarks/step_time.json

Engines take turns within one run, so that a drift of the machine's speed meets all of them alike;
`ratio` is to the engine "keras" on the same model and batch. Time is that of the process on all
cores (user and system), the median over the rounds. Memory is the growth of the peak over the
process before the first step, each measured in a process of its own.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import json
import pathlib
import statistics
import subprocess
import sys
import time

from absl import app, flags

FLAGS = flags.FLAGS
_MEMORY_STEPS = 3


def define_flags():
    """Defines this program's flags."""
    flags.DEFINE_list("models", ["lenet5"], "Names in benchmarks.workloads.MODELS.")
    flags.DEFINE_list("batch_sizes", ["256"], "Rows of a step.")
    flags.DEFINE_list("engines", ["keras", "book_keeping"], "keras, or engines of this library.")
    flags.DEFINE_integer("rounds", 10, "Timed steps of each engine.")
    flags.DEFINE_bool("memory", True, "Measure memory too (one process for each row).")
    flags.DEFINE_string("output", None, "JSON file to write; a PNG of the ratios goes beside it.")
    flags.DEFINE_bool("peak_only", False, "Print the growth of memory in MB for one row and stop.")


def measure(model_name, batch_size, engines, rounds):
    """Times the engines in turn and returns one dict an engine."""
    from benchmarks import workloads

    steps = {}
    for engine in engines:
        model = workloads.build_model(model_name)
        x, y = workloads.random_rows(model, batch_size)
        steps[engine] = workloads.make_step(model, engine, batch_size)
        for _ in range(2):  # the first call traces
            steps[engine](x, y)
    times = {engine: [] for engine in engines}
    for _ in range(rounds):
        for engine, step in steps.items():
            started = time.process_time()
            step(x, y)
            times[engine].append(1000 * (time.process_time() - started))
    medians = {engine: statistics.median(values) for engine, values in times.items()}
    plain = medians.get("keras")
    return [
        {
            "model": model_name,
            "batch_size": batch_size,
            "engine": engine,
            "milliseconds": round(medians[engine], 3),
            "ratio": round(medians[engine] / plain, 3) if plain else None,
            "peak_megabytes": None,
        }
        for engine in engines
    ]


def peak_growth(model_name, batch_size, engine):
    """Megabytes by which the peak memory of this process grows in a few steps."""
    from benchmarks import workloads

    model = workloads.build_model(model_name)
    x, y = workloads.random_rows(model, batch_size)
    step = workloads.make_step(model, engine, batch_size)
    concrete = step.get_concrete_function(x, y)  # tracing is not what is measured
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # starts the peak anew (Linux)
    before = _peak_kilobytes()
    for _ in range(_MEMORY_STEPS):
        concrete(x, y)
    return (_peak_kilobytes() - before) / 1024


def _peak_kilobytes():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def _peak_in_own_process(row):
    command = [
        sys.executable,
        "-m",
        "benchmarks.step_time",
        "--peak_only",
        f"--models={row['model']}",
        f"--batch_sizes={row['batch_size']}",
        f"--engines={row['engine']}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return round(float(done.stdout.strip().splitlines()[-1]), 1)


def plot(rows, path):
    """Draws the ratios to the plain step."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    places = list(dict.fromkeys((row["model"], row["batch_size"]) for row in rows))
    engines = list(dict.fromkeys(row["engine"] for row in rows))
    width = 0.8 / len(engines)
    for i, engine in enumerate(engines):
        found = {(r["model"], r["batch_size"]): r["ratio"] for r in rows if r["engine"] == engine}
        axes.bar(
            [p + i * width for p in range(len(places))],
            [found.get(place) or 0 for place in places],
            width,
            label=engine,
        )
    axes.set_xticks(
        [p + 0.4 - width / 2 for p in range(len(places))], [f"{m}\n{b}" for m, b in places]
    )
    axes.set(yscale="log", ylabel="process time / plain Keras step")
    axes.axhline(1.0, color="black", linewidth=0.5)
    axes.legend()
    figure.savefig(path, dpi=120)


def main(argv):
    """Measures what the flags ask for."""
    del argv
    sizes = [int(size) for size in FLAGS.batch_sizes]
    if FLAGS.peak_only:
        print(peak_growth(FLAGS.models[0], sizes[0], FLAGS.engines[0]))
        return
    rows = []
    for model in FLAGS.models:
        for size in sizes:
            for row in measure(model, size, FLAGS.engines, FLAGS.rounds):
                if FLAGS.memory:
                    row["peak_megabytes"] = _peak_in_own_process(row)
                print(json.dumps(row), flush=True)
                rows.append(row)
    if FLAGS.output:
        path = pathlib.Path(FLAGS.output)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(rows, indent=1) + "\n")
        plot(rows, path.with_suffix(".png"))


if __name__ == "__main__":
    define_flags()
    app.run(main)
