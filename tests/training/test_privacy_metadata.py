"""Files of privately trained models say what was spent, and whoever trains them further says it."""

import zipfile

import numpy as np
import pytest
from tensorflow import keras
from tensorflow.keras import layers

import tfdpnorm
from tests.private_of import private_of
from tfdpnorm import convert
from tfdpnorm.errors import PrivacyWarning
from tfdpnorm.keras_compat.variables import KERAS_3
from tfdpnorm.privacy import Declaration, metadata
from tfdpnorm.privacy.rounding import ceil_text

X = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
Y = np.arange(40) % 3


@pytest.fixture(autouse=True)
def nothing_is_remembered(monkeypatch):
    monkeypatch.setattr(metadata, "_origins", {})


def model():
    return keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(8, name="first"),
            layers.BatchNormalization(name="norm"),
            layers.Dense(3, name="last"),
        ]
    )


def made_private(given, **more):
    settings = dict(
        num_examples=40,
        expected_batch_size=10,
        steps=2,
        l2_norm_clip=1.0,
        noise_multiplier=1.0,
        delta=1e-3,
    )
    return private_of(given, **{**settings, **more})


def trained(given, **more):
    private = made_private(given, **more)
    private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    private.fit(X, Y, verbose=0)
    return private


FILES = ("a.keras", "a.h5") + (() if KERAS_3 else ("a_folder",))


def test_a_second_run_knows_what_the_first_had_planned_and_asked(tmp_path):
    path = tmp_path / "a.keras"
    first = made_private(model(), convert="frozen")
    first.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    asked = tfdpnorm.training.PrivateValidation(X + 9, Y, noise_multiplier=3.0, queries=5)
    first.fit(X, Y, verbose=0, epochs=1, steps_per_epoch=1, callbacks=[asked])
    first.save(path)
    metadata._origins.clear()
    statement = made_private(path, convert="frozen").privacy_statement()
    ledger = first.ledger
    assert ledger.epsilon() < ledger.epsilon(whole_plan=True)
    assert ledger.validation_epsilon() < ledger.validation_epsilon(whole_plan=True)
    assert f"its full plan instead: {ceil_text(ledger.epsilon(whole_plan=True))}." in statement
    answers = ceil_text(ledger.validation_epsilon(whole_plan=True))
    assert f"private validation examples have epsilon = {answers} of their" in statement


def test_a_second_run_names_the_first(tmp_path):
    first = trained(model(), convert="frozen")
    for name in FILES:
        path = tmp_path / name
        first.save(path)
        keras.models.load_model(path)  # Keras does not mind
        (own,) = metadata.read_metadata(path)["origins"]
        (run,) = own["caveats"]
        assert run["fields"]["epsilon"] == first.ledger.epsilon() and run["fields"]["updates"] == 2
        assert run["fields"]["run"] == first.ledger.run_id
        metadata._origins.clear()  # as in another process
        second = made_private(path, convert="frozen")
        said = second.privacy_statement().splitlines()[1]
        assert said.startswith("- Weights of another run: they are from " + path.name)
        assert f"{first.ledger.epsilon():.2f}"[:3] in said
        assert second.ledger.state.sentences("foreign_weights") == (said[2:],)


def in_a_new_process():
    metadata._origins.clear()


def files_named(private):
    return [
        s.split(" they are from ")[1].split(",")[0]
        for s in private.ledger.state.sentences("foreign_weights")
    ]


def with_new_head(path):
    """The body of a saved model, which is not trained, and a layer that nobody has trained."""
    body = convert.load_model(path)
    body = keras.Model(body.inputs, body.get_layer("first").output)
    body.trainable = False
    return keras.Sequential([keras.Input((6,)), *body.layers[1:], layers.Dense(3, name="last")])


def test_a_run_is_named_through_one_that_left_its_weights(tmp_path):
    path = tmp_path / "a.keras"
    trained(model(), convert="frozen").save(tmp_path / "1.keras")
    in_a_new_process()
    trained(with_new_head(tmp_path / "1.keras")).save(path)
    in_a_new_process()
    third = with_new_head(path)
    third.layers[0].trainable = True
    assert files_named(made_private(third)) == ["1.keras"]
    in_a_new_process()
    assert files_named(made_private(convert.load_model(path))) == ["1.keras", path.name]


