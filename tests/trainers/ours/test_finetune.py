"""Fine-tuning: cells, runs on a tiny imported model, and the program."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

from tfdpnorm.data import Examples
from tfdpnorm.keras_compat.models import sublayers
from tfdpnorm.privacy import metadata
from trainers import registry
from trainers.data.sources import load_examples
from trainers.ours import finetune_cells as cells
from trainers.records.store import read_records
from trainers.runs import data, export, finetune
from trainers.runs.data import load_experiment_data
from trainers.runs.export import check_export, export_finetuned
from trainers.runs.finetune import deployed_model
from trainers.runs.private import PrivateRun


@pytest.fixture
def model_path(tmp_path):
    model = keras.Sequential(
        [
            keras.Input((12, 12, 1)),
            layers.Conv2D(6, 3, name="first"),
            layers.BatchNormalization(name="norm"),
            layers.ReLU(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(7, activation="softmax", name="old_head"),
        ],
        name="tiny",
    )
    path = tmp_path / "tiny.keras"
    model.save(path)
    return path


@pytest.fixture
def public_set(monkeypatch):
    """ "kmnist" without its files: images that are nobody's, and two of "digits" if told so."""
    real = finetune.load_labelled
    leaked = []

    def load(name, split, data_dir=None, **more):
        if name != "kmnist":
            return real(name, split, data_dir, **more)
        x = np.random.default_rng(5).random((80, 8, 8, 1), np.float32)
        if leaked:
            x[: len(leaked)] = leaked
        return Examples(name, split, x, np.zeros(80, np.int32), 10, True)

    for module in (data, finetune, export):
        monkeypatch.setattr(module, "load_labelled", load)
    monkeypatch.setattr(export, "check_there", lambda name, data_dir=None: None)
    return leaked


def small_spec(path, **settings):
    return cells.spec(
        "digits",
        8.0,
        **{
            "model": str(path),
            "image_size": 12,
            "expected_batch_size": 64,
            "steps": 3,
            "public_dataset": "split",
            "public_batch_size": 32,
            "evaluations": 1,
            **settings,
        },
    )


def run(spec, tmp_path, **more):
    return registry.run_cell(
        spec, cache_dir=tmp_path / "cache", output_dir=tmp_path / "out", echo=str, **more
    )


def deployed_accuracy(spec, result):
    """What is deployed takes images and gives what was tested."""
    test = load_examples("digits", "test")
    logits = deployed_model(spec, result.model, test.x.shape[1:]).predict(test.x, verbose=0)
    return 100 * np.mean(logits.argmax(-1) == test.y)


def test_a_head_on_frozen_features(tmp_path, model_path):
    spec = small_spec(model_path, norm="public_batch", feature_views=2)
    result = run(spec, tmp_path)
    record = result.record
    assert record["guarantee_holds"] and record["epsilon"] <= 8 and record["updates"] == 3
    assert record["pretrained"].startswith("imported, tiny_trunk ") and record["kind"] == "private"
    assert result.model.model.input_shape == (None, 6)
    (read,) = read_records(tmp_path / "out", "finetune")
    assert read["flags"]["trainable"] == "head"
    assert deployed_accuracy(spec, result) == pytest.approx(record["test_accuracy"], abs=0.6)


def test_features_are_centred_by_public_constants(tmp_path, model_path):
    spec = small_spec(model_path, feature_scaling="public", public_dataset="synthetic:fractal")
    result = run(spec, tmp_path)
    centred = result.model.model.get_layer("centred")
    assert len(centred.mean.numpy().ravel()) == 6 and not centred.trainable_weights
    assert result.record["guarantee_holds"]


def test_where_features_of_private_images_are_kept_and_what_is_assumed_of_them(
    tmp_path, model_path
):
    lines = []
    spec = small_spec(model_path, feature_views=2, norm="public_batch")
    data = load_experiment_data(spec, cache_dir=tmp_path / "cache", echo=lines.append)
    (line,) = [line for line in lines if "as secret as the images" in line]
    named = {Path(name) for name in line.rpartition(": ")[2].split(", ")}
    assert named < set((tmp_path / "cache").glob("*.npy")) and len(named) == 2 * 2
    model = PrivateRun(spec, data, echo=str).model
    assumed = "The computation of the features. It is assumed"
    assert any(s.startswith(assumed) for s in model.ledger.state.sentences("not_covered"))


@pytest.mark.parametrize("settings", [{"feature_scaling": "public"}, {"norm": "public_batch"}])
def test_the_private_set_is_not_public(model_path, settings):
    with pytest.raises(ValueError, match="^Expected another public_dataset than the private"):
        small_spec(model_path, public_dataset="digits", **settings)


def test_neither_constants_nor_ranges_come_from_private_images(tmp_path, model_path, public_set):
    spec = small_spec(model_path, public_dataset="kmnist", public_batch_size=80)
    result = run(spec, tmp_path)
    with pytest.raises(ValueError, match="^Expected another public_dataset than the private"):
        check_export(spec.replaced(public_dataset="digits"), tmp_path / "export")
    public_set.extend(load_examples("digits", "train").x[:60])
    with pytest.raises(ValueError, match="^Expected public rows that are not private"):
        run(spec.replaced(feature_scaling="public"), tmp_path)
    with pytest.raises(ValueError, match="^Expected public rows that are not private"):
        export_finetuned(spec, result, tmp_path / "export", echo=str)
    assert not any((tmp_path / "export").iterdir())


