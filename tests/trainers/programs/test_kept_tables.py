"""The tables in results/ are what the records beside them give today, byte for byte."""

import pathlib

import matplotlib.figure
import pytest

from trainers import registry
from trainers.records.store import KEPT

SHOWN = [name for name in registry.EXPERIMENTS if (pathlib.Path(KEPT) / f"{name}.md").exists()]


@pytest.mark.parametrize("experiment", SHOWN)
def test_a_kept_table_is_what_its_records_give(main, monkeypatch, tmp_path, experiment):
    saved = []
    monkeypatch.setattr(
        matplotlib.figure.Figure, "savefig", lambda _, path, **__: saved.append(path)
    )
    folder = tmp_path / "results"
    folder.mkdir()
    needed = (*registry.sources(experiment), "audits")
    for path in pathlib.Path(KEPT).resolve().iterdir():
        if path.name.startswith(needed) and path.suffix != ".md":  # which is written
            (folder / path.name).symlink_to(path)
    curves = ["--curves"] if experiment == "davody_figure1" else []
    result = main("table", f"--experiment={experiment}", f"--results_dir={folder}", *curves)
    assert result.code == 0 and saved, result.err
    name = f"{experiment}.md"
    assert (folder / name).read_text() == (pathlib.Path(KEPT) / name).read_text()
