"""The program that trains an imported model: from a file to an exported model with its card."""

import json
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

from tfdpnorm.convert import run_tflite
from tfdpnorm.training.resume.resumption import Checkpointing
from trainers.records.store import read_records

SMALL = {
    "model": "mine.keras", "dataset": "photos", "cache_dir": "cache", "output_dir": "out",
    "epsilon": 8, "steps": 2, "expected_batch_size": 8, "image_size": 8,
    "public_dataset": "digits", "evaluations": 1,
}  # fmt: skip
_PERSONS = {"person_feature": "subfolder", "most_per_person": 3}


@pytest.fixture
def finetune(main, monkeypatch, tmp_path):
    """Returns a function of settings, over those of `SMALL`, to the outcome of the program.

    It runs in a folder with a model and images; a setting None is left out.
    """
    monkeypatch.chdir(tmp_path)
    write_model("mine.keras")

    def run(*more, **settings):
        given = {name: value for name, value in (SMALL | settings).items() if value is not None}
        return main("finetune", *(f"--{name}={value}" for name, value in given.items()), *more)

    return run


def write_model(path):
    layers_of_it = [
        layers.Conv2D(4, 3), layers.BatchNormalization(), layers.ReLU(),
        layers.GlobalAveragePooling2D(),
    ]  # fmt: skip
    keras.Sequential([keras.Input((8, 8, 3)), *layers_of_it], name="mine").save(path)


def write_images(person=lambda split, i: ""):
    """20 images of each class to train on, 4 to test on; `person` names the folder of each."""
    rng = np.random.default_rng(0)
    for split, count in (("train", 20), ("test", 4)):
        for name in ("cat", "dog"):
            for i in range(count):
                place = pathlib.Path("photos", split, name, person(split, i))
                place.mkdir(parents=True, exist_ok=True)
                pixels = rng.integers(0, 256, (9, 9, 3)).astype(np.uint8)
                (place / f"{i}.png").write_bytes(tf.io.encode_png(pixels).numpy())


def of_ten_persons(split, i):
    """Ten persons train, with four images each, two of each class; two others test."""
    return f"{split}{i % (10 if split == 'train' else 2)}"


@pytest.mark.slow
def test_from_a_file_to_an_exported_model(finetune):
    write_images()
    result = finetune(export_dir="export")
    assert result.code == 0, result.err
    assert "N = 40" in result.out and "Record:" in result.out and "Model card:" in result.out
    export = pathlib.Path("export")
    card = (export / "MODEL_CARD.md").read_text()
    assert "epsilon" in card and "digits, which are public" in card
    (record,) = read_records("out")
    card = json.loads((export / "model_card.json").read_text())
    assert card["privacy"] == record["statement"] and card["privacy"]["guarantee_holds"]
    picture = np.random.default_rng(1).random((1, 8, 8, 3)).astype(np.float32)
    (logits,) = run_tflite(export / "model.tflite", picture)
    loaded = keras.models.load_model(export / "model.keras")
    np.testing.assert_allclose(logits, loaded(picture)[0], atol=1e-4)


def test_images_are_sampled_and_epsilon_is_stated_for_persons(finetune):
    write_images(of_ten_persons)
    result = finetune(
        person_feature="subfolder", most_per_person=4, unit="row", held_out=2, epsilon=4
    )
    assert result.code == 0, result.err
    (record,) = read_records("out")
    counted = {"unit": "row", "most_per_person": 4, "num_examples": 32, "num_rows": 32}
    assert {name: record[name] for name in counted} == counted
    assert record["epsilon"] <= 4 < record["epsilon_of_person"] < 100
    assert "2 persons with 8 training examples held out" in record["scale"]
    assert result.out.count("for a person with up to 4 examples: epsilon ") == 2


@pytest.mark.parametrize(
    "settings, said",
    [
        (
            {"max_examples": 9},
            "N = 9 persons with 36 examples.*first 9 persons with 36 of 10 pers",
        ),
        (
            {"held_out": 2},
            "N = 8 persons with 32 examples.*2 persons with 8 training examples held",
        ),
    ],
)
def test_persons_are_on_one_side_and_no_image_is_read(finetune, settings, said):
    write_images(of_ten_persons)
    for image in pathlib.Path("photos").glob("*/*/*/*.png"):
        if image.parts[-3:] not in (("cat", "train0", "0.png"), ("cat", "test0", "0.png")):
            image.write_text("not read: the first of each split tells the size")
    result = finetune("--dry_run", **_PERSONS, **settings)
    assert result.code == 0, result.err
    assert re.search(said, result.out, re.DOTALL), result.out


