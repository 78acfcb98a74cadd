"""The statement is true of the weights at hand: those from elsewhere are told from the run's."""

import copy
import warnings

import numpy as np
import pytest
from tensorflow import keras

from tests.private_of import private_of
from tfdpnorm.convert import convert_model, load_model
from tfdpnorm.errors import PrivacyWarning
from tfdpnorm.privacy import Declaration, metadata, read_ledger
from tfdpnorm.training import WeightAverage, weights_digest

ELSEWHERE = "Weights of "
KERAS_2 = pytest.mark.keras_2_only("writes no SavedModel that it could load")


def statement(private):
    """The statement, which says "epsilon = 0" only where nothing is known against it."""
    text = private.privacy_statement()
    if ELSEWHERE in text:
        assert "epsilon = 0" not in text and text.splitlines()[1].startswith(f"- {ELSEWHERE}")
    return text


@pytest.fixture
def trained(build, private, data, cross_entropy):
    """Returns a function to a private model of 8 updates, an epoch of them made."""

    def train(norm="none", public=None, callbacks=(), epochs=1, **settings):
        model = private(build(norm=norm), public_batch=public, **settings)
        model.compile(keras.optimizers.SGD(0.5), cross_entropy)
        if epochs:
            model.fit(*data, verbose=0, epochs=epochs, callbacks=list(callbacks))
        return model

    return train


@pytest.fixture
def plain(build, data, cross_entropy):
    """A model that was trained without privacy."""
    model = build()
    model.compile("adam", cross_entropy)
    model.fit(*data, verbose=0, batch_size=20)
    return model


def made(model, **settings):
    return private_of(model, steps=8, **settings)


def others(private):
    return [w + 1 for w in private.model.get_weights()]


REPLACE = {
    "load_weights": lambda private, path: private.load_weights(path),
    "assign": lambda private, path: private.model.weights[0].assign_add(
        np.ones((5, 4), np.float32)
    ),
}


@pytest.mark.parametrize("how", REPLACE)
def test_weights_that_are_put_in_before_training(trained, plain, data, tmp_path, how):
    path = str(tmp_path / "plain.weights.h5")
    plain.save_weights(path)
    private = trained(epochs=0)
    assert "If its weights were freshly initialised, epsilon = 0" in statement(private)
    REPLACE[how](private, path)
    text = statement(private)
    assert (
        "before the first update, the weights of this run were replaced" in text
        and "no epsilon can be stated" in text
    )
    private.fit(*data, verbose=0, epochs=1)
    text = statement(private)  # and it does not forget
    assert (
        "before the first update, the weights of this run were replaced" in text
        and text.startswith("1. Training satisfies")
    )


def test_weights_that_are_put_in_between_two_fits(trained, data):
    private = trained()
    assert ELSEWHERE not in statement(private)
    private.model.set_weights(others(private))
    assert "weights_replaced" in str(private.privacy_metadata())
    private.fit(*data, verbose=0)
    assert "after update 4, the weights of this run were replaced" in statement(private)
    assert statement(private).count(ELSEWHERE) == 1


def test_interventions_are_counted_in_one_sentence(trained, tmp_path):
    private = trained(run_dir=tmp_path)
    for count in (1, 2, 3):
        private.set_weights(others(private))
        (known,) = [c for c in private.ledger.state.caveats if c.kind == "foreign_weights"]
        assert known.fields == {"position": 4, "interventions": count}
    assert "the weights of this run were replaced (3 times in total)" in statement(private)
    private.ledger.close()
    assert read_ledger(private.ledger.file.path).state == private.ledger.state
    private.model.set_weights(others(private))  # The ledger is closed.
    assert "the weights of this run were replaced (4 times in total)" in statement(private)
    again = trained(run_dir=tmp_path, resume=True, epochs=0)
    again.set_weights(others(again))
    assert "the weights of this run were replaced (4 times in total)" in statement(again)


