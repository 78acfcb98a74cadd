"""Processes that train together on this machine, and one by itself, which does the same."""

import json
import os
import signal
import subprocess
import sys
import types

import numpy as np
import pytest

from tests.programs import ROOT, free_ports
from tests.statements import of_any_run
from tfdpnorm.privacy import read_ledger

SEEDED = {"insecure_seed": 3}


@pytest.fixture
def start(tmp_path):
    """Returns a function that starts so many processes; those left are killed."""
    started = []

    def run(count, **settings):
        folder = tmp_path / f"results-{len(started)}"
        folder.mkdir()
        ports = ",".join(map(str, free_ports(count)))
        command = [sys.executable, "-m", "tests.training.several_devices.worker"]
        processes = [
            subprocess.Popen(
                [*command, str(index), ports, str(folder), json.dumps(settings)],
                cwd=ROOT,
                env={**os.environ, "TF_NUM_INTEROP_THREADS": "4"},  # an exchange blocks one
                stderr=subprocess.PIPE,
                text=True,
            )
            for index in range(count)
        ]
        started.extend(processes)
        return types.SimpleNamespace(folder=folder, processes=processes)

    yield run
    for process in started:
        process.kill()
        process.communicate()


def results(run, dead=()):
    """What the processes of a run have written; those that were killed have written nothing."""
    found = []
    for index, process in enumerate(run.processes):
        _, errors = process.communicate(timeout=300)
        expected = -signal.SIGKILL if index in dead else 0
        assert process.returncode == expected, errors[-4000:]
        if index not in dead:
            with np.load(run.folder / f"{index}.npz") as file:
                found.append({"weights": file["arr_0"]})
            written = run.folder / f"{index}.json"
            if written.exists():
                found[-1].update(json.loads(written.read_text()))
    return found


@pytest.mark.quick_cases("noised-1", "public_batch-1")
@pytest.mark.parametrize("steps_per_execution", [1, 3])
@pytest.mark.parametrize("norm", ["group", "noised", "public_batch"])
def test_two_processes_train_as_one_does(start, norm, steps_per_execution):
    settings = {**SEEDED, "norm": norm, "steps_per_execution": steps_per_execution}
    both, alone = start(2, **settings), start(1, **settings)
    (alone,), both = results(alone), results(both)
    # They begin with the weights of the chief, and keep those of one process.
    for one in both:
        np.testing.assert_allclose(one["weights"], alone["weights"], rtol=1e-5, atol=1e-5)
        assert one["failed"] is None and one["slots"] == alone["slots"]
        assert one["updates"] == one["noise"] == alone["updates"] == 6
    assert (both[0]["weights"] == both[1]["weights"]).all()
    chief = both[0]["history"]
    assert chief["nonfinite_gradients"] == alone["history"]["nonfinite_gradients"]


@pytest.mark.slow
def test_two_processes_train_per_person_as_one_does(start):
    of_persons = {"num_examples": 15, "expected_batch_size": 8, "most_per_person": 2}
    settings = {**SEEDED, **of_persons, "physical_batch_size": 4}
    (alone,), both = results(start(1, **settings)), results(start(2, **settings))
    for one in both:
        assert one["failed"] is None and one["slots"] == alone["slots"]
        np.testing.assert_allclose(one["weights"], alone["weights"], rtol=1e-5, atol=1e-5)
    assert np.abs(np.diff(alone["weights"], axis=0)).max() > 0.1


@pytest.mark.slow
def test_epsilon_and_statement_are_those_of_one_process(start, tmp_path):
    both = start(2, run_dir=str(tmp_path / "both"), steps=12)
    alone = start(1, run_dir=str(tmp_path / "alone"), steps=12)
    (alone,), both = results(alone), results(both)
    assert both[0]["epsilon"] == both[1]["epsilon"] == alone["epsilon"] > 0
    said, of_one = of_any_run(both[0]["statement"]), of_any_run(alone["statement"])
    more = [line for line in said if line not in of_one]
    assert len(more) == 1 and more[0].startswith("- Attackers who read or change the traffic")
    assert [line for line in said if line not in more] == of_one
    assert (both[0]["weights"] == both[1]["weights"]).all()
    assert np.abs(both[0]["weights"] - alone["weights"]).max() > 0.1  # both are secret
    kept = [
        [line for line in folder.read_text().splitlines() if '"updates"' in line]
        for folder in (tmp_path / "both/ledger.jsonl", tmp_path / "alone/ledger.jsonl")
    ]
    assert [len(lines) for lines in kept] == [12, 12]


@pytest.mark.slow
@pytest.mark.parametrize("dies", [0, 1])
@pytest.mark.parametrize("later", [1, 2, 3])
def test_a_killed_process_costs_one_update_and_others_go_on(start, tmp_path, dies, later):
    run_dir = tmp_path / "run"
    settings = {"run_dir": str(run_dir), "checkpoint_every": 2, "steps": 9}
    first = start(2, **settings, kill=[dies, 5])
    (left,) = results(first, dead=[dies])
    assert left["failed"].startswith("WorkerLostError: Another process of the run has ended")
    ledger = read_ledger(run_dir / "ledger.jsonl")
    # What the chief announced is spent: update 6, if it came to that.
    assert ledger.updates == (5 if dies == 0 else 6)
    found = results(start(later, **settings, resume=True))
    chief = found[0]
    assert [one["failed"] for one in found] == [None] * later
    assert chief["updates"] == 9
    assert chief["position"] == (8 if dies == 0 else 7)  # from the checkpoint after update 4
    assert read_ledger(run_dir / "ledger.jsonl").epsilon() == chief["epsilon"]
    assert "The run was resumed once" in chief["statement"]
    for one in found:
        assert one["updates"] == chief["updates"] and one["position"] == chief["position"]
        assert (one["weights"] == chief["weights"]).all()


@pytest.mark.slow
def test_the_noise_is_drawn_once(start):
    found = results(start(2, steps=100, noise_multiplier=1e3))
    noise = np.diff(found[0]["weights"], axis=0) * 10 / 1e3
    # Momentum of 0.5: each step has half of the one before.
    drawn = noise[1:] - 0.5 * noise[:-1]
    trained = np.abs(noise).max(axis=0) > 0
    np.testing.assert_allclose(np.std(drawn[:, trained]), 1.0, rtol=0.05)


@pytest.mark.slow
def test_one_row_moves_the_sum_by_at_most_the_clipping_norm(start):
    settings = {"sums": True, "l2_norm_clip": 0.5, "physical_batch_size": 4}
    both, alone = start(2, **settings), start(1, **settings)
    ((alone,), both) = results(alone), results(both)
    for one in both:
        sums = one["weights"]
        np.testing.assert_allclose(sums, alone["weights"], rtol=1e-5, atol=1e-6)
        moved = np.linalg.norm(sums[1:].astype(np.float64) - sums[0], axis=1)
        assert len(moved) == 16 and 0.49 < moved.max() <= 0.5 * (1 + 1e-6)


@pytest.mark.slow
def test_other_examples_in_a_process_are_rejected(start):
    found = results(start(2, rows="other order"))
    for one in found:
        assert "Expected every process to train with the chief's plan" in one["failed"]
        assert one["updates"] == 0
