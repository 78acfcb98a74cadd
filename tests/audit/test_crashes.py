"""The killer of trainings, on trainings that need no TensorFlow, and the whole program."""

import os
import pathlib
import random
import subprocess
import sys
import time

import pytest

from tests.attacks.killing import Witness, kill_until_done

ROOT = pathlib.Path(__file__).resolve().parents[2]


def counting(folder, steps, pause):
    """A "training" that counts up in a file, and goes on where it was killed."""
    state = folder / "state"

    def train(alive):
        for step in range(int(state.read_text()) if state.exists() else 0, steps):
            partial = folder / "partial"
            partial.write_text(str(step + 1))
            os.replace(partial, state)
            Witness(folder / "witness").see(step + 1)
            alive()
            time.sleep(pause)

    return train


def test_it_kills_and_ends(tmp_path):
    train = counting(tmp_path, 40, 0.01)
    result = kill_until_done(train, kills=5, longest_life=0.05, rng=random.Random(0))
    assert result.kills == 5
    assert (tmp_path / "state").read_text() == "40"
    seen = Witness(tmp_path / "witness").seen()
    assert 40 - 5 <= len(seen) <= 40  # a kill may come between the state and the witness
    assert seen[-1] == ["40"]


def test_a_training_that_fails_is_an_error(tmp_path, capfd):
    def train(alive):
        raise ValueError("broken")

    with pytest.raises(RuntimeError, match="after 0 kills"):
        kill_until_done(train, kills=3, longest_life=5.0, rng=random.Random(0))
    assert "broken" in capfd.readouterr().err


@pytest.mark.slow
def test_the_program_survives_its_kills(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.attacks.crashes",
            "--kills=6",
            "--kills_per_run=2",
            "--steps=20",
            f"--scratch_dir={tmp_path}",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 interruptions survived" in done.stdout
    assert "beyond the plan: 0 runs; uncounted: 0 draws; noise used twice: 0 times" in done.stdout
    assert not any(tmp_path.iterdir())
