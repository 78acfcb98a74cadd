"""The sweep program: what its flags reach, what it prints and rejects, and its exit code."""

import pytest

from tfdpnorm.keras_compat.devices_and_precision import half_precision
from trainers import registry as cells
from trainers.records import store
from trainers.records.store import KEPT
from trainers.runs.settings import differences
from trainers.sweeps import sweep as sweeps


@pytest.fixture
def program(main, monkeypatch, tmp_path):
    """Returns a function of arguments -> outcome of the program, run in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments, name="sweep": main(name, *arguments)


@pytest.fixture
def called(monkeypatch):
    """What the sweep itself was called with."""
    calls = []

    def record(specs, **options):
        calls.append((specs, options))
        return 0

    monkeypatch.setattr(sweeps, "sweep", record)
    return calls


def test_flags_reach_the_sweep(program, called):
    assert program("--experiment=davody_table7").code == 0
    assert called.pop() == (
        cells.cells("davody_table7"),
        dict(
            run_cell=cells.run_cell,
            seeds=1,
            first_seed=0,
            patterns=[],
            workers=1,
            data_dir=None,
            output_dir="results",
            runs_dir="outputs/runs",
            models_dir=None,
            kept_dir=KEPT,
            dry_run=False,
            when_done="All done. The table: python -m trainers.table --experiment=davody_table7",
        ),
    )
    given = dict(seeds=3, workers=2, data_dir="d", output_dir="o", runs_dir="r", models_dir="m")
    given["dry_run"] = True
    arguments = [f"--{name}={value}" for name, value in given.items()]
    assert program(*arguments, "--cells=none/eps=1,*/eps=7").code == 0
    specs, options = called.pop()
    assert specs[0].experiment == "davody_table5"
    assert options.pop("when_done").endswith("--experiment=davody_table5 --results_dir=o")
    assert options == dict(
        given,
        first_seed=0,
        kept_dir=KEPT,
        run_cell=cells.run_cell,
        patterns=["none/eps=1", "*/eps=7"],
    )
    assert program("--seed=4").code == 0
    assert {n: v for n, v in called.pop()[1].items() if "seed" in n} == dict(seeds=1, first_seed=4)


def test_a_sweep_in_half_precision_has_records_of_its_own(program, called):
    assert program("--experiment=davody_table7", "--mixed_precision").code == 0
    specs, _ = called.pop()
    for spec, own in zip(specs, cells.cells("davody_table7"), strict=True):
        assert (spec.precision, own.precision) == (half_precision(), "float32")
        assert f"precision {half_precision()} in place of the cell's float32" in spec.reduced
        assert differences(spec, own.settings) == ["precision"]
    assert program("--experiment=davody_table7", "--nomixed_precision").code == 0
    assert called.pop()[0] == cells.cells("davody_table7")


@pytest.mark.parametrize("experiment", ["davody_table2", "klause_table4"])
def test_a_dry_run_lists_every_cell_and_makes_nothing(program, monkeypatch, tmp_path, experiment):
    monkeypatch.setattr(store, "KEPT", tmp_path / "none")
    result = program(f"--experiment={experiment}", "--seeds=2", "--dry_run")
    assert result.code == 0 and result.err == ""
    specs = cells.cells(experiment)
    lines = result.out.splitlines()
    # A table may be made of another's runs.
    trained_for = ", ".join(dict.fromkeys(spec.experiment for spec in specs))
    assert lines[0].startswith(f"{trained_for}: 0 of {2 * len(specs)} runs done")
    assert [line.split()[0] for line in lines[1:-2]] == [spec.cell for spec in specs]
    assert all("seeds done: none; left: 0, 1; each: unknown" in line for line in lines[1:-2])
    assert lines[-2:] == ["Estimated time with 1 worker: unknown.", "Nothing was trained."]
    assert list(tmp_path.iterdir()) == []
