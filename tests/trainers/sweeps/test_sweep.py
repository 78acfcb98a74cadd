"""Sweeps: no run is lost or trained twice, whatever stops them."""

import os
import signal
import subprocess
import sys
import threading
import time
import types

import pytest

from tests.trainers.sweeps.sweep_doubles import (
    INF,
    TABLE,
    InlinePool,
    Place,
    Trainer,
    names,
    record_of,
    write,
)
from trainers.records.store import read_records
from trainers.sweeps.runs import run_folder, select
from trainers.sweeps.sweep import sweep

# --- a sweep ---


def test_each_finished_run_is_one_line(place):
    without = dict(guarantee_holds=False, epsilon=INF)
    trainer = Trainer()

    def run_cell(spec, output_dir, **rest):
        if spec.cell != "none/eps=inf":
            return trainer(spec, output_dir=output_dir, **rest)
        record = write(output_dir, spec, **without)
        return types.SimpleNamespace(record=record)

    assert place.sweep(run_cell, when_done="python -m table") == 0
    assert "Estimated time with 1 worker: unknown." in place.shown[0]
    assert place.shown[1:] == [
        "none/eps=inf seed 0: test accuracy 95.25 %, NO GUARANTEE, 10 s; 1 of 3 done, time left: "
        "20 s",
        "none/eps=1 seed 0: test accuracy 95.25 %, epsilon 0.9877, 10 s; 2 of 3 done, time left: "
        "10 s",
        "layer/eps=1 seed 0: test accuracy 95.25 %, epsilon 0.9877, 10 s; 3 of 3 done, time left: "
        "0 s",
        "python -m table",
    ]
    assert place.kept() == []
    log = (place.runs / "a_table" / "none-eps=1-seed0.log").read_text()
    for line in ("none/eps=1 seed 0", "training none/eps=1", "in the data", "printed by a library"):
        assert line in log


def test_models_are_kept_where_the_sweep_is_told_to(place, tmp_path):
    trainer, files = Trainer(), []

    def run_cell(spec, model_file=None, **rest):
        files.append(model_file)
        return trainer(spec, **rest)

    place.sweep(run_cell, specs=TABLE[:1], models_dir=str(tmp_path / "models"))
    assert files == [str(tmp_path / "models" / "a_table-none-eps=inf-seed0.keras")]
    assert (tmp_path / "models").is_dir()


def stop(exception):
    def event(*_):
        raise exception

    return event


@pytest.mark.parametrize("stopped_at", [0, 3, 5])
def test_a_stopped_sweep_finishes_each_run_exactly_once(place, stopped_at):
    runs = names(select(TABLE, 2))
    first = Trainer(**{runs[stopped_at]: stop(KeyboardInterrupt())})
    assert place.sweep(first, seeds=2) == 130
    assert first.trained == runs[:stopped_at] and len(place.kept()) == 1
    assert f"{stopped_at} of 6 done" in place.shown[-1] and "same command" in place.shown[-1]
    second = Trainer()
    assert place.sweep(second, seeds=2) == 0
    assert second.trained == runs[stopped_at:] and place.kept() == []
    assert [existed for _, existed in second.calls] == [True] + [False] * (5 - stopped_at)
    assert len(read_records(place.results)) == 6


@pytest.mark.parametrize(
    "error, part",
    [
        (ValueError("Expected this, got that.\nand more"), "failed: Expected this, got that. See"),
        (RuntimeError("odd"), "failed: RuntimeError: odd"),
        (ValueError("in user code:\n\n  File x\n\n  ValueError: shapes"), "ValueError: shapes"),
    ],
    ids=["value", "runtime", "traced"],
)
def test_a_run_that_fails_does_not_stop_the_others(place, error, part):
    trainer = Trainer(**{"none/eps=1 seed 0": stop(error)})
    assert place.sweep(trainer, when_done="All done.") == 1
    assert trainer.trained == ["none/eps=inf seed 0", "layer/eps=1 seed 0"]
    (line,) = [text for text in place.shown if text.startswith("none/eps=1 seed 0: ")]
    assert part in line and "\n" not in line
    assert place.shown[-1].startswith("Failed: 1 of 3 runs.\n  none/eps=1 seed 0: ")
    assert "All done." not in place.text and place.kept() == ["none-eps=1-seed0"]
    assert "Traceback" in (place.runs / "a_table" / "none-eps=1-seed0.log").read_text()


def test_a_run_folder_is_kept_until_there_is_a_record(place):
    def forgetful(spec, run_dir, **_):
        run_dir.mkdir(exist_ok=True)
        return types.SimpleNamespace(record=record_of(spec))

    assert place.sweep(forgetful, TABLE[:1]) == 1
    assert place.kept() == ["none-eps=inf-seed0"]
    assert "There is no record of none/eps=inf seed 0" in place.shown[-1]

    def other_settings(spec, run_dir, output_dir, **_):
        return types.SimpleNamespace(record=write(output_dir, spec.replaced(momentum=0.5)))

    assert place.sweep(other_settings, TABLE[:1]) == 1
    assert place.kept() == ["none-eps=inf-seed0"] and "momentum" in place.shown[-1]


def test_runs_finished_by_another_sweep_are_not_trained(place):
    trainer = Trainer(**{"none/eps=inf seed 0": lambda _, folder: write(folder, TABLE[1])})
    assert place.sweep(trainer) == 0
    assert trainer.trained == ["none/eps=inf seed 0", "layer/eps=1 seed 0"]
    assert "none/eps=1 seed 0: finished by another process; 2 of 3 done" in place.text


