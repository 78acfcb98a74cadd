"""Keras Tuner's own tuners on private models: their trials are named where nobody pays for them."""

import re
import types
import weakref

import keras_tuner
import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm.training import PrivateValidation, noticed_searches, weights_of_run

needs_keras_tuner = pytest.mark.skipif(
    "tf_keras" in keras.Sequential.__module__,
    reason="Keras Tuner takes models of Keras 3 alone where that is installed",
)


@pytest.fixture(autouse=True)
def no_search_before(monkeypatch):
    """Lets each test begin, and the tests after these, as in a process of its own."""
    monkeypatch.setattr(noticed_searches, "_searches", weakref.WeakKeyDictionary())


@pytest.fixture
def search(build, private, data, cross_entropy, tmp_path):
    """Returns a function that runs a plain random search of two trials and returns its tuner."""

    def run(trials=2, **fit):
        def build_private(hp):
            model = private(build())
            rate = hp.Choice("learning_rate", [0.1, 0.2, 0.3])
            model.compile(keras.optimizers.SGD(rate), cross_entropy, metrics=["accuracy"])
            return model

        tuner = keras_tuner.RandomSearch(
            build_private, "val_accuracy", max_trials=trials, directory=str(tmp_path), seed=1
        )
        other = (data[0] + 1, data[1])
        tuner.search(*data, validation_data=other, epochs=1, verbose=0, **fit)
        return tuner

    return run


@needs_keras_tuner
def test_a_run_with_the_settings_that_a_search_found_says_so(search, data):
    tuner = search()
    (found,) = tuner.get_best_hyperparameters(1)
    retrained = tuner.hypermodel.build(found)
    assert "this process made before" not in retrained.privacy_statement()
    retrained.fit(*data, verbose=0, epochs=1)
    text = retrained.privacy_statement()
    assert "A search that this process made before" in text
    assert "RandomSearch chose by val_accuracy between trials 0, 1" in text


def test_files_that_no_search_has_left(tmp_path):
    assert noticed_searches.trial_with_file(tmp_path / "weights.h5") is None
    assert noticed_searches.trial_with_file(None) is None
    (tmp_path / "trial.json").write_text("{}")
    assert noticed_searches.trial_with_file(str(tmp_path / "weights.h5")) is None


@needs_keras_tuner
def test_the_best_model_names_the_trials(search, data, monkeypatch):
    tuner = search()
    best = tuner.get_best_models(1)[0]
    text = best.privacy_statement()
    assert "epsilon = 0" not in text and "no epsilon can be stated" in text
    assert "RandomSearch chose by val_accuracy between trials 0, 1" in text
    # Two trials of four updates of lots of 10 of 40 with noise 1: by the ledger of one of eight.
    spent = float(re.search(r"spent epsilon ([\d.]+) at delta 1e-05 together", text)[1])
    best.fit(*data, verbose=0)  # eight updates
    assert best.ledger.epsilon() <= spent <= 1.002 * best.ledger.epsilon()
    assert text.count("Weights that come from elsewhere") == 1
    assert "left them" in best.privacy_statement()
    # Another process knows them by their folder.
    monkeypatch.setattr(weights_of_run, "_left_by_trials", {})
    text = tuner.get_best_models(1)[0].privacy_statement()
    assert "epsilon = 0" not in text and "no epsilon can be stated" in text
    assert "of a search of Keras Tuner left them, 'untitled_project', with trials 0, 1" in text


def spent_by(text):
    return float(re.search(r"spent epsilon ([\d.]+) at delta", text)[1])


