"""Programs that are resumed after a crash."""

import pathlib
import re

import pytest

from tfdpnorm.privacy.command import main as tfdpnorm_epsilon
from tfdpnorm.training.resume.resumption import Checkpointing
from trainers.records.store import read_records

RUN = (
    "--dataset=digits",
    "--norm=layer",
    "--epsilon=2",
    "--max_examples=300",
    "--delta=1e-3",
    "--expected_batch_size=32",
    "--steps=4",
    "--checkpoint_every=2",
)


def dying_after_three(monkeypatch):
    """Has the next run die after its third update, as by a disk that fails."""
    real = Checkpointing.on_train_batch_end

    def fail(self, batch, logs=None):
        real(self, batch, logs)
        if self._private.ledger.state.position == 3:
            self._private.ledger.close()
            raise OSError("the disk is gone")

    monkeypatch.setattr(Checkpointing, "on_train_batch_end", fail)


@pytest.mark.slow
def test_a_program_is_taken_up_again(main, monkeypatch, tmp_path, capsys):
    places = (f"--output_dir={tmp_path / 'out'}", f"--run_dir={tmp_path / 'run'}")
    with monkeypatch.context() as patched:
        dying_after_three(patched)
        died = main("davody_dp", *RUN, *places)
    assert died.code == 2 and "the disk is gone" in died.err
    assert not list(pathlib.Path(tmp_path / "out").glob("*.json"))

    refused = main("davody_dp", *RUN, *places)
    assert refused.code == 2 and "--resume" in refused.err and len(refused.err.splitlines()) == 1

    for flag, name in (("--learning_rate=0.5", "learning_rate"), ("--seed=7", "seed")):
        other = main("davody_dp", *RUN, *places, "--resume", flag)
        assert other.code == 2 and f"has other settings: {name}. Move it away" in other.err
        assert len(other.err.splitlines()) == 1

    done = main("davody_dp", *RUN, *places, "--resume")
    assert done.code == 0 and "resumed after update 2 of 4" in done.out
    (record,) = read_records(tmp_path / "out")
    assert (record["updates"], record["resumes"]) == (4, 1)

    capsys.readouterr()
    assert tfdpnorm_epsilon([f"--ledger={tmp_path / 'run' / 'ledger.jsonl'}"]) == 0
    printed = capsys.readouterr().out
    (epsilon,) = re.findall(r"epsilon = ([0-9.]+) \(rounded up\)", printed)[:1]
    assert record["epsilon"] <= float(epsilon) < record["epsilon"] + 1e-3

    again = main("davody_dp", *RUN, *places, "--resume")
    assert again.code == 0 and "written when this run ended" in again.out
    (path,) = (tmp_path / "out").iterdir()
    assert path.name in again.out and read_records(tmp_path / "out") == [record]


def test_runs_that_cannot_be_trained_leave_no_folder(main, tmp_path):
    """That no noise is enough is found when the settings are already in the folder."""
    places = (f"--output_dir={tmp_path / 'out'}", f"--run_dir={tmp_path / 'run'}")
    result = main("davody_dp", *RUN, "--epsilon=1e-9", *places)
    assert result.code == 2 and not (tmp_path / "run").exists()


@pytest.mark.parametrize("flag", ["--resume", "--checkpoint_every=3"])
def test_options_of_a_run_folder_want_one(main, tmp_path, flag):
    result = main("davody_dp", *RUN[:-1], flag, f"--output_dir={tmp_path}")
    assert result.code == 2 and "needs --run_dir" in result.err
