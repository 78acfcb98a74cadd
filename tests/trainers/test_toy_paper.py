"""A paper with a kind of run of its own: a spec, a run, an entry in the registry."""

import dataclasses
from typing import ClassVar

import pytest

from tfdpnorm import arguments
from trainers import registry
from trainers.records.store import read_records
from trainers.report import tables
from trainers.runs.build import build_network
from trainers.runs.optimizers import make_optimizer
from trainers.runs.skeleton import Run
from trainers.runs.skeleton import test_accuracy as accuracy_of
from trainers.specs.options import option
from trainers.specs.training import TrainingSpec
from trainers.sweeps.runs import estimate, is_done

INF = float("inf")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ToySpec(TrainingSpec):
    """A network that Keras trains, and whose smallest weights are to be pruned."""

    kind: ClassVar[str] = "toy"

    pruned: float = option(0.5, "Part of the weights that is set to 0.", check=arguments.open_unit)

    @property
    def examples_per_update(self):
        return 16


class ToyRun(Run):
    def __init__(self, spec, data, **more):
        super().__init__(spec, data, **more)
        self.model = build_network(spec, data)

    def describe(self):
        return f"toy {self.spec.cell}"

    def restore(self):
        self.model.compile(make_optimizer(self.spec, 4), "sparse_categorical_crossentropy")

    def train(self):
        self.model.fit(self.data.train_x, self.data.train_y, batch_size=16, verbose=0)
        return self.data.num_examples

    def measured(self):
        return {
            "test_accuracy": accuracy_of(self.model, self.data),
            "num_examples": self.data.num_examples,
            "updates": 4,
            "resumes": 0,
        }


@pytest.fixture
def toy_paper(monkeypatch):
    """The specs of a paper that the registry knows during the test."""
    specs = [
        ToySpec(
            experiment="toy_table",
            network="mlp",
            column=f"pruned={part}",
            dataset="synthetic",
            model="mlp",
            epochs=1,
            pruned=part,
        )
        for part in (0.25, 0.5)
    ]
    monkeypatch.setitem(registry._CELLS, "toy_table", lambda: specs)
    monkeypatch.setitem(registry._RUNS, "toy", f"{__name__}:ToyRun")
    return specs


def test_a_cell_of_a_toy_paper_is_trained_recorded_and_shown(toy_paper, tiny_data, tmp_path):
    assert registry.cells("toy_table") is toy_paper and registry.networks("toy_table") == ("mlp",)
    first, second = toy_paper
    lines = []
    result = registry.run_cell(
        first, data=tiny_data, output_dir=tmp_path, echo=lines.append, run_dir=tmp_path / "run"
    )
    assert lines[0] == "toy mlp/pruned=0.25" and "test accuracy" in lines[1]
    (record,) = read_records(tmp_path)
    assert (record["kind"], record["network"], record["column"]) == ("toy", "mlp", "pruned=0.25")
    assert record["cell"] == "mlp/pruned=0.25" and record["flags"]["pruned"] == 0.25
    assert is_done(first, [record]) and not is_done(second, [record])
    assert estimate(second, [record]) == pytest.approx(result.record["seconds"])
    assert "| mlp |" in tables.experiment_table([record])


def test_run_kinds_without_privacy_have_no_guarantee(toy_paper, tiny_data):
    record = registry.run_cell(toy_paper[0], data=tiny_data, echo=lambda line: None).record
    assert record["guarantee_holds"] is False and record["no_guarantee_because"]
    assert [record[f"epsilon{which}"] for which in ("", "_rdp", "_pld")] == [INF] * 3