@needs_keras_tuner
def test_a_search_that_goes_on_names_the_trials_before(search, data):
    """Another tuner has made them: of this process, as here, or of another one."""
    first = search(trials=1)
    whole = spent_by(first.get_best_models(1)[0].privacy_statement())
    tuner = search(trials=2)
    (noticed,) = (s for t, s in noticed_searches._searches.items() if t is tuner)
    text = noticed.in_words()
    assert text.startswith("RandomSearch chose by val_accuracy between trials 0, 1. What was spent")
    assert "on trial 0 is not known here" in text and "they have spent" not in text
    assert "trial 1 alone spent" in text and spent_by(text) == whole
    # The trials of the first tuner are others' too, since.
    assert (
        "What was spent on trial 1 is not known here"
        in next(s for t, s in noticed_searches._searches.items() if t is first).in_words()
    )
    retrained = tuner.hypermodel.build(tuner.get_best_hyperparameters(1)[0])
    retrained.fit(*data, verbose=0, epochs=1)
    assert text in retrained.privacy_statement()


def test_trials_whose_oracle_is_elsewhere_are_known_by_their_folder(tmp_path):
    for name in ("0", "1", "02"):
        (tmp_path / f"trial_{name}").mkdir()
        (tmp_path / f"trial_{name}" / "trial.json").write_text("{}")
    worker = types.SimpleNamespace(oracle=object(), project_dir=str(tmp_path))
    text = noticed_searches.NoticedSearch(worker).in_words()
    assert "What was spent on trials 0, 1, 02 is not known here" in text


@pytest.mark.slow
def test_a_trial_says_what_it_is_a_trial_of(search, monkeypatch):
    models = []
    fit = keras_tuner.HyperModel.fit

    def kept(self, hp, model, *args, **kwargs):
        models.append(model)
        return fit(self, hp, model, *args, **kwargs)

    monkeypatch.setattr(keras_tuner.HyperModel, "fit", kept)
    search()
    for number, model in enumerate(models):
        text = model.privacy_statement()
        assert f"RandomSearch, trial {number}" in text and "The validation data, by whose" in text


@pytest.mark.slow
def test_public_validation_data_are_not_named(search):
    best = search(validation_is_public=True).get_best_models(1)[0]
    assert "The validation data, by whose" not in best.privacy_statement()


def test_weights_of_no_trial_are_not_taken_for_one(build, private, data, cross_entropy):
    first, second = private(build()), private(build())
    for model in (first, second):
        model.compile(keras.optimizers.SGD(0.1), cross_entropy)
    first.fit(*data, verbose=0, epochs=1)
    second.set_weights(first.get_weights())
    text = second.privacy_statement()
    assert "not known here" in text and "of a search" not in text


class TestMeasure:
    """`PrivateValidation.measure`, by which trials are scored."""

    @pytest.fixture
    def trained(self, build, private, data, cross_entropy):
        model = private(build())
        model.compile(keras.optimizers.SGD(0.1), cross_entropy)
        model.fit(*data, verbose=0, epochs=1)
        return model

    def test_asks_once_and_is_charged(self, trained, data):
        validation = PrivateValidation(data[0] + 1, data[1], noise_multiplier=5.0, queries=1)
        first = validation.measure(trained)
        assert first == validation.measure(trained)
        ledger = trained.ledger
        assert ledger.queries_of(disjoint=True) == 1 and ledger.validation_epsilon() > 0
        right = np.mean(trained.predict(data[0] + 1, verbose=0).argmax(1) == data[1])
        assert abs(first - right) < 5 * 5.0 / 40 and (40 * first) == pytest.approx(
            round(40 * first)
        )

    def test_no_more_than_planned(self, trained, data):
        validation = PrivateValidation(data[0] + 1, data[1], noise_multiplier=5.0, queries=1)
        validation.measure(trained)
        trained.fit(*data, verbose=0, epochs=1)
        with pytest.raises(RuntimeError, match="at most 1 queries"):
            validation.measure(trained)

    def test_without_noise_it_is_refused(self, trained, data):
        validation = PrivateValidation(data[0] + 1, data[1], noise_multiplier=0.0)
        with pytest.raises(ValueError, match="noise_multiplier > 0"):
            validation.measure(trained)
