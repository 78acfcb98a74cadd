"""The benchmark of training steps: its rows, its turns and what it makes of failures."""

import json
import math
import os
import pathlib
import subprocess
import sys
import time
import types

import numpy as np
import pytest
import tensorflow as tf
from absl import app, flags

from benchmarks import devices, first_step, lots, padding, report, stacks, step_time, turns, worker
from benchmarks.engines import ENGINES, UnsupportedError
from benchmarks.workloads import WORKLOADS, random_rows
from tests.each import each
from tfdpnorm.data import poisson_batches
from tfdpnorm.keras_compat import devices_and_precision
from tfdpnorm.privacy.slots import Slots

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Where PyTorch with Opacus, or JAX, is installed; the skipped tests below name it.
PEER_PYTHON = os.environ.get("TFDPNORM_PEER_PYTHON", sys.executable)
LIMITS = turns.Limits(seconds=60.0, megabytes=8_000.0)


@pytest.fixture
def main(monkeypatch, capsys):
    """Returns a function of arguments: the program run in this process, up to its measuring."""
    monkeypatch.setattr(app.logging, "use_absl_handler", lambda: None)
    monkeypatch.setattr(app, "faulthandler", None)

    def run(*arguments):
        before = set(flags.FLAGS)
        step_time.define_flags()
        monkeypatch.setattr(sys, "argv", ["step_time", *arguments])
        capsys.readouterr()
        try:
            step_time.run_app()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        finally:
            for name in set(flags.FLAGS) - before - {"help", "helpshort", "helpfull", "helpxml"}:
                delattr(flags.FLAGS, name)
        out, err = capsys.readouterr()
        return types.SimpleNamespace(code=code, out=out, err=err)

    return run


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


@each(
    "argument, parts",
    [
        ("--models=lenet6", ["--models to be of lenet5, lenet5_batch", "got lenet6."]),
        ("--models=", ["--models to be of", "got none."]),
        ("--engines=keras,fast", ["--engines to be of keras, book_keeping", "got fast."]),
        ("--batch_sizes=0", ["--batch_sizes of whole numbers above 0, got '0'."]),
        ("--batch_sizes=-4", ["--batch_sizes", "got '-4'."]),
        ("--batch_sizes=64,many", ["--batch_sizes", "got 'many'."]),
        ("--batch_sizes=1.5", ["--batch_sizes", "got '1.5'."]),
        ("--batch_sizes=", ["--batch_sizes", "got none."]),
        ("--rounds=0", ["--rounds above 0, got 0."]),
        ("--rounds=few", ["--rounds=few"]),
        ("--timeout=-1", ["--timeout above 0, got -1"]),
        ("--timeout=nan", ["--timeout above 0, got nan"]),
        ("--memory_limit=0", ["--memory_limit above 0, got 0"]),
        ("--peer_python=/no/such/python", ["--peer_python", "'/no/such/python'"]),
        ("--output=rows.txt", ["--output to end in .json, got 'rows.txt'"]),
        ("--engine=keras", ["engine"]),
        ("--add", ["--output with --add"]),
        ("lenet5", ["--flag=value only, got ['lenet5']"]),
    ],
)
def test_bad_flags_end_in_a_line(main, monkeypatch, argument, parts):
    monkeypatch.setattr(turns, "measure", lambda *_, **__: pytest.fail("it measured"))
    result = main(argument)
    shown = result.err if isinstance(result.code, int) else f"{result.code}\n{result.err}"
    assert result.code not in (0, None) and result.out == ""
    assert all(part in shown for part in parts), shown
    assert "Traceback" not in shown and len(shown.strip().splitlines()) <= 2


def test_flags_reach_the_measurement(main, monkeypatch, tmp_path):
    asked = []

    def measure(model, sizes, engines, **options):
        asked.append((model, sizes, engines, options["rounds"], options["limits"]))
        return [a_row(model=model, batch_size=size, engine=e) for size in sizes for e in engines]

    monkeypatch.setattr(turns, "measure", measure)
    common = (
        "--models=mlp,lenet5,mlp",
        "--batch_sizes=64,8",
        "--engines=keras",
        "--rounds=3",
        "--timeout=5",
        "--memory_limit=99",
    )
    assert main(*common).code == 0
    rest = (["keras"], 3, turns.Limits(5.0, 99.0))
    assert asked == [(m, [s], *rest) for m in ("mlp", "lenet5") for s in (8, 64)]
    asked.clear()
    output = tmp_path / "rows.json"
    assert main(*common, "--interleave_batch_sizes", f"--output={output}").code == 0
    assert asked == [(model, [8, 64], *rest) for model in ("mlp", "lenet5")]
    assert len(json.loads(output.read_text())) == 4
    asked.clear()
    assert main("--models=all", "--engines=all").code == 0
    assert [a[0] for a in asked] == list(WORKLOADS) and asked[0][2] == list(ENGINES)


