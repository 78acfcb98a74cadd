"""A random search that is paid for: how many trials, which, what survives, what gets out."""

import json
import pathlib
from types import SimpleNamespace

import numpy as np
import pytest
from tensorflow import keras

from tests.tuning.conftest import EXAMPLES, STEPS, FakeHyperModel
from tfdpnorm.privacy import PrivacyBudget, PrivacyLedger, privacy_statement, read_ledger
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.entries import Trial
from tfdpnorm.training import PrivacyTensorBoard, PrivateValidation, Progress
from tfdpnorm.tuning.trials import RandomTrials

FOLDER = "private_search"


def ledger_of(tmp_path):
    return read_ledger(tmp_path / FOLDER / "ledger.jsonl")


def test_a_budget_whose_delta_would_not_hold(tuner):
    with pytest.raises(ValueError, match="No guarantee would hold.*smaller epsilon"):
        tuner(budget=PrivacyBudget(50.0, 1e-5))


def test_the_winner_has_the_epsilon_of_the_search(tuner, run, draw, tmp_path):
    draw(5)
    made = run(tuner())
    assert len(made.hypermodel.trained) == 5 and ledger_of(tmp_path).state.trials == (0, 1, 2, 3, 4)
    (best,) = made.get_best_models()
    ledger = best.ledger
    assert 2.9 < ledger.epsilon() <= 3 and 2.9 < ledger.validation_epsilon() <= 3
    assert ledger.epsilon() == ledger_of(tmp_path).epsilon() == made.search_plan.epsilon(1e-5)
    alone = made.search_plan.trial_epsilon(1e-5)
    assert alone < ledger.epsilon() < made.search_plan.composed_epsilon(1e-5)
    text = privacy_statement(ledger)
    assert "the best of a random number of trials" in text
    winner = tmp_path / FOLDER / "winner"
    assert (winner / "privacy_statement.txt").read_text() == text + "\n"
    assert json.loads((winner / "privacy_statement.json").read_text())["search"]
    assert not list((tmp_path / FOLDER).glob("trial_*/run/privacy_statement*"))
    # Nothing that is released tells how many trials there were, or which one has won.
    released = (winner / "ledger.jsonl").read_text()
    assert "trial_" not in text + released and '"kind":"trial"' not in released
    scores = [trial.score for trial in made.get_best_trials(None)]
    assert scores == sorted(scores, reverse=True) and len(scores) == 5
    (hp,) = made.get_best_hyperparameters()
    assert hp.values == made.get_best_trials()[0].hyperparameters.values


def test_the_winner_says_the_same_whatever_the_number_of_trials(tuner, run, draw):
    said = []
    for count in (1, 4):
        draw(count)
        (best,) = run(tuner(project_name=f"search{count}")).get_best_models()
        of = best.ledger
        lines = [json.loads(line) for line in pathlib.Path(of.file.path).read_text().splitlines()]
        kinds = [line["kind"] for line in lines]
        said.append(
            (
                kinds,
                of.state.sentences("not_covered"),
                of.state.sentences("foreign_weights"),
                of.state.sentences("established"),
                of.state.sentences("no_guarantee"),
            )
        )
    assert said[0] == said[1]


def test_the_score_is_noised_and_paid_for(tuner, run, draw, data):
    draw(12)
    made = run(tuner())
    trials = made.get_best_trials(None)
    noise = made.search_plan.score_noise_multiplier
    off = [200 * (t.score - t.hyperparameters.get("right")) for t in trials]
    assert all(value == pytest.approx(round(value)) for value in off) and any(off)
    assert 0.4 * noise < np.std(off) < 1.9 * noise
    for trial in trials:
        ledger = read_ledger(made.run_dir_of(trial) / "ledger.jsonl")
        assert ledger.state.queries(disjoint=True) == 1


def test_public_scores_are_exact_and_free(tuner, run, draw):
    draw(4)
    made = run(tuner(validation_is_public=True))
    for trial in made.get_best_trials(None):
        assert trial.score == pytest.approx(trial.hyperparameters.get("right"))
    (best,) = made.get_best_models()
    assert best.ledger.validation_epsilon() == 0
    assert "Scores: of public examples" in privacy_statement(best.ledger)


