"""Searches whose trials really train: interrupted within a trial, and over lots and callbacks."""

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm import PrivacyBudget, WeightAverage
from tfdpnorm.errors import PrivacyError
from tfdpnorm.privacy import read_ledger
from tfdpnorm.tuning import PrivateRandomSearch

N, STEPS = 60, 6
left = {"updates": 10**9}  # until somebody interrupts; outside of callbacks, which are copied


class Interrupts(keras.callbacks.Callback):
    """Raises KeyboardInterrupt once."""

    def on_train_batch_end(self, batch, logs=None):
        left["updates"] -= 1
        if not left["updates"]:
            raise KeyboardInterrupt


@pytest.fixture
def search(tmp_path, draw):
    """Returns a function that runs a search of three trials in a folder of that name."""
    draw(3)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(100, 5)).astype(np.float32)
    y = rng.integers(3, size=100)

    def build(hp):
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(hp.Choice("learning_rate", [0.1, 1.0])), loss)
        return model

    def run(name="search"):
        tuner = PrivateRandomSearch(
            build,
            settings=lambda hp: dict(
                num_examples=N,
                expected_batch_size=N,
                steps=STEPS,
                l2_norm_clip=hp.Choice("l2_norm_clip", [0.5, 1.0]),
            ),
            budget=PrivacyBudget(3.0, 1e-5),
            expected_trials=3,
            directory=str(tmp_path),
            project_name=name,
        )
        tuner.search(
            x[:N],
            y[:N],
            validation_data=(x[N:], y[N:]),
            callbacks=[WeightAverage(0.5), Interrupts()],
            verbose=0,
        )
        return tuner

    return run


class Evaluates(keras.callbacks.Callback):
    def __init__(self, x):
        super().__init__()
        self.x = x

    def on_epoch_end(self, epoch, logs=None):
        self.model.evaluate(self.x, verbose=0)


def test_what_no_trial_could_train_is_said_before_the_first(tmp_path):
    x = np.random.default_rng(1).normal(size=(N, 5)).astype(np.float32)
    y = np.arange(N) % 3

    def build(hp, rate=0.1, norm=()):
        model = keras.Sequential([keras.Input((5,)), *norm, keras.layers.Dense(3)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(rate), loss)
        hp.Choice("l2_norm_clip", [0.5, 1.0])
        return model

    scheduled = keras.optimizers.schedules.CosineDecay(0.1, 10)
    for arguments, more, match in (
        ({}, {"callbacks": [Evaluates(x)]}, "training examples"),
        ({}, {"callbacks": [keras.callbacks.TerminateOnNaN()]}, "TerminateOnNaN"),
        ({}, {"y": y + 1}, "class numbers"),
        ({}, {"class_weight": {0: 1.0}}, "class"),
        ({"norm": [keras.layers.BatchNormalization()]}, {}, "BatchNormalization"),
        ({"rate": scheduled}, {"callbacks": [_scheduler()]}, "LearningRateScheduler"),
    ):
        tuner = PrivateRandomSearch(
            lambda hp, given=arguments: build(hp, **given),
            settings=dict(num_examples=N, expected_batch_size=N, steps=2, l2_norm_clip=1.0),
            budget=PrivacyBudget(3.0, 1e-5),
            expected_trials=3,
            directory=str(tmp_path),
            validation_is_public=True,
        )
        with pytest.raises(ValueError, match=match):
            tuner.search(**{"x": x, "y": y, "validation_data": (x + 9, y), "verbose": 0, **more})
        assert not list(tmp_path.rglob("ledger.jsonl"))


def _scheduler():
    return keras.callbacks.LearningRateScheduler(lambda epoch: 0.1)


@pytest.mark.slow
def test_a_trial_that_was_cut_short_goes_on(search, tmp_path):
    left["updates"] = STEPS + 3  # in the second trial
    with pytest.raises(KeyboardInterrupt):
        search()
    folder = tmp_path / "search"
    second = read_ledger(folder / "trial_0001" / "run" / "ledger.jsonl")
    assert second.updates >= 3 and second.state.search is not None and not second.state.is_finished
    before = read_ledger(folder / "ledger.jsonl")
    assert before.state.trials == (0, 1)
    tuner = search()
    after = read_ledger(folder / "ledger.jsonl")
    assert after.state.trials == (0, 1, 2) and after.settings == before.settings
    assert after.epsilon() == before.epsilon() <= 3
    assert len(tuner.get_best_trials(None)) == 3
    for trial in tuner.get_best_trials(None):
        ledger = read_ledger(tuner.run_dir_of(trial) / "ledger.jsonl")
        assert ledger.updates == STEPS and ledger.state.is_finished
    (best,) = tuner.get_best_models()
    assert best.ledger.epsilon() == after.epsilon() and best.ledger.guarantee_holds
    assert not list(folder.rglob("secret.key"))
    assert "Weights of unknown provenance" not in best.privacy_statement()


def test_a_search_protects_persons_with_public_scores(tmp_path, draw):
    draw(2)
    x = np.random.default_rng(1).normal(size=(100, 5)).astype(np.float32)
    y, person = np.arange(100) % 3, np.arange(N) % 20

    def build(hp):
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(hp.Choice("learning_rate", [0.1, 1.0])), loss)
        return model

    def tuner(**changes):
        return PrivateRandomSearch(
            build,
            settings=dict(
                num_examples=20,
                expected_batch_size=10,
                steps=2,
                l2_norm_clip=1.0,
                most_per_person=2,
            ),
            budget=PrivacyBudget(3.0, 1e-5),
            expected_trials=2,
            directory=str(tmp_path),
            **{"validation_is_public": True, **changes},
        )

    with pytest.raises(PrivacyError, match="needs public validation examples"):
        tuner(validation_is_public=False)
    made = tuner()
    scored = {"validation_data": (x[N:], y[N:]), "verbose": 0}
    with pytest.raises(PrivacyError, match="needs person="):
        made.search(x[:N], y[:N], **scored)
    with pytest.raises(PrivacyError, match="num_examples=20,.* got 10 persons"):
        made.search(x[:N], y[:N], person=person % 10, **scored)
    assert not list(tmp_path.rglob("ledger.jsonl"))
    made.search(x[:N], y[:N], person=person, **scored)
    (best,) = made.get_best_models()
    assert best.ledger.unit == "person" and best.ledger.guarantee_holds
    # A person is an example of every trial: the search costs what one of rows would.
    assert best.ledger.epsilon() == made.search_plan.epsilon(1e-5) <= 3
    lines = best.privacy_statement().splitlines()
    assert "for any one person with all their rows" in lines[0]