@pytest.mark.slow
def test_rows_are_added_to_a_record(main, monkeypatch, tmp_path):
    milliseconds = iter((1.0, 2.0, 3.0))
    monkeypatch.setattr(
        turns,
        "measure",
        lambda model, sizes, *_, **__: [
            a_row(model=model, batch_size=size, milliseconds=next(milliseconds)) for size in sizes
        ],
    )
    output = tmp_path / "rows.json"
    for arguments in (("--models=mlp",), ("--models=lenet5", "--add"), ("--models=mlp", "--add")):
        assert main(*arguments, f"--output={output}").code == 0
    rows = [(r["model"], r["milliseconds"]) for r in json.loads(output.read_text())]
    assert rows == [("lenet5", 2.0), ("mlp", 3.0)]
    output.write_text("[{}]")
    broken = main("--add", f"--output={output}")
    assert broken.code == 2 and "to be a record of this program" in broken.err
    assert output.read_text() == "[{}]"


def test_only_own_engines_have_other_devices_and_precisions(main, monkeypatch):
    monkeypatch.setattr(turns, "check_device", lambda device: pytest.fail("it looked"))
    for flag in ("--device=gpu", "--mixed_precision"):
        result = main(flag, "--engines=keras,torch,jax")
        assert result.code == 2 and "got torch, jax. Measure these by themselves." in result.err