def test_arguments_that_no_trial_uses_are_rejected_at_no_cost(tuner, run, tmp_path):
    with pytest.raises(ValueError, match="got batch_size, validation_is_public"):
        run(tuner(), batch_size=100, validation_is_public=True)
    assert not (tmp_path / FOLDER / "ledger.jsonl").exists()


def test_equal_settings_occur_as_often_as_by_chance(tuner):
    """Trials with equal settings less often would depend on each other, however few they are."""
    made, oracle, same = tuner(), RandomTrials(), 0
    oracle.hyperparameters.Choice("right", [0.1, 0.3, 0.5, 0.7, 0.9])
    oracle.folder = SimpleNamespace(number_of_trials=lambda: 2, seed_of=made._folder.seed_of)
    for secret in range(2000):  # given, so that chance never fails the test
        made._folder._key = secret.to_bytes(32, "big")
        oracle.trials = {}
        for trial in ("0000", "0001"):
            values = oracle.populate_space(trial)["values"]
            oracle.trials[trial] = SimpleNamespace(hyperparameters=SimpleNamespace(values=values))
        first, second = (t.hyperparameters.values for t in oracle.trials.values())
        same += first == second
    assert abs(same - 400) < 4 * np.sqrt(2000 * 0.2 * 0.8)


def test_a_setting_that_turns_up_later_keeps_its_default(tuner, run, draw):
    class Late(FakeHyperModel):
        def train(self, hp, trial, x, y, **more):
            seen.append(hp.Choice("late", ["default", "other"]))
            return super().train(hp, trial, x, y, **more)

    seen = []
    draw(8)
    made = run(tuner(Late()))
    assert seen == 8 * ["default"] and len(made.get_best_trials(None)) == 8


def test_ties_go_to_the_first_drawn(tuner, run, draw):
    class Same(FakeHyperModel):
        def build(self, hp):
            hp.Choice("right", [0.5])

    draw(12)
    made = run(tuner(Same(), validation_is_public=True))
    assert made.get_best_trials()[0].trial_id == "0000"
    # Ten and more: numbers, not text.
    assert [t.trial_id for t in made.get_best_trials(None)] == [f"{i:04d}" for i in range(12)]


# --- how many ---


def test_the_number_of_trials_is_drawn_once(tuner, run, tmp_path):
    numbers = set()
    for _ in range(3):
        made = tuner()
        with made._folder.opened(()) as folder:
            numbers.add((folder.number_of_trials(), folder.seed_of("0000", "right")))
    assert len(numbers) == 1
    key = tmp_path / FOLDER / "secret.key"
    assert key.stat().st_mode & 0o777 == 0o600
    # In the ledger, there is a digest of the secret and nothing that tells the number.
    assert key.read_text() not in (tmp_path / FOLDER / "ledger.jsonl").read_text()


def test_a_search_without_its_secret_is_rejected(tuner, run, draw, tmp_path):
    draw(3)

    def killed(number, hp):
        if number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tuner(FakeHyperModel(killed)))
    (tmp_path / FOLDER / "secret.key").unlink()
    with pytest.raises(ValueError, match="drawn is unknown"):
        run(tuner())
    (tmp_path / FOLDER / "secret.key").write_text("00" * 32)
    with pytest.raises(ValueError, match="secret is"):
        run(tuner())
    (tmp_path / FOLDER / "ledger.jsonl").unlink()
    with pytest.raises(ValueError, match="next to the trials"):
        run(tuner())


def test_search_may_draw_zero_trials(tuner, run, draw, tmp_path):
    draw(0)
    made = run(tuner())
    assert made.hypermodel.trained == [] and ledger_of(tmp_path).state.trials == ()
    with pytest.raises(ValueError, match="drew no trials"):
        made.get_best_models()
    assert ledger_of(tmp_path).epsilon() == made.search_plan.epsilon(1e-5)


# --- crashes ---