def test_metadata_are_of_the_whole_model_in_its_file(tmp_path):
    """Of which the run may have trained a part, on what the rest gave for each image."""
    trained(model(), convert="frozen").save(tmp_path / "1.keras")
    in_a_new_process()
    whole = with_new_head(tmp_path / "1.keras")
    head = keras.Sequential([keras.Input((8,)), whole.layers[-1]])
    private = made_private(head)
    private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    private.fit(np.tile(X, 2)[:, :8], Y, verbose=0)
    convert.export(whole, tmp_path / "export", X[:4], int8=False, trained_by=private)
    for name in ("model.keras",) + (() if KERAS_3 else ("saved_model",)):
        in_a_new_process()
        third = made_private(with_new_head(tmp_path / "export" / name))
        assert files_named(third) == ["1.keras"]


def test_a_run_is_named_once_however_many_files_it_is_of(tmp_path):
    first, names = trained(model(), convert="frozen"), FILES
    for name in names:
        first.save(tmp_path / name)
    trained(model(), convert="frozen").save(tmp_path / "another.keras")
    in_a_new_process()
    for name in names:
        loaded = convert.load_model(tmp_path / name)
    assert files_named(made_private(loaded)) == ["a.keras"]
    another = convert.load_model(tmp_path / "another.keras")
    loaded.get_layer("last").set_weights(another.get_layer("last").get_weights())
    assert files_named(made_private(loaded)) == ["a.keras", "another.keras"]


def test_metadata_of_an_earlier_release_are_not_taken_for_none(tmp_path):
    path = tmp_path / "a.keras"
    model().save(path)
    metadata.write_metadata(path, {"epsilon": 1.0, "weights": ["0" * 24]})
    with pytest.raises(ValueError, match="earlier"):
        convert.load_model(path)


def test_origins_of_runs_in_this_process_are_kept(tmp_path):
    trained(model(), convert="frozen").save(tmp_path / "1.keras")
    in_a_new_process()
    second = trained(tmp_path / "1.keras", convert="frozen")
    statement = made_private(second.model).privacy_statement()
    assert "they are from 1.keras" in statement
    assert "another private model had trained them" in statement


def test_a_model_of_a_few_numbers_is_known_again(tmp_path):
    small = keras.Sequential([keras.Input((6,)), layers.Dense(1)])
    private = made_private(small)
    private.compile("sgd", "mse")
    private.fit(X, np.float32(Y), verbose=0)
    private.save(tmp_path / "1.keras")
    metadata._origins.clear()
    again = convert.load_model(tmp_path / "1.keras")
    assert "they are from 1.keras" in made_private(again).privacy_statement()
    plain = [np.ones(3, np.float32), np.zeros(3, np.float32), np.arange(3.0), np.arange(99)]
    assert metadata.weight_digests(plain) == []


def test_frozen_layers_have_no_private_origin(tmp_path):
    imported = model()
    kernel = imported.get_layer("first").get_weights()
    trained(imported, convert={"trainable": "head"}).save(tmp_path / "1.keras")
    metadata._origins.clear()
    loaded = convert.load_model(tmp_path / "1.keras")
    assert metadata.origins_of(kernel) == () and metadata.origins_of(loaded.get_weights())
    assert not metadata.origins_of(loaded.get_layer("norm").get_weights())


def test_a_run_without_a_guarantee_is_named_so(tmp_path):
    trained(model(), convert="frozen", insecure_seed=1).save(tmp_path / "1.keras")
    metadata._origins.clear()
    with pytest.warns(PrivacyWarning, match="No privacy guarantee holds"):
        second = made_private(tmp_path / "1.keras", convert="frozen")
    assert "without a guarantee: the noise and the batches come" in second.privacy_statement()
    assert not second.ledger.guarantee_holds
    declared = Declaration(initial_weights_used_private_data=False)
    third = made_private(tmp_path / "1.keras", convert="frozen", declaration=declared)
    assert third.ledger.guarantee_holds


def test_a_keras_file_has_them_as_a_comment_unless_they_are_long(tmp_path, monkeypatch):
    private = trained(model(), convert="frozen")
    for longest in (2**16 - 1, 10):
        monkeypatch.setattr(metadata, "_LONGEST_COMMENT", longest)
        private.save(tmp_path / "a.keras")
        with zipfile.ZipFile(tmp_path / "a.keras") as archive:
            assert (metadata._NAME in archive.namelist()) == (longest == 10)
        assert metadata.read_metadata(tmp_path / "a.keras") == private.privacy_metadata()
    with zipfile.ZipFile(tmp_path / "b.keras", "w") as archive:
        archive.writestr("a", "b")
        archive.comment = b"{"
    assert metadata.read_metadata(tmp_path / "b.keras") is None