def test_a_machine_without_a_gpu_says_so_in_a_line(main, monkeypatch):
    monkeypatch.setattr(turns, "measure", lambda *_, **__: pytest.fail("it measured"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    result = main("--device=gpu")
    assert (result.code, result.out) == (2, "")
    (line,) = result.err.strip().splitlines()
    assert line == (
        "Error: Expected a GPU for --device=gpu, got none: TensorFlow sees no GPU; see docs/gpu.md."
    )


def test_a_gpu_is_measured_by_the_clock_and_by_its_own_memory(monkeypatch, tmp_path):
    held = {"current": 3 * 2**20, "peak": 8 * 2**20}
    config = tf.config.experimental
    monkeypatch.setattr(devices_and_precision, "gpu_name", lambda: "NVIDIA L4")
    monkeypatch.setattr(config, "get_memory_info", lambda device: held)
    monkeypatch.setattr(
        config, "reset_memory_stats", lambda device: held.update(peak=held["current"])
    )
    built = {"cuda_version": "12.2", "cudnn_version": "8", "is_cuda_build": True}
    monkeypatch.setattr(tf.sysconfig, "get_build_info", lambda: built)
    monkeypatch.setattr(devices, "_DRIVER", tmp_path / "version")
    assert devices.Gpu().description == {"device": "NVIDIA L4", "driver": None}
    text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 2024\n"
    (tmp_path / "version").write_text(text)
    gpu = devices.Gpu()
    assert gpu.description == {"device": "NVIDIA L4", "driver": "550.54.15"}
    assert gpu.versions == {"cuda": "12.2", "cudnn": "8"}
    assert gpu.start_peak_anew() == 3 and gpu.peak_megabytes() == 3
    held["peak"] = 5 * 2**20
    assert gpu.peak_megabytes() == 5
    before = gpu.seconds()
    time.sleep(0.05)
    assert 0.05 <= gpu.seconds() - before
    assert devices.environment("cpu") == {"CUDA_VISIBLE_DEVICES": "-1"}


@pytest.mark.slow
def test_a_step_in_half_precision_is_a_row_of_its_own():
    rows = turns.measure(
        "lenet5",
        [4],
        ["book_keeping"],
        rounds=1,
        limits=LIMITS,
        peer_python=sys.executable,
        on=turns.On("cpu", True),
    )
    assert [(r["error"], r["half"], r["device"], r["driver"]) for r in rows] == [
        (None, True, "CPU", None)
    ]


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


def test_a_slow_engine_takes_fewer_turns(fake_python, tmp_path):
    sleep = "__import__('time').sleep(0.6 * (what == 'turn'))"
    slow = ACTOR.replace("    speed =", f"    {sleep}\n    speed =")
    python = fake_python(slow.format(log=str(tmp_path / "log")), shell=sys.executable)
    limits = turns.Limits(seconds=0.5, megabytes=8_000.0)
    (row,) = turns.measure("mlp", [4], ["torch"], rounds=3, limits=limits, peer_python=python)
    assert (row["error"], row["rounds"], row["milliseconds"]) == (None, 1, 2.0)


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


def test_reasons_are_one_short_line():
    def reason(error):
        text = worker.short_reason(error)
        assert "\n" not in text and len(text) <= 200
        return text

    assert reason(ValueError("one\ntwo")) == "ValueError: one"
    assert reason(UnsupportedError("no rule for Conv2D")) == "no rule for Conv2D"
    in_a_graph = "in user code:\n\n    File\n        x\n\n    TypeError: bad dtype.\n"
    assert reason(TypeError(in_a_graph)) == "TypeError: bad dtype."
    assert reason(KeyError()) == "KeyError: "
    assert "x" * 100 in reason(RuntimeError("x" * 1000))
    missing = reason(ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn"))
    assert missing == f"torch is not installed for {sys.executable}, see --peer_python"


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


def test_an_engine_that_is_the_plain_one_of_a_framework_is_not_private():
    assert {report._kind(e.plain) for e in ENGINES.values()} == {"not private"}
    private = [name for name in ENGINES if name not in {e.plain for e in ENGINES.values()}]
    assert "not private" not in {report._kind(name) for name in private}


@pytest.mark.parametrize("ratio", [1.0, None])
def test_plot(tmp_path, ratio):
    rows = [a_row(model=m, batch_size=b, ratio=ratio) for m in ("mlp", "lenet5") for b in (4, 8)]
    rows.append(
        a_row(engine="jax", milliseconds=None, ratio=None, peak_megabytes=None, error="long " * 50)
    )
    report.plot(rows, tmp_path / "rows.png")
    assert (tmp_path / "rows.png").read_bytes().startswith(b"\x89PNG")


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


@pytest.mark.slow
def test_every_engine_of_tensorflow_takes_a_step():
    engines = [name for name, engine in ENGINES.items() if not engine.peer]
    rows = turns.measure("mlp", [4], engines, rounds=1, limits=LIMITS, peer_python=sys.executable)
    assert [row["error"] for row in rows] == [None] * len(engines)
    assert all(row["milliseconds"] > 0 for row in rows)


@pytest.mark.slow
def test_an_engine_that_a_model_is_too_much_for():
    rows = turns.measure(
        "lenet5",
        [4],
        ["tfp_native_fast_clipping", "keras"],
        rounds=1,
        limits=LIMITS,
        peer_python=sys.executable,
    )
    assert rows[0]["error"] == "no rule for Conv2D" and rows[0]["milliseconds"] is None
    assert rows[1]["ratio"] == 1.0


def skip_without(*modules):
    code = f"import importlib.util as u; assert all(map(u.find_spec, {modules}))"
    if subprocess.run([PEER_PYTHON, "-c", code], stderr=subprocess.DEVNULL).returncode:
        pytest.skip(
            f"{' or '.join(modules)} is not installed for {PEER_PYTHON}; "
            "TFDPNORM_PEER_PYTHON can name another interpreter"
        )


@pytest.mark.slow
def test_a_private_normalisation_in_place_of_the_models():
    engines = ["keras", "book_keeping", "tfp_native_model"]
    rows = turns.measure(
        "lenet5_batch", [4], engines, rounds=1, limits=LIMITS, peer_python=sys.executable
    )
    assert [row["milliseconds"] is None for row in rows] == [False, False, True]
    assert "no private normalisation" in rows[2]["error"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, w in WORKLOADS.items() if w.private_norm is None])
@pytest.mark.parametrize(
    "engines, modules",
    [
        (["torch", "opacus_hooks", "opacus_ghost"], ("torch", "opacus")),
        (["jax", "jax_vmap"], ("jax",)),
    ],
    ids=["torch", "jax"],
)
def test_peers_have_as_many_parameters_and_take_steps(name, engines, modules):
    skip_without(*modules)
    rows = turns.measure(name, [4], engines, rounds=1, limits=LIMITS, peer_python=PEER_PYTHON)
    assert [row["error"] for row in rows] == [None] * len(engines)
    assert {row["parameters"] for row in rows} == {WORKLOADS[name].parameters}


@pytest.mark.slow
def test_per_example_gradients_that_opacus_is_given():
    """Of the standardised convolution, for which it has none of its own."""
    skip_without("torch", "opacus")
    code = """
import torch
from opacus import GradSampleModule
from benchmarks.peers import opacus_engines
from benchmarks.peers.torch_models import WeightStandardizedConv2d
torch.manual_seed(0)
layer = WeightStandardizedConv2d(3, 4, 2)
x = torch.rand(5, 3, 8, 8)
loss = lambda outputs: (outputs.flatten(1) ** 2).mean(1)
single = []
for i in range(5):
    single.append(torch.autograd.grad(loss(layer(x[i:i + 1])).sum(), list(layer.parameters())))
loss(GradSampleModule(layer, loss_reduction="sum")(x)).sum().backward()
for p, *expected in zip(layer.parameters(), *single):
    torch.testing.assert_close(p.grad_sample, torch.stack(expected), rtol=1e-4, atol=1e-6)
"""
    done = subprocess.run(
        [PEER_PYTHON, "-W", "ignore", "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_row_of_the_first_step_has_medians_and_ratios():
    keras_runs = [{"make_private": 0.0, "first_step": t} for t in (2.0, 9.0, 3.0)]
    private_runs = [{"make_private": t, "first_step": 2 * t} for t in (3.0, 30.0, 4.5)]
    row = first_step.row_of("m", 8, {"keras": keras_runs, "private": private_runs})
    assert row["keras"]["first_step"] == 3.0 and row["rounds"] == 3
    assert row["make_private_ratio"] == 1.5 and row["first_step_ratio"] == 3.0
    assert "3.0x" in first_step.text_of(row)


@pytest.mark.slow
def test_the_first_step_of_both_sides_is_measured():
    assert first_step.measure("keras", "lenet5", 4)["first_step"] > 0
    parts = first_step.measure("private", "lenet5", 4)
    assert 0 < parts["make_private"] and 0 < parts["trace"] < parts["first_step"]
    assert parts["proof"] > 0


@pytest.mark.slow
def test_a_lot_is_measured_in_physical_batches():
    row = lots._in_a_process("lenet5", 16, 4, 1)
    assert (row["lot"], row["physical_batch_size"]) == (16, 4)
    assert row["rows_per_second"] == pytest.approx(16 / row["seconds"], rel=0.1)
    assert "batches of 16 in 4s" in lots.text_of(row)


@each("physical", [None, 8])
def test_padding_is_that_of_sampled_batches(physical):
    """Rows per expected row, against lots that are drawn: by both rules."""
    found = padding.measure(100, 20, 50, 1e-3, physical)
    batches = poisson_batches(np.zeros(100), expected_batch_size=20)
    drawn = list(batches.as_dataset(Slots(*found["slots"]), insecure_seed=0).take(300))
    rows = [lot.mask.shape.num_elements() / 20 for lot in drawn]
    assert np.mean(rows) == pytest.approx(found["rows"], abs=1e-3)
    sizes = np.array([lot.mask.numpy().sum() for lot in drawn])
    least = padding.rows_before(100, 20, physical)
    assert least == (40 if physical is None else 8)  # 20 + 4 x 4
    before = least * np.maximum(1, np.ceil(sizes / least)) / 20
    error = before.std() / np.sqrt(300)
    assert abs(before.mean() - found["rows_before"]) <= 4 * error + 1e-3


def test_the_page_has_the_stacks_that_were_measured():
    rows = json.loads((ROOT / "benchmarks" / "stacks.json").read_text("utf-8"))
    assert stacks.text_of(rows) in (ROOT / "docs" / "performance.md").read_text("utf-8")


@each("size", [64, 256, 1_024, 4_096])
@each("physical", [None, 64])
def test_the_page_has_the_padding_that_is_measured(size, physical):
    page = (ROOT / "docs" / "guarantee.md").read_text("utf-8")
    assert padding.text_of(padding.measure(60_000, size, 1_000, 1e-5, physical)) in page
