"""The tables and plots in results/ are what the records beside them give today.

Tables are compared byte for byte. Of plots, `plots.txt` has what each shows: titles, labels and
points. `APPROVE=yes pytest tests/trainers/programs/test_kept_tables.py` writes it again.
"""

import os
import pathlib

import matplotlib.figure
import pytest

from trainers import registry
from trainers.audits import report
from trainers.records.fields import AUDIT_FIELDS, SENSITIVITY_FIELDS
from trainers.records.store import KEPT, read_records

APPROVED = pathlib.Path(__file__).parents[1] / "approved" / "plots.txt"
TABLES = [name for name in registry.EXPERIMENTS if (KEPT / f"{name}.md").exists()]
# Programs whose records have a folder of their own in results/, and their tables there.
STUDIES = {
    "defaults": "defaults/defaults.md",
    "ermis_accountants": "accountants/ermis_figure3.md",
    "klause_landscape": "landscape/landscape.md",
    "method_mismatch": "mismatch/method_mismatch.md",
    "per_person": "persons/per_person.md",
}


def points(pairs):
    pairs = list(pairs)
    pairs = pairs[:: len(pairs) // 50 + 1]  # of a curve, some
    return " ".join(",".join(f"{x:.6g}" for x in pair) for pair in pairs)


def shown(figure):
    """Yields what a figure shows, in lines."""
    yield f"  title: {figure.get_suptitle()!r}, below: {figure.get_supxlabel()!r}"
    for axes in figure.axes:
        scales = f"{axes.get_xscale()} {axes.get_yscale()}"
        titles = [axes.get_title(where) for where in ("left", "center")]
        yield f"  panel {titles}: {axes.get_xlabel()!r}, {axes.get_ylabel()!r}, {scales}"
        for ticks in (axes.get_xticklabels(), axes.get_yticklabels()):
            yield f"    ticks: {[label.get_text() for label in ticks]}"
        labels, texts = axes.get_legend_handles_labels()[1], [t.get_text() for t in axes.texts]
        yield f"    labels: {labels}; texts: {'the same' if texts == labels else texts}"
        for line in axes.lines:
            yield f"    line {line.get_color()} {line.get_linestyle()}: {points(line.get_xydata())}"
        sizes = [(b.get_width(), b.get_height()) for b in axes.patches if hasattr(b, "get_width")]
        if sizes:
            yield f"    bars: {'; '.join(points([size]) for size in sizes)}"
        errors = [x.get_segments() for x in axes.collections if hasattr(x, "get_segments")]
        if errors:
            yield f"    errors: {'; '.join(points(s.ravel() for s in each) for each in errors)}"


@pytest.fixture
def plots(monkeypatch, tmp_path):
    """What the plots show that would have been written, by the name of the file."""
    seen = {}

    def save(figure, path, **options):
        seen[pathlib.Path(path).name] = list(shown(figure))

    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", save)
    return seen


@pytest.mark.parametrize("name", [*TABLES, *STUDIES])
def test_what_is_kept_is_what_the_records_give(main, plots, tmp_path, name):
    table = KEPT / STUDIES.get(name, f"{name}.md")
    begins = "" if name in STUDIES else (*registry.sources(name), "audits")
    for path in table.parent.iterdir():
        if path.name.startswith(begins) and path.suffix != ".md":  # which is written
            (tmp_path / path.name).symlink_to(path)
    if name in TABLES:
        result = main("table", f"--experiment={name}", f"--results_dir={tmp_path}", "--curves")
    else:
        again = [] if name == "klause_landscape" else ["--nocompute"]
        result = main(name, *again, f"--output_dir={tmp_path}")
    assert result.code == 0, result.err
    assert (tmp_path / table.name).read_text() == table.read_text()
    approved = APPROVED.read_text("utf-8").split("\n\n") if APPROVED.exists() else []
    kept = {part.split("\n")[0]: part.strip() for part in approved}
    found = {
        f"{name}/{file}": "\n".join([f"{name}/{file}", *lines]).strip()
        for file, lines in plots.items()
    }
    if os.environ.get("APPROVE"):
        kept |= found
        APPROVED.write_text("\n\n".join(kept[key] for key in sorted(kept)) + "\n", "utf-8")
    assert found == {key: text for key, text in kept.items() if key.split("/")[0] == name}


def test_the_tables_of_audits_are_what_their_records_give(plots, tmp_path):
    folder = KEPT / "audits"
    audits = read_records(folder, "audit", fields=AUDIT_FIELDS)
    of_training = [r for r in audits if r["check"] == "gradient_canaries"]
    table = (folder / "gradient_canaries.md").read_text()
    assert report.gradient_canary_table(of_training) + "\n" == table
    report.plot_gradient_canaries(of_training, tmp_path / "a.png")
    of_steps = [r for r in audits if r["check"] == "mechanism" and r["model"] == "lenet5"]
    report.plot_audits(of_steps, tmp_path / "b.png")
    assert len(plots) == 2 and report.audit_table(audits).count("**not private**") >= 1
    for record in audits:
        summary = report.audit_summary(record)
        assert ("is not a guarantee" in summary) != record["guarantee_holds"]
        assert ("a violation of the claim" in summary) == record["violation"]
    (grid,) = read_records(folder, "audit_sensitivity", fields=SENSITIVITY_FIELDS)
    assert report.sensitivity_table(grid["rows"]) + "\n" == (folder / "sensitivity.md").read_text()
    assert report.rounding_summary(grid["rows"]).startswith("Where the bound holds")