def test_weights_of_another_private_run_are_named_when_set(trained, tmp_path):
    other, private = trained(), trained()
    other.save_weights(str(tmp_path / "other.weights.h5"))
    private.load_weights(str(tmp_path / "other.weights.h5"))
    kinds = [c.code for c in private.ledger.state.caveats if c.kind == "foreign_weights"]
    assert kinds == ["weights_replaced", "private_run"]
    assert f"in the private run {other.ledger.run_id}, with 4 updates" in statement(private)


def test_an_update_that_fails_makes_no_weights_known(trained, data):
    private = trained()
    private.model.set_weights(others(private))
    with pytest.raises(TypeError):
        private.train_on_batch()
    assert "after update 4, the weights of this run were replaced" in statement(private)


class Unbuilt(keras.Model):
    def __init__(self):
        super().__init__()
        self.first, self.last = keras.layers.Dense(4), keras.layers.Dense(3)

    def call(self, x):
        return self.last(self.first(x))


@pytest.mark.keras_2_only("loads no weights into a model that is not built")
def test_weights_that_were_loaded_before_the_model_was_built(data, cross_entropy, tmp_path):
    plain = Unbuilt()
    plain(data[0])
    plain.save_weights(tmp_path / "weights")
    for early in (True, False):
        model = Unbuilt()
        if early:
            model.load_weights(tmp_path / "weights")
        private = made(model)
        if not early:
            private.model.load_weights(tmp_path / "weights")
        private.compile("sgd", cross_entropy)
        private.fit(*data, verbose=0, epochs=1)
        assert "they were loaded before the model was built" in statement(private)


@pytest.mark.keras_2_only("loads no weights into a model that is not built")
def test_weights_of_another_run_are_known_when_fit_builds(data, cross_entropy, tmp_path):
    first = made(Unbuilt())
    first.compile(keras.optimizers.SGD(0.5), cross_entropy)
    first.fit(*data, verbose=0, epochs=1)
    first.save_weights(tmp_path / "weights")
    model = Unbuilt()
    model.load_weights(tmp_path / "weights")
    second = made(model)
    second.compile("sgd", cross_entropy)
    second.fit(*data, verbose=0, epochs=1)
    assert "another private model had trained them" in statement(second)


def test_averages_vouch_for_no_other_weights(trained):
    average = WeightAverage(0.5)
    private = trained(callbacks=[average])
    private.model.set_weights(others(private))
    with average.applied():
        assert ELSEWHERE in statement(private)


def test_copies_of_averages_are_known_again(trained, build):
    average = WeightAverage(0.5)
    private = trained(callbacks=[average])
    with average.applied():
        weights = private.get_weights()
    model = build()
    model.set_weights(weights)
    assert "another private model had trained them" in made(model).privacy_statement()


def test_one_fit_at_a_time(trained, data):
    private = trained(epochs=0)
    again = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda *_: private.fit(*data, verbose=0, epochs=1)
    )
    with pytest.raises(ValueError, match="already running"):
        private.fit(*data, verbose=0, epochs=1, callbacks=[again])


