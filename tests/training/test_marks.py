"""Files of privately trained models say what was spent, and whoever trains them further says it."""

import json
import zipfile

import numpy as np
import pytest
from tensorflow import keras
from tensorflow.keras import layers

import tfdpnorm
from tfdpnorm import convert
from tfdpnorm.privacy import marks
from tfdpnorm.privacy.rounding import ceil_text

X = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
Y = np.arange(40) % 3


@pytest.fixture(autouse=True)
def nothing_is_remembered(monkeypatch):
    monkeypatch.setattr(marks, "_said", {})
    monkeypatch.setattr(marks, "_met", {})


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
    return tfdpnorm.make_private(given, **{**settings, **more})


def trained(given, **more):
    private = made_private(given, **more)
    private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    private.fit(X, Y, verbose=0)
    return private


@pytest.fixture(params=["a.keras", "a.h5", "a_folder"])
def path(tmp_path, request):
    return tmp_path / request.param


def test_a_second_run_says_what_the_first_does_not_cover(tmp_path):
    path = tmp_path / "a.keras"
    first = trained(model(), convert="frozen")
    first.ledger.exclude("What was chosen by hand.")
    first.save(path)
    marks._said.clear()
    statement = made_private(path, convert="frozen").privacy_statement()
    assert "What that run does not cover: " + " ".join(first.ledger.excluded) in statement


def test_a_second_run_knows_what_the_first_had_planned_and_asked(tmp_path):
    path = tmp_path / "a.keras"
    first = made_private(model(), convert="frozen")
    first.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    asked = tfdpnorm.training.PrivateValidation(X + 9, Y, noise_multiplier=3.0, queries=5)
    first.fit(X, Y, verbose=0, epochs=1, steps_per_epoch=1, callbacks=[asked])
    first.save(path)
    marks._said.clear()
    statement = made_private(path, convert="frozen").privacy_statement()
    ledger = first.ledger
    assert ledger.epsilon() < ledger.whole_plan_epsilon()
    assert ledger.validation_epsilon() < ledger.whole_plan_validation_epsilon()
    assert f"its whole plan instead: {ceil_text(ledger.whole_plan_epsilon())}." in statement
    answers = ceil_text(ledger.whole_plan_validation_epsilon())
    assert f"private validation examples have epsilon = {answers} of their" in statement


def test_a_second_run_names_the_first(path):
    first = trained(model(), convert="frozen")
    first.save(path)
    keras.models.load_model(path)  # Keras does not mind
    mark = marks.read_mark(path)
    assert mark["epsilon"] == first.ledger.epsilon() and mark["updates"] == 2
    marks._said.clear()  # as in another process
    second = made_private(path, convert="frozen")
    statement = second.privacy_statement()
    said = statement.splitlines()[1]
    assert said.startswith("- Weights that come from elsewhere: they are of " + path.name)
    assert f"{first.ledger.epsilon():.2f}"[:3] in said and "the two epsilons add up" in said
    assert second.ledger.foreign == (said[2:],)


def test_a_third_run_names_both(tmp_path):
    trained(model(), convert="frozen").save(tmp_path / "1.keras")
    trained(tmp_path / "1.keras", convert="frozen").save(tmp_path / "2.keras")
    marks._said.clear()
    third = made_private(tmp_path / "2.keras", convert="frozen")
    assert files_named(third) == ["1.keras", "2.keras"]


def in_a_new_process():
    marks._said.clear()
    marks._met.clear()


def files_named(private):
    return [s.split(" they are of ")[1].split(",")[0] for s in private.ledger.foreign]


def with_new_head(path):
    """The body of a saved model, which is not trained, and a layer that nobody has trained."""
    body = convert.load_model(path)
    body = keras.Model(body.inputs, body.get_layer("first").output)
    body.trainable = False
    return keras.Sequential([keras.Input((6,)), *body.layers[1:], layers.Dense(3, name="last")])


@pytest.mark.parametrize("thawed", [True, False])
def test_a_run_is_named_through_one_that_left_its_weights(path, tmp_path, thawed):
    trained(model(), convert="frozen").save(tmp_path / "1.keras")
    in_a_new_process()
    trained(with_new_head(tmp_path / "1.keras")).save(path)
    in_a_new_process()
    third = with_new_head(path)
    third.layers[0].trainable = thawed
    assert files_named(made_private(third)) == ["1.keras"]
    in_a_new_process()
    assert files_named(made_private(convert.load_model(path))) == ["1.keras", path.name]


def test_a_mark_is_of_the_whole_model_in_its_file(tmp_path):
    """Of which the run may have trained a part, on what the rest gave for each image."""
    trained(model(), convert="frozen").save(tmp_path / "1.keras")
    in_a_new_process()
    whole = with_new_head(tmp_path / "1.keras")
    head = keras.Sequential([keras.Input((8,)), whole.layers[-1]])
    private = made_private(head)
    private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    private.fit(np.tile(X, 2)[:, :8], Y, verbose=0)
    convert.export(whole, tmp_path / "export", X[:4], int8=False, trained_by=private)
    for name in ("model.keras", "saved_model"):
        in_a_new_process()
        third = made_private(with_new_head(tmp_path / "export" / name))
        assert files_named(third) == ["1.keras"]


def test_a_run_is_named_once_however_many_files_it_is_of(tmp_path):
    first, names = trained(model(), convert="frozen"), ("a.keras", "a.h5", "a_folder")
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


