"""Sweeps: which runs are left, how long they take, and that none is lost or trained twice."""

import concurrent.futures
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import types
from concurrent.futures.process import BrokenProcessPool

import pytest
import tensorflow as tf

from tfdpnorm.experiments import cells, read_records, write_record
from tfdpnorm.experiments.run_settings import claim_run_dir, differences
from tfdpnorm.experiments.spec import ExperimentSpec, WeightNoiseSpec
from tfdpnorm.experiments.sweep import sweep
from tfdpnorm.experiments.sweep_runs import is_done, run_folder, run_name, select
from tfdpnorm.experiments.sweep_times import duration, estimate, listing, time_left
from tfdpnorm.experiments.sweep_worker import Job, train

INF = float("inf")
TABLE = [
    ExperimentSpec(
        experiment="a_table",
        cell=cell,
        dataset="mnist",
        epsilon=epsilon,
        epochs=2,
        model_options=(("pooling", "average"), ("activation", "tanh")),
        expected_batch_size=50,
    )
    for cell, epsilon in (("none/eps=inf", INF), ("none/eps=1", 1.0), ("layer/eps=1", 1.0))
]


def changed(spec, **fields):
    return dataclasses.replace(spec, **fields)


def record_of(spec, **fields):
    """What a runner writes for a spec: by hand, not by the code that is tested."""
    return {
        "experiment": spec.experiment, "cell": spec.cell, "paper_value": None,
        "test_accuracy": 95.25, "test_accuracy_ema": None, "epsilon": 0.98765,
        "epsilon_target": 1.0, "epsilon_rdp": 0.98765, "epsilon_pld": 0.9, "epsilon_claimed": None,
        "accountant": "rdp", "delta": 1e-5, "guarantee_holds": True, "no_guarantee_because": [],
        "num_examples": 1000, "expected_batch_size": 50, "sampling_rate": 0.05,
        "noise_multiplier": 1.0, "l2_norm_clip": 1.0, "updates": 40, "weight_noise_stddev": None,
        "statistics": "none", "engine": "book_keeping", "noise_generator": "philox",
        "insecure_seed": None, "resumes": 0, "seed": spec.seed, "scale": "full",
        "search": "not searched", "curve": [], "seconds": 10.0, "examples_per_second": 200.0,
        "flags": {**dataclasses.asdict(spec), "precision": "float32"},
        "versions": {}, "commit": None,
        **fields,
    }  # fmt: skip


def write(folder, spec, **fields):
    record = record_of(spec, **fields)
    write_record(folder, record, fields=tuple(record))
    return record


class InlinePool:
    """Trains in this process; `dies` names how often a run takes its worker down."""

    def __init__(self, workers, dies=()):
        self._workers, self._dies = workers, dies
        self._futures, self._lock = [], threading.Lock()
        self.broken = False

    def submit(self, function, spec, job):
        if self.broken:
            raise BrokenProcessPool("broken")
        future = concurrent.futures.Future()
        self._futures.append(future)
        if self._dies and self._dies.get(run_name(spec), 0):
            self._dies[run_name(spec)] -= 1
            self.broken = True
            with self._lock:
                for other in self._futures:
                    if not other.done():
                        other.set_exception(BrokenProcessPool("died"))
        elif self._workers > 1 and self._dies:
            # In flight until the next one is submitted.
            threading.Timer(0.3, lambda: self._finish(future, function, spec, job)).start()
        else:
            future.set_result(function(spec, job))
        return future

    def _finish(self, future, *call):
        with self._lock:
            if not future.done():
                future.set_result(call[0](*call[1:]))

    def stop(self):
        self.broken = True


class Trainer:
    """A `run_cell` that trains nothing, claims its folder as the runners do, and remembers."""

    def __init__(self, **events):
        self.calls, self.trained, self.events = [], [], events

    def __call__(self, spec, *, data_dir, output_dir, echo, run_dir, resume):
        name = run_name(spec)
        assert resume is True and pathlib.Path(run_dir) == run_dir
        self.calls.append((name, run_dir.exists()))
        with claim_run_dir(run_dir, spec, resume):
            (run_dir / "ledger").write_text("spent")
        echo(f"training {name}\n  in {data_dir}")
        print("printed by a library")
        event = self.events.get(name)
        if event is not None:
            event(spec, output_dir)
        self.trained.append(name)
        return types.SimpleNamespace(record=write(output_dir, spec))