class TestAtTheStart:
    def test_a_model_that_was_trained(self, plain, private, tmp_path):
        assert "its optimizer had made 2 steps" in statement(private(plain))
        plain.save(tmp_path / "plain.keras")
        loaded = keras.models.load_model(tmp_path / "plain.keras")
        assert "its optimizer had made 2 steps" in statement(private(loaded))
        within = keras.Sequential([keras.Input((5,)), plain, keras.layers.Dense(3)])
        assert "its optimizer had made 2 steps" in statement(private(within))

    def test_it_is_said_before_the_training_unless_it_was_declared(self, plain):
        with pytest.warns(PrivacyWarning, match="had made 2 steps"):
            made(plain)
        with warnings.catch_warnings():
            warnings.simplefilter("error", PrivacyWarning)
            warnings.filterwarnings("ignore", "Expect ")
            private = made(plain, declaration=Declaration(initial_weights_used_private_data=False))
        assert "Unconfirmed: where" not in private.privacy_statement()

    def test_a_model_that_another_private_model_trained(self, trained, private):
        first = trained()
        second = private(first.model)
        assert "another private model had trained them" in statement(second)
        part = keras.Sequential([first.model.layers[0], keras.layers.Dense(3)])
        part.build((None, 5))
        assert "another private model had trained them" in statement(private(part))

    def test_a_copy_of_what_another_private_model_trained(self, trained, build, tmp_path):
        first = trained()
        first.save(tmp_path / "first.keras")
        first.save_weights(str(tmp_path / "first.weights.h5"))
        clone, loaded = keras.models.clone_model(first.model), build()
        clone.set_weights(first.get_weights())
        loaded.load_weights(str(tmp_path / "first.weights.h5"))
        of_file = keras.models.load_model(tmp_path / "first.keras")
        for model in (clone, copy.deepcopy(first.model), loaded, of_file):
            assert "another private model had trained them" in statement(made(model))
        assert ELSEWHERE not in statement(first) and ELSEWHERE not in statement(made(build()))

    def test_weights_that_training_left_alone_are_not_trained(self, data, cross_entropy):
        """A layer that learns nothing has the first weights of every model of that seed."""

        def seeded():
            keras.utils.set_random_seed(77)
            return keras.Sequential([keras.Input((5,)), keras.layers.Dense(4)])

        still = made(seeded())
        still.compile(keras.optimizers.SGD(0.0), cross_entropy)
        still.fit(*data, epochs=1, verbose=0)
        assert ELSEWHERE not in statement(made(seeded()))

    def test_a_model_that_is_converted_on_the_way(self, plain, trained):
        assert "its optimizer had made 2 steps" in statement(made(plain, convert="group"))
        text = statement(made(trained().model, convert="group"))
        assert "another private model had trained them" in text

    @pytest.mark.parametrize("ending", [".keras", ".h5", pytest.param("", marks=KERAS_2)])
    def test_files_and_copies_know_what_trained_them(self, plain, ending, tmp_path, monkeypatch):
        """By every door, in a process that has not seen the training."""
        path = tmp_path / f"plain{ending}"
        plain.save(path)
        of_keras = keras.models.load_model if ending else load_model  # Keras 2 loses its steps
        for door in (
            lambda: made(path),
            lambda: made(path, convert="group"),
            lambda: made(load_model(path)),
            lambda: made(convert_model(path, "group").model),
            lambda: made(convert_model(of_keras(path), "group").model),
        ):
            monkeypatch.setattr(metadata, "_origins", {})
            assert "had made 2 steps" in statement(door())

    def test_layers_frozen_after_training_are_in_the_metadata(self, trained):
        private = trained()
        before = private.privacy_metadata()
        private.model.trainable = False
        assert private.privacy_metadata() == before and before["origins"][0]["weights"]

    @pytest.mark.parametrize("how", ["set_weights", "private"])
    def test_a_model_that_was_built_and_trained_before_fit(self, how, data, cross_entropy, plain):
        model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(3)])
        private = made(model)
        private.compile("sgd", cross_entropy)
        if how == "private":
            other = made(model)
            other.compile("sgd", cross_entropy)
            other.fit(*data, epochs=1, verbose=0)
        else:
            model.build((None, 5))
            model.set_weights([w + 1 for w in model.get_weights()])
        private.fit(*data, epochs=1, verbose=0)
        text = statement(private)
        assert "Data that trained the initial weights, if these were not drawn at random" in text
        assert (ELSEWHERE in text) == (how != "set_weights")

    def test_a_plan_that_was_tried_out_is_no_training(self, build, private):
        model = build()
        private(model)
        assert ELSEWHERE not in statement(private(model))

    def test_a_private_model_is_rejected(self, trained):
        first = trained()
        outer = keras.Sequential([first])
        for model in (first, outer):
            with pytest.raises(ValueError, match="private.model"):
                made(model)


def test_a_statement_names_weights_that_the_saved_model_has(trained, data, tmp_path):
    private = trained(norm="public_batch", public=data[0][:6] + 9)
    digest = weights_digest(private.model)
    assert f"weights with the SHA-256 {digest}; " in private.privacy_statement()
    private.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras", compile=False)
    assert weights_digest(loaded) == digest
    loaded.weights[0].assign_add(np.ones(loaded.weights[0].shape, np.float32))
    assert weights_digest(loaded) != digest
