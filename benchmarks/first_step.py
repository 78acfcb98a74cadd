"""Seconds until the first update is made: plain Keras, and this library, side by side.

    python -m benchmarks.first_step --models=lenet5,MobileNetV2 --output=first_step.json

Each round starts a fresh process for each model and side, which takes turns. Writes a JSON list of
rows and a PNG next to it; benchmarks/README.md says what the columns mean.
"""

import contextlib
import importlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from unittest import mock

from absl import flags

from benchmarks.step_time import chosen, run_app
from benchmarks.workloads import WORKLOADS

FLAGS = flags.FLAGS
APPLICATIONS = ("MobileNetV2", "DenseNet121", "EfficientNetB0")
BERTS = ("bert", "bert_lora")  # of KerasHub, 2 layers, 32 wide; all of it or LoRA is trained
MODELS = (*WORKLOADS, *APPLICATIONS, *BERTS)
SIDES = ("keras", "private")
_ROOT = pathlib.Path(__file__).resolve().parents[1]
_LOTS = 10


def define_flags():
    """Defines this program's flags."""
    flags.DEFINE_list("models", ["lenet5"], f"Of {', '.join(MODELS)}; or all.")
    flags.DEFINE_integer("batch_size", 64, "Rows of a step.", lower_bound=1)
    flags.DEFINE_integer("rounds", 3, "Fresh processes of each model and side.", lower_bound=1)
    flags.DEFINE_float("timeout", 600.0, "Seconds that a process may take.")
    flags.DEFINE_string("output", None, "JSON file to write; a PNG is written next to it.")


def main():
    """Measures what the flags ask for."""
    path = None if FLAGS.output is None else pathlib.Path(FLAGS.output)
    if path is not None and path.suffix != ".json":
        raise ValueError(f"Expected --output to end in .json, got {FLAGS.output!r}.")
    rows = []
    for model in chosen("models", FLAGS.models, MODELS):
        runs = {side: [] for side in SIDES}
        for _ in range(FLAGS.rounds):
            for side in SIDES:
                runs[side].append(_in_a_process(side, model))
        rows.append(row_of(model, FLAGS.batch_size, runs))
        print(text_of(rows[-1]), flush=True)
        if path is not None:  # each time: a long run that is cut short keeps what it has
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(rows, indent=1) + "\n")
    if path is not None:
        plot(rows, path.with_suffix(".png"))
        print(f"Record: {path}, {path.with_suffix('.png')}")


def row_of(model, batch_size, runs):
    """Returns the row of a model, a dict.

    Args:
        model: Its name.
        batch_size: Rows of a step.
        runs: Dict from each of `SIDES` to a list of what `measure` gave.
    """
    middle = {
        side: {name: round(statistics.median(r[name] for r in found), 2) for name in found[0]}
        for side, found in runs.items()
    }
    keras, private = middle["keras"], middle["private"]
    step = max(keras["first_step"], 0.01)
    of_row = [statistics.median(r.get("row", 0) for r in runs[side]) for side in SIDES]
    return {
        "model": model,
        "batch_size": batch_size,
        "rounds": len(runs["keras"]),
        "cores": len(os.sched_getaffinity(0)),
        "keras": keras,
        "private": private,
        "first_step_ratio": round(private["first_step"] / step, 2),
        "make_private_ratio": round(private["make_private"] / step, 2),
        "row_ratio": round(of_row[1] / of_row[0], 2) if of_row[0] else None,
        "runs": runs,
    }


def text_of(row):
    """Returns a row in a line."""
    return (
        f"{row['model']}: Keras {row['keras']['first_step']:.1f} s, make_private "
        f"{row['private']['make_private']:.1f} s ({row['make_private_ratio']:.1f}x), first step "
        f"{row['private']['first_step']:.1f} s ({row['first_step_ratio']:.1f}x); a row of later "
        f"steps {row['row_ratio']}x"
    )


