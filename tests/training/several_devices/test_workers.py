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


@pytest.mark.parametrize("norm", ["noised", "public_batch"])
def test_two_processes_train_as_one_does(start, norm):
    settings = {**SEEDED, "norm": norm}
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
@pytest.mark.parametrize(("dies", "later"), [(0, 1), (1, 3)])
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
