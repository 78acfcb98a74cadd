"""The audit program: what it prints, writes and rejects, and its exit code."""

import pytest

from tfdpnorm.gradients.engines.registry import available_engines
from trainers.audits import run as audits
from trainers.audits import sensitivity_grid
from trainers.records.fields import AUDIT_FIELDS, SENSITIVITY_FIELDS
from trainers.records.store import read_records
from trainers.specs import AuditSpec

SMALL = ("--model=mlp", "--expected_batch_size=16", "--samples=4000")


@pytest.fixture
def program(main, tmp_path):
    """Returns a function of arguments -> outcome of the program, which writes to `folder`."""

    def run(*arguments):
        outcome = main("audit", *arguments, f"--output_dir={tmp_path / 'out'}")
        outcome.folder = tmp_path / "out"
        return outcome

    return run


@pytest.mark.slow
def test_every_mode_by_default(program):
    result = program(*SMALL)
    assert result.code == 0, result.err
    records = read_records(result.folder, fields=AUDIT_FIELDS)
    by_mode = {record["statistics"]: record for record in records}
    assert set(by_mode) == {"public", "blend", "example", "lot"}
    for mode, record in by_mode.items():
        assert record["experiment"] == "audit" and record["check"] == "mechanism"
        assert 0.9 < record["claimed_epsilon"] <= 1.0
        assert record["violation"] is (mode == "lot")
        assert record["guarantee_holds"] is (mode != "lot")
        assert bool(record["no_guarantee_because"]) is (mode == "lot")
        assert record["samples"] == 4000 and record["confidence"] == 0.95
        assert record["flags"]["model"] == "mlp" and record["versions"]["tensorflow"]
    assert by_mode["lot"]["audited_epsilon"] > 3 and by_mode["lot"]["sensitivity"] > 4
    assert by_mode["public"]["sensitivity"] <= 1 + 1e-5
    (line,) = [x for x in result.out.splitlines() if "(lot)" in x and "Claimed" in x]
    assert "is not a guarantee" in line and "a violation of the claim" in line
    assert "proves nothing" in result.out and "violated; **not private**" in result.out
    assert (result.folder / "mlp-mechanism.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_broken_guarantee_is_the_exit_code(program, monkeypatch):
    """An engine whose sums are four times too long: the audit says so, whatever the plan says."""
    build = audits.build_private

    def broken(*args, **more):
        private = build(*args, **more)
        clipped_sum = private.clipped_sum
        private.clipped_sum = lambda lot: [4 * g for g in clipped_sum(lot)]
        return private

    monkeypatch.setattr(audits, "build_private", broken)
    result = program(*SMALL, "--norm=layer", "--samples=40000")
    assert result.code == 1 and "a violation of the claim" in result.out
    (record,) = read_records(result.folder, fields=AUDIT_FIELDS)
    assert record["violation"] and record["guarantee_holds"]
    assert record["sensitivity"] == pytest.approx(4, abs=1e-3)

    monkeypatch.setattr(
        sensitivity_grid,
        "sensitivity_grid",
        lambda names: [AuditSpec(model="mlp", norm="layer", expected_batch_size=8)],
    )
    result = program("--check=sensitivity", "--ascent_steps=0")
    assert result.code == 1 and "BROKEN" in result.out and "No bound holds" in result.out


@pytest.mark.slow
def test_a_black_box_audit_runs_the_real_step(program):
    result = program("--model=mlp", "--expected_batch_size=16", "--norm=layer", "--black_box",
                     "--samples=50")  # fmt: skip
    assert result.code == 0, result.err
    (record,) = read_records(result.folder, fields=AUDIT_FIELDS)
    assert record["check"] == "black_box" and record["samples"] == 50


@pytest.mark.slow
def test_sensitivity_writes_a_table(program, monkeypatch):
    grid = sensitivity_grid.sensitivity_grid
    few = lambda names: [s for s in grid(names) if s.norm == "public_batch"][-2:]  # noqa: E731
    monkeypatch.setattr(sensitivity_grid, "sensitivity_grid", few)
    result = program("--check=sensitivity", "--models=mlp", "--ascent_steps=1")
    assert result.code == 0, result.err
    (record,) = read_records(result.folder, "audit_sensitivity", fields=SENSITIVITY_FIELDS)
    assert len(record["rows"]) == 2 and record["cell"] == "mlp"
    assert all(
        row["add_or_remove_one"] > 2 and not row["guarantee_holds"] for row in record["rows"]
    )
    assert result.out.count("as expected: NOT private") == 2
    assert (result.folder / "sensitivity.md").read_text() in result.out


def test_one_step_is_audited(program):
    """With ascent through a loop over physical batches."""
    result = program("--model=mlp", "--norm=layer", "--expected_batch_size=16", "--samples=500",
                     "--ascent_steps=1")  # fmt: skip
    assert result.code == 0, result.err
    (record,) = read_records(result.folder, fields=AUDIT_FIELDS)
    assert 0.9 < record["sensitivity"] <= 1 + 1e-5 and not record["violation"]


def test_a_whole_training_is_audited(program):
    result = program("--check=gradient_canaries", "--model=mlp", "--norm=public_batch",
                     "--statistics=public", "--epsilon=4", "--canaries=40", "--num_examples=20",
                     "--steps=1", "--expected_batch_size=60")  # fmt: skip
    assert result.code == 0, result.err
    (record,) = read_records(result.folder, fields=AUDIT_FIELDS)
    details = record["details"]
    assert (details["canaries"], details["steps"]) == (40, 1)
    assert 0 <= record["audited_epsilon"] < record["claimed_epsilon"] <= 4
    assert (result.folder / "gradient_canaries.md").read_text() in result.out


def test_the_grid_has_every_path():
    specs = sensitivity_grid.sensitivity_grid(["mlp", "transformer"])
    assert len(specs) == len(set(specs))
    of_mlp = [s for s in specs if s.model == "mlp"]
    for field, values in {
        "engine": {None, *(engine.name for engine in available_engines()[1:])},
        "statistics": {"public", "blend", "example", "lot"},
        "clipping": {"flat", "per_layer"},
        "clip_function": {"abadi", "automatic"},
        "augmentation_multiplicity": {1, 2},
    }.items():
        assert {getattr(s, field) for s in of_mlp} == values