def test_a_killed_search_goes_on_with_the_same_trials(tuner, run, draw, tmp_path):
    draw(4)

    def killed(number, hp):
        if number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tuner(FakeHyperModel(killed)))
    first = ledger_of(tmp_path)
    assert first.state.trials == (0, 1, 2) and not first.state.is_finished
    with pytest.raises(ValueError, match="The search has not ended"):
        tuner().get_best_models()
    made = run(tuner())
    assert (
        ledger_of(tmp_path).state.trials == (0, 1, 2, 3) and ledger_of(tmp_path).state.is_finished
    )
    assert ledger_of(tmp_path).settings == first.settings
    assert [path.parent.name for path, _ in made.hypermodel.trained] == ["trial_0002", "trial_0003"]
    assert len(made.get_best_trials(None)) == 4
    # Once more does nothing, and the secret is gone.
    assert run(tuner()).hypermodel.trained == []
    assert not (tmp_path / FOLDER / "secret.key").exists()
    assert tuner().get_best_models()[0].ledger.epsilon() <= 3


def test_a_trial_that_fails_counts_and_is_not_made_up_for(tuner, run, draw, tmp_path):
    draw(4)

    def fails(number, hp):
        if number in (1, 3):
            raise MemoryError("too large")

    with pytest.warns(UserWarning, match="A trial has failed, and still counts .*: too large"):
        made = run(tuner(FakeHyperModel(fails)))
    assert ledger_of(tmp_path).state.trials == (0, 1, 2, 3) and len(made.get_best_trials(None)) == 2


def test_a_full_disk_ends_the_search_and_no_trial(tuner, run, draw, tmp_path):
    def full(number, hp):
        raise OSError("no space left")

    draw(2)
    with pytest.raises(RuntimeError, match="no space left"):
        run(tuner(FakeHyperModel(full)))
    made = run(tuner())
    assert len(made.get_best_trials(None)) == 2 and ledger_of(tmp_path).state.trials == (0, 1)


@pytest.mark.filterwarnings("ignore:A trial has failed")
def test_if_all_fail_there_is_no_winner(tuner, run, draw):
    def fails(number, hp):
        raise MemoryError("too large")

    draw(2)
    made = run(tuner(FakeHyperModel(fails)))
    with pytest.raises(ValueError, match="every trial failed"):
        made.get_best_models()
    draw(5)
    with pytest.raises(RuntimeError, match="consecutive failures"):
        run(tuner(FakeHyperModel(fails), project_name="more"))


@pytest.mark.filterwarnings("ignore:A trial has failed")
def test_a_score_that_is_no_number_loses(tuner, run, draw, monkeypatch):
    draw(2)
    scores = iter([float("nan"), 0.1])
    monkeypatch.setattr(PrivateValidation, "measure", lambda self, private: next(scores))
    made = run(tuner())
    assert [trial.trial_id for trial in made.get_best_trials(None)] == ["0001"]


def test_lost_guarantee_of_a_trial_holds_for_the_selected_one(tuner, run, draw):
    class Voids(FakeHyperModel):
        def train(self, hp, trial, x, y, **more):
            private = super().train(hp, trial, x, y, **more)
            if len(self.trained) == 1:
                private._right = 0.0  # it loses
                private.ledger.record(caveat("no_guarantee", sentence="it leaks"))
                private.ledger.record(caveat("foreign_weights", sentence="Weights from elsewhere."))
            return private

    draw(2)
    made = run(tuner(Voids()))
    (best,) = made.get_best_models()
    assert best.ledger.epsilon() == float("inf")
    text = privacy_statement(best.ledger)
    assert text.startswith("NO GUARANTEE") and "in another trial of its search, it leaks" in text
    assert "In another trial of its search. Weights from elsewhere." in text


# --- what differs between trials, and between programs ---


