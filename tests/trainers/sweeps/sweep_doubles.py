"""What stands in for runs, records, workers and folders in the tests of sweeps."""

import concurrent.futures
import pathlib
import types
from concurrent.futures.process import BrokenProcessPool

from trainers.records.fields import FIELDS
from trainers.records.store import write_record
from trainers.runs.kept import claim_run_dir
from trainers.specs import PrivateSpec
from trainers.sweeps.runs import run_name
from trainers.sweeps.sweep import sweep

INF = float("inf")
TABLE = [
    PrivateSpec(
        experiment="a_table",
        network=network,
        column=column,
        dataset="mnist",
        epsilon=epsilon,
        epochs=2,
        model_options=(("pooling", "average"), ("activation", "tanh")),
        expected_batch_size=50,
    )
    for network, column, epsilon in (
        ("none", "eps=inf", INF),
        ("none", "eps=1", 1.0),
        ("layer", "eps=1", 1.0),
    )
]


def record_of(spec, **fields):
    """What a runner writes for a spec: by hand, not by the code that is tested."""
    return dict.fromkeys(FIELDS) | {
        "experiment": spec.experiment, "kind": spec.kind, "cell": spec.cell,
        "network": spec.network, "column": spec.run.column, "test_accuracy": 95.25,
        "epsilon": 0.98765, "epsilon_target": 1.0, "epsilon_rdp": 0.98765, "epsilon_pld": 0.9,
        "accountant": "rdp", "delta": 1e-5, "guarantee_holds": True, "no_guarantee_because": [],
        "num_examples": 1000, "expected_batch_size": 50, "sampling_rate": 0.05,
        "noise_multiplier": 1.0, "l2_norm_clip": 1.0, "updates": 40, "statistics": "none",
        "engine": "book_keeping", "noise_generator": "philox", "resumes": 0, "seed": spec.seed,
        "scale": "full", "search": "not searched", "curve": [], "seconds": 10.0,
        "examples_per_second": 200.0, "flags": spec.settings, "versions": {},
        **fields,
    }  # fmt: skip


def write(folder, spec, **fields):
    record = record_of(spec, **fields)
    write_record(folder, record, fields=tuple(record))
    return record


class InlinePool:
    """Trains in this process; `dies` names how often a run takes its worker down."""

    def __init__(self, workers, dies=None):
        self._dies = dies or {}

    def submit(self, function, spec, job):
        future = concurrent.futures.Future()
        if self._dies.get(run_name(spec), 0):
            self._dies[run_name(spec)] -= 1
            future.set_exception(BrokenProcessPool("died"))
        else:
            future.set_result(function(spec, job))
        return future

    def stop(self):
        pass


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


def names(specs):
    return [run_name(spec) for spec in specs]