class Place:
    """Folders for a sweep, and what it showed."""

    def __init__(self, folder):
        self.results, self.runs, self.shown = folder / "results", folder / "runs", []

    @property
    def text(self):
        return "\n".join(self.shown)

    def sweep(self, run_cell, specs=TABLE, **options):
        self.shown = []
        options = {"make_pool": InlinePool, "show": self.shown.append, **options}
        return sweep(
            specs,
            run_cell=run_cell,
            output_dir=str(self.results),
            runs_dir=str(self.runs),
            data_dir="the data",
            **options,
        )

    def kept(self):
        return sorted(path.name for path in self.runs.glob("*/*") if path.is_dir())


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def names(specs):
    return [run_name(spec) for spec in specs]


# --- which runs ---


def test_runs_are_ordered_seed_by_seed():
    runs = select(TABLE, 3)
    assert [(s.seed, s.cell) for s in runs] == [
        (seed, spec.cell) for seed in (0, 1, 2) for spec in TABLE
    ]
    assert [changed(s, seed=0) for s in runs] == 3 * TABLE


@pytest.mark.parametrize(
    "patterns, chosen",
    [
        ([], [0, 1, 2]),
        (["layer/eps=1", "none/eps=1"], [1, 2]),
        (["*/eps=1"], [1, 2]),
        (["none/*", "none/eps=1"], [0, 1]),
        (["none/eps=[!i]*"], [1]),
    ],
)
def test_patterns_choose_cells_in_the_tables_order(patterns, chosen):
    assert select(TABLE, 1, patterns) == [TABLE[index] for index in chosen]


def test_a_name_with_a_bracket_is_itself():
    odd = [changed(TABLE[0], cell="none/eps=[1]"), TABLE[1]]
    assert select(odd, 1, ["none/eps=[1]"]) == odd


@pytest.mark.parametrize(
    "seeds, patterns, part",
    [
        (0, [], "seeds >= 1, got 0"),
        (-2, [], "seeds >= 1, got -2"),
        (1, ["*/eps=1", "NONE/eps=1"], "'NONE/eps=1', which matches none of none/eps=inf, none/"),
        (1, [""], "got ''"),
    ],
)
def test_what_makes_no_sense_is_refused(seeds, patterns, part):
    with pytest.raises(ValueError, match=re.escape(part)):
        select(TABLE, seeds, patterns)


@pytest.mark.parametrize("bits", range(16))
def test_what_is_left_is_all_minus_what_is_done(place, bits):
    """Whatever subset of records exists, and whatever others do."""
    runs = select(TABLE[:2], 2)
    recorded = [spec for index, spec in enumerate(runs) if bits >> index & 1]
    for spec in recorded:
        write(place.results, spec)
    write(place.results, changed(TABLE[0], experiment="another_table"))
    write(place.results, changed(TABLE[0], seed=7))
    write(place.results, changed(TABLE[1], learning_rate=0.123))
    write(place.results, changed(TABLE[1], cell="gone/eps=1"))
    before = sorted(place.results.iterdir())

    trainer = Trainer()
    assert place.sweep(trainer, TABLE[:2], seeds=2, dry_run=True) == 0
    assert trainer.calls == [] and sorted(place.results.iterdir()) == before
    assert not place.runs.exists() and "Nothing was trained" in place.text
    assert place.sweep(trainer, TABLE[:2], seeds=2) == 0
    assert trainer.trained == [name for name in names(runs) if name not in names(recorded)]
    assert f"{len(recorded)} of 4 runs done, {4 - len(recorded)} left" in place.shown[0]
    assert len(sorted(place.results.iterdir())) == len(before) + len(trainer.trained)
    assert place.sweep(trainer, TABLE[:2], seeds=2, when_done="Look!") == 0
    assert len(trainer.trained) == 4 - len(recorded) and place.shown[1:] == ["Look!"]