def test_persons_that_are_not_known_or_not_protected(finetune):
    write_images(of_ten_persons)
    constant = {"learning_rate_schedule": "constant"}
    together = "Expected person_feature and most_per_person together, got"
    for changed, message in (
        ({"dataset": "digits"}, "Expected a folder of images or a CSV file with person_feature, g"),
        ({"most_per_person": None}, together),
        ({"person_feature": None}, together),
        ({"most_per_person": 0}, "Expected most_per_person to be a whole number >= 1, got 0"),
        (
            {"most_per_person": None, "unit": "row"},
            "Expected most_per_person with unit='row', got None",
        ),
        ({"unit": "row"}, "Expected at most most_per_person=3 rows of each person, got a person w"),
        (
            {"plateau": "private", **constant},
            "Expected plateau='none', 'public' or 'test' with most_per_person",
        ),
        ({"held_out": 10}, "Expected held_out below 10, .* got 10"),
        ({"expected_batch_size": 11}, "Expected expected_batch_size <= num_examples, got .*10"),
    ):
        result = finetune(**_PERSONS | changed)
        assert result.code == 2 and re.search(f"^Error: {message}", result.err), result.err


def test_the_program_is_resumed_by_the_same_flags_alone(finetune, monkeypatch):
    write_images()
    flags = {"trainable": "head", "checkpoint_every": 1, "run_dir": "run"}
    real = Checkpointing.on_train_batch_end

    def dies(self, batch, logs=None):
        real(self, batch, logs)
        self._private.ledger.close()
        raise OSError("the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr(Checkpointing, "on_train_batch_end", dies)
        assert "the disk is gone" in finetune(**flags).err
    for name in ("learning_rate", "image_size"):
        refused = finetune("--resume", **flags | {name: 9})
        assert refused.code == 2 and f"{name}. Move it away" in refused.err
    done = finetune("--resume", **flags)
    assert done.code == 0 and "resumed after update 1 of 2" in done.out, done.err
    (record,) = read_records("out")
    assert (record["updates"], record["resumes"]) == (2, 1) and record["epsilon"] <= 8


def test_each_mistake_gives_one_line(finetune, tmp_path):
    write_images()
    (tmp_path / "text.keras").write_text("no model")
    keras.models.load_model("mine.keras").save_weights("of.weights.h5")
    keras.Sequential([keras.Input((5,)), layers.Dense(3)]).save("flat.keras")
    any_size = [keras.Input((None, None, 3)), layers.Conv2D(4, 3), layers.GlobalAveragePooling2D()]
    keras.Sequential(any_size).save("any.keras")
    (tmp_path / "columns.csv").write_text("image,label\nx.png,cat\n")
    (tmp_path / "short.csv").write_text("image,label,split\nx.png,cat\n")
    lines = "x.png,cat,train\ny.png,dog,train\nz.png,dog,test\n"
    (tmp_path / "files.csv").write_text(f"image,label,split\n{lines}")
    (tmp_path / "x.png").mkdir()
    for changed, message in (
        ({"model": "text.keras"}, "The file .* cannot be loaded as a whole Keras model"),
        ({"model": "of.weights.h5"}, "The file .* cannot be loaded as a whole Keras model"),
        ({"model": "flat.keras"}, r"Expected a model of images \[height, width, channels\]"),
        ({"image_size": 9}, "Expected images of 8 by 8 pixels, .* got 9 by 9. Set image_size=8."),
        ({"model": "any.keras", "image_size": 2}, "Model .* does not accept rows"),
        ({"dataset": "columns.csv"}, "The file .* has no column named split"),
        ({"dataset": "short.csv"}, "Line 2 of .* has no split"),
        (
            {"dataset": "files.csv"},
            r"Expected images in all 3 .* got 3 .*x.png \(Is a directory\);",
        ),
        ({"dataset": "nothing"}, "Expected dataset to be one of"),
        ({"trainable": "last:999"}, "Expected trainable to be last:3 or less, got last:999"),
        ({"epsilon": -1}, "Expected epsilon > 0"),
        (
            {"expected_batch_size": 41},
            "Expected expected_batch_size <= num_examples, got .*41 and num_examples=40",
        ),
        ({"head": "imported"}, "Expected a model that ends with a dense layer"),
    ):
        result = finetune(**changed)
        assert result.code == 2 and len(result.err.splitlines()) == 1, (changed, result.err)
        assert re.search(f"^Error: {message}", result.err), (changed, result.err)


def test_a_head_that_one_release_gives_for_persons(finetune):
    """From a file to an exported model; flags of trainings have no effect."""
    write_images(person=lambda split, i: f"{split}{i // 2}")
    released = {
        "head": "least_squares", "directions": 3, "public_batch_size": 100, "most_per_person": 4,
        "person_feature": "subfolder", "steps": None, "expected_batch_size": None,
    }  # fmt: skip
    result = finetune(**released, export_dir="export")
    assert result.code == 0, result.err
    (record,) = read_records("out")
    assert record["unit"] == "person" and record["guarantee_holds"]
    card = pathlib.Path("export/MODEL_CARD.md").read_text()
    assert "one noisy sum, and no gradients" in card
    result = finetune(**released, epochs=3)
    assert result.code == 2 and "Expected a head that is trained" in result.err