def test_lots_that_are_not_named_are_rejected_before_the_search(tuner):
    def settings(hp):
        size = hp.Choice("expected_batch_size", [50, 100])
        return dict(num_examples=EXAMPLES, expected_batch_size=size, steps=9, l2_norm_clip=1.0)

    def build(hp):
        return None

    with pytest.raises(ValueError, match="Name all batches in `lots`"):
        tuner(build, settings=settings)
    assert len(tuner(build, settings=settings, lots=[(50, 9), (100, 9)]).search_plan.trials) == 2

    def fewer(hp):
        count = hp.Choice("num_examples", [EXAMPLES, EXAMPLES // 2])
        return dict(num_examples=count, expected_batch_size=50, steps=9, l2_norm_clip=1.0)

    with pytest.raises(ValueError, match="planned for"):
        tuner(build, settings=fewer, project_name="fewer")


@pytest.mark.filterwarnings("ignore:A trial has failed")
def test_a_lot_that_was_not_planned_fails_before_it_costs(tuner, run, draw):
    class Other(FakeHyperModel):
        def settings(self, hp):
            return {**super().settings(hp), "steps": 2 * STEPS if self.trained else STEPS}

    draw(1)
    made = run(tuner(Other()))
    assert made.get_best_trials(None) == []


@pytest.mark.parametrize(
    "changes",
    [
        dict(expected_trials=5),
        dict(budget=PrivacyBudget(2.0, 1e-5)),
        dict(budget=PrivacyBudget(3.0, 1e-6)),
        dict(distribution="geometric"),
        dict(validation_is_public=True),
        dict(hypermodel=FakeHyperModel(lots=((100, STEPS), (100, 2 * STEPS)))),
    ],
)
def test_another_search_in_the_folder_is_rejected(tuner, run, draw, changes):
    draw(2)

    def killed(number, hp):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tuner(FakeHyperModel(killed)))
    another = "There is another search in .* Pass directory= or project_name="
    with pytest.raises(ValueError, match=another):
        run(tuner(**changes))
    run(tuner())
    with pytest.raises(ValueError, match=another):
        run(tuner(**changes))


def test_two_processes_on_one_search(tuner, run, draw):
    draw(2)

    def second(number, hp):
        with pytest.raises(BlockingIOError, match="is in use already"):
            run(tuner())

    run(tuner(FakeHyperModel(second)))


# --- what gets out, and what is refused ---


def test_only_the_winner(tuner, run, draw, capsys):
    draw(3)
    made = run(tuner(), verbose=1)
    shown = capsys.readouterr().out
    assert "epsilon of the search" in shown and "no search" in shown
    scores = [trial.score for trial in made.get_best_trials(None)]
    assert "core" not in shown.replace("scored on", "") and str(scores[0]) not in shown
    for ask in (made.get_best_models, made.get_best_hyperparameters):
        with pytest.raises(ValueError, match="covers the release of that trial only"):
            ask(2)
    made.results_summary()
    assert capsys.readouterr().out.startswith("NOT FOR RELEASE")
    notice = pathlib.Path(made.project_dir) / "NOT_FOR_RELEASE.txt"
    assert "winner/" in notice.read_text()


def test_output_does_not_depend_on_the_number_of_trials(tuner, run, draw, capsys):
    shown = []
    for count in (1, 6):
        draw(count)
        run(tuner(project_name=f"search{count}"), verbose=1)
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] and "The trials begin" in shown[0]


def test_other_trials_cannot_be_reached(tuner, run, draw):
    draw(3)
    made = run(tuner())
    best, *lost = made.get_best_trials(None)
    assert made.load_model(best).ledger.epsilon() <= 3
    for trial in lost:
        with pytest.raises(ValueError, match="not the selected trial"):
            made.load_model(trial)
    with pytest.warns(UserWarning, match="NOT FOR RELEASE"):
        assert len(made.oracle.get_best_trials(5)) == 3


def test_the_files_of_the_winner_are_as_old_as_the_end(tuner, run, draw, tmp_path):
    draw(3)
    run(tuner())
    folder = tmp_path / FOLDER
    last = max(path.stat().st_mtime for path in folder.glob("trial_*/run/*"))
    assert all(path.stat().st_mtime >= last for path in (folder / "winner").rglob("*"))


@pytest.mark.parametrize(
    "make",
    [
        lambda path: keras.callbacks.TensorBoard(path),
        lambda path: keras.callbacks.CSVLogger(path / "log.csv"),
        lambda path: [keras.callbacks.ModelCheckpoint(str(path / "best.keras"))],
        lambda path: PrivacyTensorBoard(path),
        lambda path: Progress(),
        lambda path: keras.callbacks.ReduceLROnPlateau("val_loss"),
    ],
)
def test_callbacks_that_write_trials_down_are_rejected(tuner, run, draw, tmp_path, make):
    draw(1)
    with pytest.raises(ValueError, match="is not supported in a search"):
        run(tuner(), callbacks=[make(tmp_path)])
    assert not (tmp_path / FOLDER / "ledger.jsonl").exists()