def plot(rows, path):
    """Draws process time by model."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 1 + 0.5 * len(rows)), layout="constrained")
    bars = (
        ("keras", "first_step", "Keras: first step", 0.27),
        ("private", "first_step", "private: first step", 0.0),
        ("private", "make_private", "make_private", -0.27),
    )
    for side, field, label, offset in bars:
        places = [i - offset for i in range(len(rows))]
        axes.barh(places, [row[side][field] for row in rows], height=0.25, label=label)
    axes.set_yticks(range(len(rows)), [row["model"] for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("process time, seconds")
    axes.set_title("The first training step: mostly tracing and verification")
    axes.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _in_a_process(side, model):
    command = [sys.executable, "-m", "benchmarks.first_step", side, model, str(FLAGS.batch_size)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        command,
        cwd=_ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=FLAGS.timeout,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ValueError(f"Expected {model} to make a step of {side}, got: {last}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure(side, name, batch_size):
    """Makes the first step of one side in this process.

    Args:
        side: One of `SIDES`.
        name: One of `MODELS`.
        batch_size: Rows of a step.

    Returns:
        Dict of process seconds: `make_private`, 0 for Keras, and in it `rehearsal`; `first_step`,
        and in it `trace` and `proof`; `wall_first_step` by the clock; `row`, of a computed row in
        later steps.
    """
    import numpy as np
    from tensorflow import keras

    from benchmarks.keras_engines import build_model
    from benchmarks.workloads import random_rows

    rows = _LOTS * batch_size
    if name in APPLICATIONS:
        rng = np.random.default_rng(0)
        model = application(name)
        x, y = rng.random((rows, 32, 32, 3), np.float32), rng.integers(0, 10, rows, np.int32)
    elif name in BERTS:
        rng = np.random.default_rng(0)
        model = bert(with_lora=name == "bert_lora")
        x = {name: rng.integers(1, 1_000, (rows, 64), np.int32) for name in model.input}
        x |= {"padding_mask": np.ones((rows, 64), np.int32), "segment_ids": 0 * x["segment_ids"]}
        y = rng.integers(0, 4, rows, np.int32)
    else:
        workload = WORKLOADS[name]
        model = build_model(name, None if side == "keras" else workload.private_norm)
        x, y = random_rows(name, rows)
    settings = {
        "optimizer": keras.optimizers.SGD(0.01),
        "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    }
    if side == "keras":
        started, wall = time.process_time(), time.perf_counter()
        model.compile(**settings)
        model.fit(x, y, batch_size=batch_size, steps_per_epoch=1, verbose=0)
        seconds = {"make_private": 0.0, "first_step": time.process_time() - started}
        seconds["wall_first_step"] = time.perf_counter() - wall
        return seconds | {"row": _of_row(model, x, y, batch_size, batch_size=batch_size)}
    return _private(model, name, settings, x, y, batch_size)


def _private(model, name, settings, x, y, batch_size):
    from benchmarks.workloads import random_rows
    from tfdpnorm.independence import book_keeping as training
    from tfdpnorm.privacy import make_plan
    from tfdpnorm.privacy.slots import slots_of_plan
    from tfdpnorm.training.checks.independence import IndependenceChecks

    module = importlib.import_module("tfdpnorm.training.make_private")
    spent = {}
    timed = (
        ("rehearsal", module, "rehearse"),
        ("trace", IndependenceChecks, "trace"),
        ("proof", training, "prove_pass"),
    )
    public, rows = None, WORKLOADS[name].public_rows if name in WORKLOADS else 0
    if rows:
        public, _ = random_rows(name, rows, seed=1)
    with contextlib.ExitStack() as stack:
        for part, owner, function in timed:
            stack.enter_context(_timed(spent, part, owner, function))
        started = time.process_time()
        plan = make_plan(
            num_examples=len(y),
            expected_batch_size=batch_size,
            steps=1000,
            l2_norm_clip=1.0,
            noise_multiplier=1.0,
            delta=1e-7,
        )
        private = module.make_private(model, plan, public_batch=public)
        seconds = {"make_private": time.process_time() - started}
        seconds["rehearsal"] = spent.get("rehearsal", 0.0)
        started, wall = time.process_time(), time.perf_counter()
        private.compile(**settings)
        private.fit(x, y, epochs=1, steps_per_epoch=1, verbose=0)
        seconds["first_step"] = time.process_time() - started
        seconds["wall_first_step"] = time.perf_counter() - wall
        seconds["row"] = _of_row(private, x, y, slots_of_plan(plan, None).rows)
    return seconds | {part: spent.get(part, 0.0) for part in ("trace", "proof")}


def _of_row(model, x, y, rows, **settings):
    """Process seconds of a row in the later of 20 steps that compute so many rows each."""
    for _ in range(2):  # what a second call of fit makes again is no part of it
        started = time.process_time()
        model.fit(x, y, epochs=2, steps_per_epoch=_LOTS, verbose=0, **settings)
    return (time.process_time() - started) / (2 * _LOTS * rows)


def _timed(spent, part, owner, name):
    """Context in which a function adds its process time to `spent[part]`."""
    function = getattr(owner, name)

    def timed(*args, **kwargs):
        started = time.process_time()
        try:
            return function(*args, **kwargs)
        finally:
            spent[part] = spent.get(part, 0.0) + time.process_time() - started

    return mock.patch.object(owner, name, timed)


def application(name):
    """A network of `keras.applications` for [32, 32, 3], with group normalisation.

    Batch normalisation has no per-example gradients. Both sides get the same network.
    """
    from tensorflow import keras

    from tfdpnorm.convert import convert_model

    keras.utils.set_random_seed(0)
    made = getattr(keras.applications, name)
    model = made(weights=None, input_shape=(32, 32, 3), classes=10, classifier_activation=None)

    return convert_model(model, "group").model


def bert(with_lora):
    """A BERT of KerasHub with four outputs, without dropout."""
    import keras_hub
    from tensorflow import keras

    keras.utils.set_random_seed(0)
    backbone = keras_hub.models.BertBackbone(1_000, 2, 2, 32, 64, dropout=0.0)
    if with_lora:
        backbone.enable_lora(4)
    return keras.Model(backbone.input, keras.layers.Dense(4)(backbone.output["pooled_output"]))


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] in SIDES:
        print(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
    else:
        define_flags()
        run_app(main)
