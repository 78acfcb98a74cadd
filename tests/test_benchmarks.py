"""The benchmark of training steps: its rows, its turns and what it makes of failures."""

import json
import math
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import first_step, padding, report, stacks, turns
from benchmarks.workloads import WORKLOADS, random_rows

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIMITS = turns.Limits(seconds=60.0, megabytes=8_000.0)


@pytest.fixture
def fake_python(tmp_path):
    """Returns a function of shell code: an interpreter that runs that instead of any module."""

    def write(code, shell="/bin/sh"):
        path = tmp_path / "python"
        path.write_text(f"#!{shell}\n{code}\n")
        path.chmod(0o755)
        return str(path)

    return write


# A worker that knows all answers, fails on request, and keeps a list of what it was asked.
ACTOR = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    what = request["do"]
    engine = request.get("engine") or engine
    with open({log!r}, "a") as log:
        print(engine, what, file=log)
    speed = {{"torch": 2.0, "jax": 8.0}}.get(engine, 6.0)
    answer = {{
        "build": {{"parameters": 1, "versions": {{}}}},
        "first": {{"first_step_seconds": 0.1, "trace_megabytes": 1.0}},
        "settle": {{"peak_megabytes": 7.0, "wall_milliseconds": 30.0}},
        "turn": dict.fromkeys(["milliseconds", "wall_milliseconds", "idle_milliseconds"], speed),
    }}[what]
    if engine == "jax_vmap" and what == "settle":
        answer = {{"error": "no luck"}}
    print(json.dumps(answer), flush=True)