def test_seeds_of_the_program_do_not_identify_trials(tuner, run, draw):
    """Trials have to be equally distributed: a known seed would give each its own beginning."""
    draw(2)
    drawn = []
    for number in range(2):
        keras.utils.set_random_seed(1)
        run(
            tuner(
                FakeHyperModel(lambda *_: drawn.append(np.random.rand())), project_name=f"{number}"
            )
        )
    assert len(set(drawn)) == 4


def test_private_questions_in_a_trial_are_rejected(tuner, run, data):
    validation = PrivateValidation(*data.other, noise_multiplier=5.0, queries=3)
    with pytest.raises(ValueError, match="PrivateValidation is not supported in a search"):
        run(tuner(), callbacks=[keras.callbacks.LambdaCallback(), validation])


def test_validation_rows_that_are_training_rows_are_rejected(tuner, run, data):
    with pytest.raises(ValueError, match="must not be training examples"):
        run(tuner(), validation_data=(data.x[:50], data.y[:50]))


def test_public_validation_rows_must_not_be_training_rows(tuner, run, data):
    made = tuner(validation_is_public=True)
    with pytest.raises(
        ValueError, match="Validation examples must not be training examples, but 50"
    ):
        run(made, validation_data=(data.x[:50], data.y[:50]))
    assert made.hypermodel.trained == []


def test_validation_rows_that_are_public_rows_are_rejected(tuner, run, data):
    class Public(FakeHyperModel):
        def settings(self, hp):
            return {**super().settings(hp), "public_batch": data.other[0][:9]}

    with pytest.raises(ValueError, match="public"):
        run(tuner(Public()))


@pytest.mark.filterwarnings("ignore:A trial has failed")
def test_public_rows_of_a_trial_must_not_be_validation_rows(tuner, run, draw, data):
    class Chooses(FakeHyperModel):
        def settings(self, hp):
            rows = {"made up": "synthetic", "validation": data.other[0][:9]}
            chosen = rows[hp.Choice("public", list(rows))]
            return {**super().settings(hp), "public_batch": chosen}

        def train(self, hp, trial, x, y, **more):
            return FakeHyperModel(lots=self.lots()).train(hp, trial, x, y, **more)

    draw(12)
    made = run(tuner(Chooses(), max_consecutive_failed_trials=99))
    ended = made.get_best_trials(None)
    assert 0 < len(ended) < 12
    assert {trial.hyperparameters.get("public") for trial in ended} == {"made up"}


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(budget=1), "settings contain budget"),
        (dict(noise_multiplier=1.0), "settings contain noise_multiplier"),
        (dict(run_dir="x"), "settings contain run_dir"),
        (dict(delta=1e-9), "settings contain delta"),
        (dict(accountant="pld"), "settings contain accountant"),
        (dict(checkpoint_every=3), "checkpoint_every unknown"),
        (dict(insecure_seed=1), "settings contain insecure_seed"),
        (dict(lr=1.0), "lr unknown"),
        (dict(steps=None), "steps missing"),
    ],
)
def test_settings_that_the_search_decides(tuner, settings, message):
    given = dict(num_examples=EXAMPLES, expected_batch_size=100, steps=STEPS, l2_norm_clip=1.0)
    given |= settings
    given = {name: value for name, value in given.items() if value is not None}
    with pytest.raises(ValueError, match=message):
        tuner(lambda hp: None, settings=given)


def test_a_trial_is_in_the_ledger_before_it_is_trained(tuner, run, draw, monkeypatch):
    def full_disk(ledger, entry):
        if isinstance(entry, Trial):
            raise OSError("full")

    draw(2)
    made = tuner()
    monkeypatch.setattr(PrivacyLedger, "record", full_disk)
    with pytest.raises(OSError, match="full"):
        run(made)
    assert made.hypermodel.trained == []


def test_the_distributed_mode_is_rejected(tuner, monkeypatch):
    monkeypatch.setenv("KERASTUNER_TUNER_ID", "chief")
    with pytest.raises(ValueError, match="distributed mode is not supported"):
        tuner()


def test_settings_go_with_functions_only(tuner):
    with pytest.raises(ValueError, match="Expected settings with a function"):
        tuner(FakeHyperModel(), settings={})
    with pytest.raises(ValueError, match="Expected settings with a function"):
        tuner(lambda hp: None)
    with pytest.raises(ValueError, match="distribution"):
        tuner(distribution="fixed")
