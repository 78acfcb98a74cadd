"""Several processes on one search, by Keras Tuner's distributed mode."""

import os
import signal
import subprocess
import sys
import time

import keras_tuner
import pytest

from tests.programs import free_ports
from tests.tuning.distributed_search import TRIALS
from tfdpnorm.privacy import PrivacyBudget, read_ledger
from tfdpnorm.tuning import distributed, private_tuner
from tfdpnorm.tuning.folder import rows_of_search


@pytest.fixture
def port():
    return free_ports(1)[0]


@pytest.fixture
def start(tmp_path, port):
    """Returns a function that starts a process of the search; those left are killed."""
    started = []

    def process(tuner_id, *arguments):
        environment = {
            **os.environ,
            "KERASTUNER_TUNER_ID": tuner_id,
            "KERASTUNER_ORACLE_IP": "127.0.0.1",
            "KERASTUNER_ORACLE_PORT": str(port),
        }
        command = [sys.executable, "-m", "tests.tuning.distributed_search", tmp_path, *arguments]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, env=environment, stderr=pipe, text=True))
        return started[-1]

    yield process
    for one in started:
        one.kill()
        one.communicate()


def ended(process, code=0):
    _, errors = process.communicate(timeout=120)
    assert process.returncode == code, errors
    return errors


def check_search(folder, tuner, draw):
    """That all trials are in one ledger and were scored once, and that one process has the rest."""
    search = folder / "private_search"
    ledger = read_ledger(search / "ledger.jsonl")
    assert ledger.state.trials == tuple(range(TRIALS)) and ledger.state.is_finished
    assert not (search / "secret.key").exists()
    runs = [search / "winner", *search.glob("trial_*/run")]
    assert len(runs) == TRIALS
    for run in runs:
        text = (run / "ledger.jsonl").read_text()
        assert text.count('"kind":"answer"') == 1
    draw(TRIALS)
    later = tuner()
    best = later.get_best_models()[0].ledger
    assert best.epsilon() == ledger.epsilon() <= 3.0
    assert len(later.get_best_trials(None)) == TRIALS


@pytest.mark.slow
def test_workers_share_the_trials_and_one_may_die(tmp_path, start, tuner, draw):
    chief, dying = start("chief"), start("a", "--dies_in_trial")
    ended(dying, code=9)
    assert "epsilon is 3.0 there and 2.0 here" in ended(start("c", "--epsilon=2"), code=1)
    # One has the trial of the one that died, under its name.
    for worker in [start("a"), start("b")]:
        ended(worker)
    ended(chief)
    check_search(tmp_path, tuner, draw)


@pytest.mark.slow
def test_the_chief_may_die(tmp_path, start, tuner, draw):
    chief, worker = start("chief"), start("a", "--slow")
    ledger = tmp_path / "private_search" / "ledger.jsonl"
    deadline = time.monotonic() + 120
    while not (ledger.exists() and read_ledger(ledger).state.trials):
        assert chief.poll() is None and worker.poll() is None, (
            "a process has ended before the first trial"
        )
        assert time.monotonic() < deadline, "no trial was handed out"
        time.sleep(0.1)
    chief.send_signal(signal.SIGKILL)
    chief.wait()
    worker.kill()
    worker.wait()
    first = read_ledger(ledger).settings
    # One worker alone: a second one might come when the chief has left with the first.
    chief, other = start("chief"), start("b")
    for process in (other, chief):
        ended(process)
    assert read_ledger(ledger).settings == first
    check_search(tmp_path, tuner, draw)


def test_one_process_goes_on_with_what_a_chief_began(run, tuner, data, draw, monkeypatch):
    draw(TRIALS)
    monkeypatch.setenv("KERASTUNER_ORACLE_IP", "127.0.0.1")
    monkeypatch.setenv("KERASTUNER_ORACLE_PORT", "1")
    monkeypatch.setenv("KERASTUNER_TUNER_ID", "chief")
    chief = tuner()
    with chief._folder.opened(rows_of_search(data.x, data.y, data.other, {})):
        chief.save()
        begun = chief.oracle.create_trial("a")
        assert read_ledger(chief._folder.path / "ledger.jsonl").state.trials == (0,)
    monkeypatch.delenv("KERASTUNER_ORACLE_IP")
    monkeypatch.delenv("KERASTUNER_TUNER_ID")
    alone = run(tuner())
    trials = alone.get_best_trials(None)
    assert len(trials) == TRIALS
    (same,) = (trial for trial in trials if trial.trial_id == begun.trial_id)
    assert same.hyperparameters.values == begun.hyperparameters.values


@pytest.mark.parametrize("other", ["epsilon", "rows"])
def test_a_worker_of_another_search_is_rejected(run, tuner, data, draw, monkeypatch, other):
    draw(TRIALS)
    chief = tuner()
    with chief._folder.opened(rows_of_search(data.x, data.y, data.other, {})):
        worker = tuner(budget=PrivacyBudget(2.0 if other == "epsilon" else 3.0, 1e-5))
        validation = data.other if other == "epsilon" else tuple(x[::-1] for x in data.other)
        monkeypatch.setattr(private_tuner, "is_worker", lambda: True)
        with pytest.raises(ValueError, match="epsilon is 3.0 there and 2.0 here|began: its"):
            run(worker, validation_data=validation)


def test_a_trial_is_in_the_ledger_before_it_is_handed_out(tuner, draw, monkeypatch):
    draw(TRIALS)
    made = tuner()
    with made._folder.opened(()):
        monkeypatch.setattr(made._folder.ledger, "record", _full_disk)
        with pytest.raises(OSError, match="full"):
            made.oracle.create_trial("a")
    assert made.oracle.create_trial.__self__ is made
    keras_tuner_chief = made.oracle  # What the chief's server calls.
    assert isinstance(keras_tuner_chief, keras_tuner.Oracle)


def _full_disk(entry):
    raise OSError("full")


def test_a_worker_does_not_give_out_trials(tuner, draw, monkeypatch):
    draw(1)
    for name, value in (("ORACLE_IP", "127.0.0.1"), ("ORACLE_PORT", "1"), ("TUNER_ID", "w")):
        monkeypatch.setenv(f"KERASTUNER_{name}", value)
    worker = tuner()
    for ask in (worker.get_best_trials, worker.get_best_models, worker.get_best_hyperparameters):
        with pytest.raises(ValueError, match="A worker does not have the trials"):
            ask()


@pytest.mark.parametrize("missing", ["ORACLE_PORT", "TUNER_ID"])
def test_a_part_of_the_environment_is_rejected(tuner, monkeypatch, missing):
    for name in {"ORACLE_IP", "ORACLE_PORT", "TUNER_ID"} - {missing}:
        monkeypatch.setenv(f"KERASTUNER_{name}", "1")
    with pytest.raises(ValueError, match=f"there is no KERASTUNER_{missing}. Set all"):
        tuner()


@pytest.mark.parametrize(
    "address, name, worker",
    [(None, None, False), ("h", "chief", False), ("h", "tuner3", True), (None, "tuner3", False)],
)
def test_who_is_a_worker(monkeypatch, address, name, worker):
    for key, value in (("ORACLE_IP", address), ("TUNER_ID", name)):
        if value is None:
            monkeypatch.delenv(f"KERASTUNER_{key}", raising=False)
        else:
            monkeypatch.setenv(f"KERASTUNER_{key}", value)
    assert distributed.is_worker() == worker