def test_the_listing_names_seeds_times_and_records_with_other_settings():
    runs = select(TABLE[:2], 3)
    records = [
        record_of(changed(TABLE[0], seed=0)),
        record_of(changed(TABLE[0], seed=2)),
        record_of(changed(TABLE[0], seed=0, learning_rate=9.0)),
        record_of(changed(TABLE[0], seed=1, momentum=0.1)),
    ]
    title, first, second, total = listing(runs, records, 2).splitlines()
    assert title.startswith("a_table: 2 of 6 runs done, 4 left")
    assert "none/eps=inf  done: 0,2  left: 1  each: 10 s" in first
    assert "(2 records with other settings)" in first
    assert "done: -  left: 0,1,2" in second and "other settings" not in second
    assert total == "Estimated time with 2 workers: 20 s."


# --- settings ---


@pytest.mark.parametrize("experiment", cells.EXPERIMENTS)
def test_a_spec_is_itself_after_the_way_through_json(tmp_path, experiment):
    specs = [changed(spec, seed=3) for spec in cells.cells(experiment)]
    for spec in specs:
        record = record_of(spec)
        write_record(tmp_path, record, fields=tuple(record))
    records = read_records(tmp_path)
    for spec in specs:
        assert [r["cell"] for r in records if not differences(spec, r["flags"])] == [spec.cell]
        assert is_done(spec, records) and not is_done(changed(spec, seed=2), records)


# --- times ---


def test_the_estimate_is_the_mean_of_the_same_runs():
    spec = changed(TABLE[1], seed=5)
    records = [
        record_of(changed(TABLE[1], seed=0), seconds=10.0),
        record_of(changed(TABLE[1], seed=1), seconds=30.0),
        record_of(changed(TABLE[1], learning_rate=7.0), seconds=1000.0),
        record_of(TABLE[2], seconds=5000.0),
    ]
    assert estimate(spec, records) == pytest.approx(20.0)
    # 40 updates of 50 took 1000 s and 5000 s; these are 4 epochs of the same 1000 examples.
    longer = changed(spec, epochs=4, expected_batch_size=80)
    assert estimate(longer, records[2:]) == pytest.approx(2 * 3000.0)
    assert estimate(spec, []) is None


def test_the_estimate_prefers_the_same_network():
    other = changed(TABLE[0], cell="other", model="resnet9", model_options=())
    records = [record_of(TABLE[0], seconds=10.0), record_of(other, seconds=90.0)]
    assert estimate(TABLE[1], records) == pytest.approx(10.0)
    assert estimate(TABLE[1], records[1:]) == pytest.approx(90.0)


def test_work_that_is_not_known_is_not_scaled_by():
    record = record_of(TABLE[0], seconds=10.0, updates=None)
    assert estimate(changed(TABLE[1], epochs=20), [record]) == 10.0


def test_a_run_that_was_taken_up_again_counts_whole():
    spec = TABLE[1]
    # 40 updates of 50 at 200 per second, of which the last two seconds were recorded.
    records = [record_of(spec, resumes=1, seconds=2.0, examples_per_second=200.0)]
    assert estimate(spec, records) == pytest.approx(10.0)
    # Taken up after the last update: says nothing.
    nothing = record_of(spec, resumes=1, seconds=0.0, examples_per_second=0.0)
    assert estimate(spec, [nothing]) is None
    assert estimate(spec, [nothing, *records]) == pytest.approx(10.0)


def test_runs_without_privacy_are_scaled_by_their_own_batches():
    short = WeightNoiseSpec(experiment="t", cell="a", dataset="mnist", epochs=2, batch_size=100)
    record = record_of(
        short, seconds=12.0, expected_batch_size=None, resumes=None, updates=20,
        examples_per_second=2000 / 12,
    )
    long = changed(short, cell="b", epochs=6, batch_size=50)
    assert estimate(long, [record]) == pytest.approx(36.0)


def test_time_left_is_shared_by_the_workers():
    records = [record_of(TABLE[0], seconds=10.0), record_of(TABLE[1], seconds=50.0)]
    left = [*select(TABLE[:2], 3)]
    assert time_left(left, records, 1) == pytest.approx(180.0)
    assert time_left(left, records, 3) == pytest.approx(60.0)
    assert time_left(left, records, 60) == pytest.approx(50.0), "one run is one worker's"
    elapsed = {"none/eps=1 seed 0": 20.0, "none/eps=inf seed 0": 99.0, "elsewhere": 99.0}
    assert time_left(left, records, 1, elapsed) == pytest.approx(150.0)
    assert time_left([], records, 1) == 0.0
    assert time_left(left, [], 1) is None