def names_of_trained(model):
    """The names of the layers that own trained variables."""
    inner = [layer for layer in sublayers(model) if not sublayers(layer)]
    return [layer.name for layer in inner if layer.trainable_weights]


def test_the_last_layers(tmp_path, model_path):
    spec = small_spec(model_path, trainable="last:2", batch_norm="public_batch")
    result = run(spec, tmp_path)
    model = result.model.model
    assert names_of_trained(model) == ["norm", "logits"]
    assert result.record["guarantee_holds"] and "last:2" in result.record["network"]
    assert result.record["statistics"] == "public"
    # What comes before is computed once, and is part of what is deployed.
    assert model.input_shape == (None, 10, 10, 6)
    assert "from its frozen outputs [10, 10, 6]" in result.record["pretrained"]
    assert deployed_accuracy(spec, result) == pytest.approx(result.record["test_accuracy"], abs=0.6)


def test_images_of_a_person_share_one_part_of_the_data(tmp_path, model_path):
    """Brightness tells person and image; the last one equals the first of the next person."""
    for person in range(12):
        for at in range(3):
            pixels = np.full((8, 8, 1), 20 * person + at if at < 2 else 20 * person + 20, np.uint8)
            path = tmp_path / f"set/train/{'ab'[at % 2]}/{person:02}/{at}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(tf.io.encode_png(pixels).numpy())
    spec = small_spec(
        model_path, trainable="all", norm="public_batch", expected_batch_size=2
    ).replaced(
        dataset=str(tmp_path / "set"),
        person_feature="subfolder",
        most_per_person=2,
        held_out=3,
        public_batch_size=4,
    )
    found = data.load_experiment_data(spec, cache_dir=tmp_path / "cache")
    assert found.num_examples == 5 and len(found.persons) == len(found.train_x)
    assert len(found.test_x) == 9 and len(found.public_x) == 4
    trained, tested, public = (
        np.rint(x[:, 0, 0, 0] * 255).astype(int)
        for x in (found.train_x, found.test_x, found.public_x)
    )
    # What equals a public image is left out, and so is whose it was.
    assert 10 <= len(trained) < 15 and not set(trained) & set(public)
    own = trained % 20 == 1
    assert len(set(found.persons[own])) == own.sum() == 5
    whose = dict(zip(trained[own] // 20, found.persons[own], strict=True))
    for value, person in zip(trained[~own], found.persons[~own], strict=True):
        assert person in (whose.get(value // 20), whose.get(value // 20 - 1))
    sides = [set(x // 20) for x in (trained[own], tested[tested % 20 == 1], public)]
    assert [len(side) for side in sides] == [5, 3, 4] and len(set.union(*sides)) == 12


def test_images_that_are_tested_and_trained_on_are_warned_of(tmp_path, model_path):
    pixels = np.random.default_rng(3).integers(0, 256, (24, 8, 8, 1)).astype(np.uint8)
    names = [f"train/{'ab'[i % 2]}/{i}.png" for i in range(20)]
    names += [f"test/{'ab'[i % 2]}/{i}.png" for i in range(4)]
    pixels[21] = pixels[3]
    for name, image in zip(names, pixels, strict=True):
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / name).write_bytes(tf.io.encode_png(image).numpy())
    spec = small_spec(model_path, trainable="all", expected_batch_size=2)
    spec = spec.replaced(dataset=str(tmp_path / "set"), public_dataset="synthetic:shapes")
    with pytest.warns(UserWarning, match="^1 of 4 test images equal training images"):
        data.load_experiment_data(spec, cache_dir=tmp_path / "cache")


def exported_head(tmp_path, model_path, **settings):
    """The path of the model that a first stage has made: a head on a frozen trunk."""
    spec = small_spec(model_path, feature_views=1, public_dataset="kmnist", **settings)
    result = run(spec, tmp_path)
    exported = export_finetuned(spec, result, tmp_path / "export", echo=str)
    return exported[0].path, result


def test_frozen_layers_of_earlier_private_runs_are_named(
    tmp_path, model_path, public_set, monkeypatch
):
    path, _ = exported_head(tmp_path, model_path, trainable="last:3")
    new_head = dict(trainable="head", image_size=None, steps=1)
    path, second = exported_head(tmp_path / "second", path, **new_head)
    (said,) = second.model.ledger.state.sentences("foreign_weights")
    assert "they are from model.keras" in said
    # As in another process, by what the second file says of the trunk.
    monkeypatch.setattr(metadata, "_origins", {})
    third = run(small_spec(path, **new_head), tmp_path / "third")
    assert third.model.ledger.state.sentences("foreign_weights") == (said,)


def test_heads_that_cannot_be_begun_with(tmp_path, model_path):
    with pytest.raises(ValueError, match="Expected norm and feature_scaling to be none"):
        small_spec(model_path, head="imported", norm="layer")
    with pytest.raises(ValueError, match="Expected the imported classifier to have 10 classes"):
        run(small_spec(model_path, head="imported"), tmp_path)
    keras.Sequential([keras.Input((12, 12, 1)), layers.Conv2D(2, 3)]).save(tmp_path / "b.keras")
    with pytest.raises(ValueError, match="ends with Conv2D"):
        run(small_spec(tmp_path / "b.keras", head="imported"), tmp_path)


def test_constants_are_not_taken_from_rows_that_are_split_off(model_path):
    with pytest.raises(ValueError, match="Expected a public data set.*got public_dataset='split'"):
        small_spec(model_path, feature_scaling="public", public_dataset="split")
