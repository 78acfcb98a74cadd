"""A search that is killed at the worst places: the same trials, the same winner, nothing twice."""

import json
import subprocess
import sys

import pytest
from keras_tuner.src import utils as keras_tuner_files

from tests.tuning.killed_search import NAME, POINTS, STEPS, Killed, kill_at, real_search
from tfdpnorm.privacy import read_ledger
from tfdpnorm.training.callbacks import private_validation

TRIALS = 3


def check_whole(folder, tuner, before):
    """That all trials were made, each was scored once, and the best of these scores has won."""
    ledger = read_ledger(folder / "ledger.jsonl")
    assert ledger.state.is_finished and ledger.state.trials == tuple(range(TRIALS))
    assert ledger.settings == before.settings and ledger.epsilon() == before.epsilon() <= 3
    assert not (folder / "secret.key").exists()
    runs = [folder / "winner", *folder.glob("trial_*/run")]
    assert len(runs) == TRIALS
    answers = {}
    for run in runs:
        assert (run / "ledger.jsonl").read_text().count('"kind":"query"') == 1
        own = read_ledger(run / "ledger.jsonl")
        assert own.updates == own.plan.steps and own.state.is_finished
        answers[run.name if run.name == "winner" else run.parent.name] = own.state.answer(
            "private_val_score"
        )
    assert answers["winner"] == max(answers.values())
    assert len(tuner.get_best_trials(None)) == TRIALS
    (best,) = tuner.get_best_models()
    assert best.ledger.epsilon() == ledger.epsilon() and best.ledger.guarantee_holds


@pytest.mark.parametrize("point", POINTS)
def test_killed_searches_lose_and_repeat_nothing(tuner, run, tmp_path, point):
    folder = tmp_path / NAME
    options = dict(project_name=NAME, expected_trials=3)

    def die():
        raise Killed

    replaced = kill_at(point, folder, die)
    try:
        with pytest.raises(Killed):
            run(tuner(**options))
    finally:
        for owner, name, original in replaced:
            setattr(owner, name, original)
    before = read_ledger(folder / "ledger.jsonl")
    settings = [path.read_text() for path in sorted(folder.glob("trial_*/trial.json"))]
    assert before.state.is_finished == (point == "finished")
    assert (folder / "secret.key").exists()
    made = run(tuner(**options))
    check_whole(folder, made, before)
    # The trial that was cut short has the settings that it had.
    after = [path.read_text() for path in sorted(folder.glob("trial_*/trial.json"))]
    assert all(_values(old) == _values(new) for old, new in zip(settings, after, strict=False))


def _values(text):
    return json.loads(text)["hyperparameters"]["values"]


@pytest.mark.filterwarnings("ignore:A trial has failed")
def test_lost_scores_are_not_queried_again(tuner, run, draw, tmp_path, monkeypatch):
    def killed(name, value):
        raise Killed

    draw(2)
    with monkeypatch.context() as patched:
        patched.setattr(private_validation, "Answer", killed)
        with pytest.raises(Killed):
            run(tuner())
    made = run(tuner())
    ledger = (tmp_path / "private_search" / "trial_0000" / "run" / "ledger.jsonl").read_text()
    assert ledger.count('"kind":"query"') == 1 and ledger.count('"kind":"answer"') == 0
    assert [trial.trial_id for trial in made.get_best_trials(None)] == ["0001"]


@pytest.mark.slow
@pytest.mark.parametrize("point", [*POINTS, "in training"])
def test_a_process_that_is_killed(tmp_path, point):
    command = [sys.executable, "-m", "tests.tuning.killed_search", tmp_path, point]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert ended.returncode == -9, ended.stderr
    folder = tmp_path / NAME
    before = read_ledger(folder / "ledger.jsonl")
    tuner = real_search(tmp_path)
    check_whole(folder, tuner, before)
    assert before.plan.steps == STEPS


def test_keras_tuner_writes_no_file_of_its_own(tuner, run, draw, monkeypatch):
    """It empties a file before it fills it: killed in between, a search could not be resumed."""

    def opened(path, obj):
        raise AssertionError(f"{path} may be left empty")

    monkeypatch.setattr(keras_tuner_files, "save_json", opened)
    draw(2)
    assert len(run(tuner()).get_best_trials(None)) == 2