@pytest.mark.parametrize(
    "seconds, text",
    [(None, "unknown"), (0.0, "0 s"), (99.4, "99 s"), (150, "2 min"), (7260, "2 h 01 min")],
)
def test_durations_are_readable(seconds, text):
    assert duration(seconds) == text


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


def stop(exception):
    def event(*_):
        raise exception

    return event


@pytest.mark.parametrize("stopped_at", range(6))
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
        (SystemExit(3), "failed: SystemExit: 3"),
        (MemoryError(), "failed: MemoryError:"),
        (ValueError("in user code:\n\n  File x\n\n  ValueError: shapes"), "ValueError: shapes"),
    ],
    ids=["value", "runtime", "exit", "memory", "traced"],
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


def test_an_interrupted_run_never_goes_on_with_other_settings(place):
    stopping = Trainer(**{"none/eps=1 seed 0": stop(KeyboardInterrupt())})
    assert place.sweep(stopping) == 130
    faster = [changed(spec, learning_rate=9.0) for spec in TABLE]
    trainer = Trainer()
    assert place.sweep(trainer, faster) == 1
    # The first cell had a record, with other settings by now: it is trained again.
    assert trainer.trained == ["none/eps=inf seed 0", "layer/eps=1 seed 0"]
    assert "with other learning_rate. Move it away" in place.shown[-1]
    assert (run_folder(place.runs, TABLE[1]) / "ledger").read_text() == "spent"
    # What changes nothing that is measured is no obstacle.
    same = [changed(spec, physical_batch_size=8, search="long") for spec in TABLE]
    assert place.sweep(trainer, same) == 0
    assert trainer.trained[2:] == ["none/eps=1 seed 0", "layer/eps=1 seed 0"]


def test_a_run_folder_of_unknown_settings_is_left_alone(place):
    folder = run_folder(place.runs, TABLE[0])
    folder.mkdir(parents=True)
    trainer = Trainer()
    assert place.sweep(trainer, TABLE[:1], dry_run=True) == 0
    (folder / "ledger").write_text("somebody's")
    assert place.sweep(trainer, TABLE[:1]) == 1
    assert trainer.trained == [] and (folder / "ledger").read_text() == "somebody's"
    assert "Expected settings.json" in place.shown[-1]
    (folder / "ledger").unlink()
    assert place.sweep(trainer, TABLE[:1]) == 0


def test_a_run_folder_is_kept_until_there_is_a_record(place):
    def forgetful(spec, run_dir, **_):
        run_dir.mkdir(exist_ok=True)
        return types.SimpleNamespace(record=record_of(spec))

    assert place.sweep(forgetful, TABLE[:1]) == 1
    assert place.kept() == ["none-eps=inf-seed0"]
    assert "Expected a record of none/eps=inf seed 0" in place.shown[-1]

    def other_settings(spec, run_dir, output_dir, **_):
        return types.SimpleNamespace(record=write(output_dir, changed(spec, momentum=0.5)))

    assert place.sweep(other_settings, TABLE[:1]) == 1
    assert place.kept() == ["none-eps=inf-seed0"] and "momentum" in place.shown[-1]


def test_a_run_that_another_sweep_has_finished_meanwhile_is_not_trained(place):
    trainer = Trainer(**{"none/eps=inf seed 0": lambda _, folder: write(folder, TABLE[1])})
    assert place.sweep(trainer) == 0
    assert trainer.trained == ["none/eps=inf seed 0", "layer/eps=1 seed 0"]
    assert "none/eps=1 seed 0: done by another process meanwhile; 2 of 3 done" in place.text


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
    assert "none/eps=inf seed 0: another process is training it; passed over" in place.shown[1]
    assert "Looking again at none/eps=inf seed 0." in place.text


def test_a_run_that_stays_locked_is_said_to_be(place, other_process):
    other_process(place, TABLE[1])
    trainer = Trainer()
    assert place.sweep(trainer, when_done="All done.") == 0
    assert trainer.trained == ["none/eps=inf seed 0", "layer/eps=1 seed 0"]
    assert "Still being trained by another process: none/eps=1 seed 0." in place.shown[-1]
    assert "All done." not in place.text