@pytest.fixture
def other_process():
    """Returns a function from a spec to the process that holds the lock of its run."""
    started = []
    hold = (
        "import fcntl, pathlib, sys, time\n"
        "path = pathlib.Path(sys.argv[1]); path.parent.mkdir(parents=True, exist_ok=True)\n"
        "file = open(path, 'a'); fcntl.flock(file, fcntl.LOCK_EX); print('held', flush=True)\n"
        "time.sleep(600)\n"
    )

    def start(place, spec):
        folder = run_folder(place.runs, spec)
        process = subprocess.Popen(
            [sys.executable, "-c", hold, f"{folder}.lock"], stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_run_that_another_process_trains_is_looked_at_again(place, other_process):
    holder = other_process(place, TABLE[0])

    def let_go(*_):
        holder.kill()
        holder.wait()

    trainer = Trainer(**{"layer/eps=1 seed 0": let_go})
    assert place.sweep(trainer) == 0
    assert trainer.trained == ["none/eps=1 seed 0", "layer/eps=1 seed 0", "none/eps=inf seed 0"]
    assert "none/eps=inf seed 0: another process is training it; skipped" in place.shown[1]
    assert "Looking again at none/eps=inf seed 0." in place.text


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_whose_worker_dies_is_tried_once_more(place, workers):
    dies = {"none/eps=1 seed 0": 1, "layer/eps=1 seed 1": 2}
    trainer = Trainer()
    code = place.sweep(
        trainer, seeds=2, workers=workers, make_pool=lambda workers: InlinePool(workers, dies)
    )
    assert code == 1
    expected = set(names(select(TABLE, 2))) - {"layer/eps=1 seed 1"}
    assert sorted(trainer.trained) == sorted(expected), "each once, but the one that always dies"
    assert "Looking again at none/eps=1 seed 0, layer/eps=1 seed 1." in place.text
    assert place.shown[-1].startswith("Failed: 1 of 6 runs.\n  layer/eps=1 seed 1: the process ")
    assert dies == {"none/eps=1 seed 0": 0, "layer/eps=1 seed 1": 0}


def test_folders_that_cannot_be_made_are_rejected_early(place, tmp_path):
    (tmp_path / "file").write_text("")
    trainer = Trainer()
    for option in ("results", "runs"):
        broken = Place(tmp_path)
        setattr(broken, option, tmp_path / "file" / "below")
        with pytest.raises(OSError, match="Expected (output|runs)_dir to be a folder"):
            broken.sweep(trainer)
    with pytest.raises(ValueError, match="workers to be a whole number >= 1, got 0"):
        place.sweep(trainer, workers=0)
    place.results.mkdir(exist_ok=True)
    (place.results / "notes.json").write_text("[]")
    with pytest.raises(ValueError, match="notes.json"):
        place.sweep(trainer)
    assert trainer.calls == []


# --- real workers; each takes seconds to start ---


def hangs(spec, *, run_dir, **_):
    """A `run_cell` that never ends."""
    run_dir.mkdir()
    (run_dir / "pid.partial").write_text(str(os.getpid()))
    (run_dir / "pid.partial").rename(run_dir / "pid")
    time.sleep(600)


def dies(spec, **_):
    """A `run_cell` whose process the system kills."""
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_process_that_is_killed_takes_no_other_along(place):
    code = sweep(
        TABLE[:1], run_cell=dies, output_dir=str(place.results), runs_dir=str(place.runs),
        show=place.shown.append,
    )  # fmt: skip
    assert code == 1 and place.shown[-1].startswith("Failed: 1 of 1 runs.")
    assert sum("the process that trained it died" in line for line in place.shown) == 3


@pytest.mark.slow
def test_sigterm_ends_the_workers_and_keeps_what_was_begun(place):
    pid = run_folder(place.runs, TABLE[0]) / "pid"

    def terminate():
        deadline = time.monotonic() + 120
        while not pid.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    sender = threading.Thread(target=terminate)
    sender.start()
    code = sweep(
        TABLE, run_cell=hangs, output_dir=str(place.results), runs_dir=str(place.runs),
        show=place.shown.append,
    )  # fmt: skip
    sender.join()
    assert code == 143
    assert signal.getsignal(signal.SIGTERM) is before
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert place.kept() == ["none-eps=inf-seed0"]
    assert "Stopped with 0 of 3 done" in place.shown[-1]


def test_an_interrupted_run_never_goes_on_with_other_settings(place):
    stopping = Trainer(**{"none/eps=1 seed 0": stop(KeyboardInterrupt())})
    assert place.sweep(stopping) == 130
    faster = [spec.replaced(learning_rate=9.0) for spec in TABLE]
    trainer = Trainer()
    assert place.sweep(trainer, faster) == 1
    # The first cell had a record, with other settings by now: it is trained again.
    assert trainer.trained == ["none/eps=inf seed 0", "layer/eps=1 seed 0"]
    assert "has other settings: learning_rate. Move it away" in place.shown[-1]
    assert (run_folder(place.runs, TABLE[1]) / "ledger").read_text() == "spent"
    # What changes nothing that is measured is no obstacle.
    same = [spec.replaced(physical_batch_size=8, search="long") for spec in TABLE]
    assert place.sweep(trainer, same) == 0
    assert trainer.trained[2:] == ["none/eps=1 seed 0", "layer/eps=1 seed 0"]