def test_marks_of_before_are_read(path):
    """They have no list of what earlier runs left, and name them for all that is trained."""
    private = trained(model(), convert="frozen")
    private.save(path)
    mark = {**private.mark(), "before": ["Weights that come from elsewhere: of old."]}
    del mark["earlier"]
    marks.write_mark(path, mark)
    in_a_new_process()
    sentences = made_private(path, convert="frozen").ledger.foreign
    assert sentences[0] == mark["before"][0] and "they are of " + path.name in sentences[1]


def test_what_a_run_of_this_process_began_with_is_not_forgotten(tmp_path):
    trained(model(), convert="frozen").save(tmp_path / "1.keras")
    in_a_new_process()
    second = trained(tmp_path / "1.keras", convert="frozen")
    statement = made_private(second.model).privacy_statement()
    assert "they are of 1.keras" in statement
    assert "another private model had trained them" in statement


def test_a_run_of_this_process_is_named_beside_a_file(tmp_path):
    """Of its weights some are as the file had them, and some it trained."""
    trained(model(), convert="frozen").save(tmp_path / "1.keras")
    marks._said.clear()
    marks._met.clear()
    second = trained(tmp_path / "1.keras", convert={"batch_norm": "frozen", "trainable": "head"})
    third = tfdpnorm.convert_model(model(), batch_norm="frozen")[0]
    third.set_weights(second.get_weights())
    statement = made_private(third).privacy_statement()
    assert "they are of 1.keras" in statement
    assert "another private model had trained them" in statement


def test_a_mark_says_what_a_closed_ledger_could_not_take(tmp_path):
    private = trained(model(), convert="frozen", run_dir=tmp_path / "run")
    private.ledger.close()
    private.set_weights([w + 1 for w in private.get_weights()])
    (sentence,) = private.mark()["before"]
    assert "others than this run left were put in their place" in sentence


def test_a_model_of_a_few_numbers_is_known_again(tmp_path):
    small = keras.Sequential([keras.Input((6,)), layers.Dense(1)])
    private = made_private(small)
    private.compile("sgd", "mse")
    private.fit(X, np.float32(Y), verbose=0)
    private.save(tmp_path / "1.keras")
    marks._met.clear()
    again = convert.load_model(tmp_path / "1.keras")
    assert "they are of 1.keras" in made_private(again).privacy_statement()
    plain = [np.ones(3, np.float32), np.zeros(3, np.float32)]
    assert marks.weight_digests(plain) == []


def test_a_part_of_the_model_is_known_again(tmp_path):
    trained(model(), convert="frozen").save(tmp_path / "1.keras")
    marks._said.clear()
    loaded = convert.load_model(tmp_path / "1.keras")
    inputs = keras.Input((6,))
    part = keras.models.clone_model(keras.Model(inputs, layers.Dense(8, name="first")(inputs)))
    part.layers[-1].set_weights(loaded.get_layer("first").get_weights())
    assert "1.keras" in made_private(part).privacy_statement()


def test_what_was_frozen_was_not_trained(tmp_path):
    imported = model()
    kernel = imported.get_layer("first").get_weights()
    trained(imported, convert={"trainable": "head"}).save(tmp_path / "1.keras")
    marks._said.clear()
    loaded = convert.load_model(tmp_path / "1.keras")
    assert marks.said_of(kernel) == () and marks.said_of(loaded.get_weights())
    assert not marks.said_of(loaded.get_layer("norm").get_weights())


def test_a_run_without_a_guarantee_is_named_so(tmp_path):
    trained(model(), convert="frozen", insecure_seed=1).save(tmp_path / "1.keras")
    marks._said.clear()
    second = made_private(tmp_path / "1.keras", convert="frozen")
    assert "without a guarantee: the noise and the lots come" in second.privacy_statement()


def test_files_of_others_have_no_mark(path):
    model().save(path)
    assert marks.read_mark(path) is None
    private = made_private(path, convert="frozen")
    assert private.ledger.foreign == ()


def test_numbers_that_tell_nothing_are_not_known_again(tmp_path):
    first = trained(model(), convert="frozen")
    mark = marks.mark_of(first.ledger, [np.ones([99]), np.arange(3.0), np.arange(99)])
    assert mark["weights"] == []
    json.dumps(first.mark())


def test_exported_files_bear_the_mark(tmp_path):
    first = trained(model(), convert="frozen")
    convert.export(first, tmp_path, X[:4], int8=False)
    for name in ("model.keras", "saved_model"):
        assert marks.read_mark(tmp_path / name) == first.mark()
    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        assert archive.testzip() is None


@pytest.mark.parametrize("longest", [2**16 - 1, 10])
def test_a_keras_file_has_its_mark_as_a_comment_unless_it_is_long(longest, tmp_path, monkeypatch):
    monkeypatch.setattr(marks, "_LONGEST_COMMENT", longest)
    private = trained(model(), convert="frozen")
    private.save(tmp_path / "a.keras")
    with zipfile.ZipFile(tmp_path / "a.keras") as archive:
        assert (marks._NAME in archive.namelist()) == (longest == 10)
    assert marks.read_mark(tmp_path / "a.keras") == private.mark()
    with zipfile.ZipFile(tmp_path / "b.keras", "w") as archive:
        archive.writestr("a", "b")
        archive.comment = b"{"
    assert marks.read_mark(tmp_path / "b.keras") is None