def test_the_lock_is_held_while_a_run_is_trained(place):
    """And by whoever trains it: the same process asks again, through another file."""
    job = Job(None, None, str(place.results), str(place.runs))
    seen = []
    trainer = Trainer(**{"none/eps=1 seed 0": lambda s, _: seen.append(train(s, job).kind)})
    assert place.sweep(trainer, TABLE[1:2]) == 0
    assert seen == ["locked"] and trainer.trained == ["none/eps=1 seed 0"]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_whose_worker_dies_is_tried_once_more(place, workers):
    dies = {"none/eps=1 seed 0": 1, "layer/eps=1 seed 1": 2}
    trainer = Trainer()
    pool = lambda workers: InlinePool(workers, dies)  # noqa: E731
    code = place.sweep(trainer, seeds=2, workers=workers, make_pool=pool)
    assert code == 1
    expected = set(names(select(TABLE, 2))) - {"layer/eps=1 seed 1"}
    assert sorted(trainer.trained) == sorted(expected), "each once, but the one that always dies"
    first, *_ = [line for line in place.shown if line.startswith("A worker died")]
    assert "none/eps=1 seed 0" in first and ("none/eps=inf seed 0" in first) == (workers == 2)
    assert place.shown[-1].startswith("Failed: 1 of 6 runs.\n  layer/eps=1 seed 1: the process ")
    assert dies == {"none/eps=1 seed 0": 0, "layer/eps=1 seed 1": 0}


def test_folders_that_cannot_be_made_are_refused_before_training(place, tmp_path):
    (tmp_path / "file").write_text("")
    trainer = Trainer()
    for option in ("results", "runs"):
        broken = Place(tmp_path)
        setattr(broken, option, tmp_path / "file" / "below")
        with pytest.raises(OSError, match="Expected (output|runs)_dir to be a folder"):
            broken.sweep(trainer)
    with pytest.raises(ValueError, match="workers >= 1, got 0"):
        place.sweep(trainer, workers=0)
    place.results.mkdir(exist_ok=True)
    (place.results / "notes.json").write_text("[]")
    with pytest.raises(ValueError, match="notes.json"):
        place.sweep(trainer)
    assert trainer.calls == []


# --- real workers; each takes seconds to start ---


def dies_once(spec, *, output_dir, run_dir, **_):
    """A `run_cell` whose process dies on the way, and that tells what its worker is like."""
    if not run_dir.exists():
        run_dir.mkdir()
        os._exit(9)
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    masked = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    worker = f"{threads} {masked} {os.environ['TF_CPP_MIN_LOG_LEVEL']}"
    return types.SimpleNamespace(record=write(output_dir, spec, engine=worker))


def test_a_process_that_dies_is_replaced(place, monkeypatch):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    assert sweep(
        TABLE[:1], run_cell=dies_once, output_dir=str(place.results), runs_dir=str(place.runs),
        show=place.shown.append,
    ) == 0  # fmt: skip
    assert "A worker died while training none/eps=inf seed 0: tried once more" in place.shown[1]
    (record,) = read_records(place.results)
    assert record["engine"] == f"{len(os.sched_getaffinity(0))} True 3"
    assert place.kept() == []


def hangs(spec, *, run_dir, **_):
    """A `run_cell` that never ends."""
    run_dir.mkdir()
    (run_dir / "pid.partial").write_text(str(os.getpid()))
    (run_dir / "pid.partial").rename(run_dir / "pid")
    time.sleep(600)


def test_sigterm_ends_the_workers_and_keeps_what_was_begun(place):
    pid = run_folder(place.runs, TABLE[0]) / "pid"
    sent = []

    def terminate():
        deadline = time.monotonic() + 120
        while not pid.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    sender = threading.Thread(target=terminate)
    sender.start()
    code = sweep(
        TABLE, run_cell=hangs, output_dir=str(place.results), runs_dir=str(place.runs),
        show=place.shown.append,
    )  # fmt: skip
    took = time.monotonic() - sent[0]
    sender.join()
    assert code == 143 and took < 5
    assert signal.getsignal(signal.SIGTERM) is before
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert place.kept() == ["none-eps=inf-seed0"]
    assert "Stopped with 0 of 3 done" in place.shown[-1]