"""


@pytest.mark.slow
def test_rows_of_a_small_run(tmp_path, fake_python):
    """As from a shell; the peer is not there, and the run goes on."""
    output = tmp_path / "made" / "rows.json"
    dead = fake_python("echo no such module >&2; exit 3")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks.step_time",
            "--models=lenet5",
            "--batch_sizes=4",
            "--engines=keras,torch,book_keeping",
            "--rounds=1",
            f"--output={output}",
            f"--peer_python={dead}",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    keras, torch, private = rows = json.loads(output.read_text())
    assert all(list(row) == list(keras) for row in rows)
    assert [row["engine"] for row in rows] == ["keras", "torch", "book_keeping"]
    for row in rows:
        assert (row["model"], row["batch_size"]) == ("lenet5", 4)
    for row in (keras, private):
        assert row["error"] is None and row["milliseconds"] > 0 and row["wall_milliseconds"] > 0
        assert row["min_milliseconds"] <= row["milliseconds"] <= row["max_milliseconds"]
        assert row["ratio"] == row["own_ratio"]
        assert row["ratio"] == pytest.approx(row["milliseconds"] / keras["milliseconds"], abs=2e-3)
        assert (row["rounds"], row["parameters"]) == (1, 61_706)
        assert {"python", "tensorflow", "tfdpnorm"} <= set(row["versions"])
        if sys.platform == "linux":
            assert 0 < row["peak_megabytes"] < 2_000
    assert torch["error"] == "ended with code 3: no such module"
    assert torch["milliseconds"] is torch["ratio"] is torch["peak_megabytes"] is None
    assert output.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "book_keeping" in done.stdout and "Record: " in done.stdout


def test_engines_take_turns(fake_python, tmp_path):
    log = tmp_path / "log"
    python = fake_python(ACTOR.format(log=str(log)), shell=sys.executable)
    engines = ["torch", "jax_vmap", "jax", "opacus_hooks"]
    rows = turns.measure("mlp", [4], engines, rounds=3, limits=LIMITS, peer_python=python)
    done = [tuple(line.split()) for line in log.read_text().splitlines()]
    order = [engine for engine, what in done if what == "turn"]
    # A failed engine takes none, and everyone is first once.
    assert order == [
        "torch",
        "jax",
        "opacus_hooks",
        "jax",
        "opacus_hooks",
        "torch",
        "jax",
        "opacus_hooks",
        "torch",
    ]
    assert [what for _, what in done][-len(order) :] == ["turn"] * len(order)
    torch, failed, jax, hooks = rows
    assert (torch["milliseconds"], jax["milliseconds"], hooks["milliseconds"]) == (2.0, 8.0, 6.0)
    assert (torch["own_ratio"], jax["own_ratio"], hooks["own_ratio"]) == (1.0, 1.0, 3.0)
    assert {row["ratio"] for row in rows} == {None}, "a ratio to Keras without Keras"
    assert (torch["peak_megabytes"], torch["rounds"], torch["steps_per_round"]) == (7.0, 3, 3)
    assert failed["error"] == "no luck" and failed["milliseconds"] is failed["rounds"] is None


@pytest.mark.parametrize(
    "code, seconds, megabytes, message",
    [
        ("exec sleep 60", 0.3, 8_000.0, "took more than 0.3 s"),
        ("exec sleep 60", 30.0, 1e-3, "took more than 0.001 MB of memory"),
        ("kill -9 $$", 30.0, 8_000.0, "ended by SIGKILL"),
        ("exit 4", 30.0, 8_000.0, "ended with code 4: no message"),
    ],
)
def test_a_worker_that_gives_no_answer(fake_python, code, seconds, megabytes, message):
    process = turns.WorkerProcess(fake_python(code), megabytes)
    try:
        with pytest.raises(turns.EngineError, match=message):
            process.ask(seconds, do="build")
    finally:
        process.close()


def a_row(**values):
    row = dict.fromkeys(turns._FIELDS)
    row |= {
        "model": "mlp",
        "batch_size": 64,
        "engine": "keras",
        "milliseconds": 1.0,
        "min_milliseconds": 1.0,
        "max_milliseconds": 1.5,
        "peak_megabytes": 10.0,
        "ratio": 1.0,
    }
    return row | values


def test_table_shows_scaling_and_errors():
    failed = a_row(engine="jax", milliseconds=None, peak_megabytes=None, error="no luck")
    rows = [
        a_row(batch_size=256, milliseconds=10.0),
        a_row(batch_size=1024, milliseconds=41.0),
        a_row(batch_size=512, milliseconds=20.5),
        failed,
    ]
    lines = report.table(rows).splitlines()
    assert len(lines) == 5 and lines[0].split()[-1] == "scaling"
    assert lines[1].split()[:4] == ["mlp", "256", "keras", "10.0"] and "for" not in lines[1]
    assert lines[2].endswith("x2.00 for x2") and lines[3].endswith("x2.05 for x2")
    assert lines[4].endswith("jax     no luck")
    assert report.scaling(failed, rows) == ""


@pytest.mark.quick_cases("lenet5", "lenet5_batch", "mlp", "transformer")
@pytest.mark.parametrize("name", WORKLOADS)
def test_rows_are_what_the_model_takes(name):
    from benchmarks.keras_engines import build_model

    model, workload = build_model(name), WORKLOADS[name]
    trained = [model.trainable_weights]
    if workload.private_norm is not None:
        trained.append(build_model(name, workload.private_norm).trainable_weights)
    for weights in trained:
        assert sum(math.prod(w.shape) for w in weights) == workload.parameters
    x, y = random_rows(name, 3)
    assert x.shape == (3, *model.input_shape[1:])
    assert x.dtype == tf.as_dtype(model.inputs[0].dtype).as_numpy_dtype
    assert model.output_shape[1] == workload.num_classes
    assert y.shape == (3,) and 0 <= y.min() <= y.max() < workload.num_classes
    if workload.vocabulary_size:
        assert 1 <= x.min() and x.max() < workload.vocabulary_size, "padding, or an unknown id"
    np.testing.assert_array_equal(random_rows(name, 3)[0], x)


def test_a_row_of_the_first_step_has_medians_and_ratios():
    keras_runs = [{"make_private": 0.0, "first_step": t} for t in (2.0, 9.0, 3.0)]
    private_runs = [{"make_private": t, "first_step": 2 * t} for t in (3.0, 30.0, 4.5)]
    row = first_step.row_of("m", 8, {"keras": keras_runs, "private": private_runs})
    assert row["keras"]["first_step"] == 3.0 and row["rounds"] == 3
    assert row["make_private_ratio"] == 1.5 and row["first_step_ratio"] == 3.0
    assert "3.0x" in first_step.text_of(row)


def test_the_page_has_the_stacks_that_were_measured():
    rows = json.loads((ROOT / "benchmarks" / "stacks.json").read_text("utf-8"))
    assert stacks.text_of(rows) in (ROOT / "docs" / "performance.md").read_text("utf-8")


def test_the_page_has_the_padding_that_is_measured():
    page = (ROOT / "docs" / "guarantee.md").read_text("utf-8")
    assert page.count("\n| 1,500, ") == 3
    assert padding.text_of(padding.measure(*padding.PLANS[0])) in page
