"""The program that trains an imported model: from a file to an exported model with its card."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

from tfdpnorm.convert import run_tflite
from tfdpnorm.training.resume.resumption import Checkpointing
from trainers import common
from trainers.records.store import read_records

SMALL = (
    "--epsilon=8",
    "--steps=2",
    "--expected_batch_size=8",
    "--image_size=8",
    "--public_dataset=digits",
    "--evaluations=1",
)


def write_model(path):
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(4, 3),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.GlobalAveragePooling2D(),
        ],
        name="mine",
    )
    model.save(path)


def write_images(folder):
    rng = np.random.default_rng(0)
    for split, count in (("train", 20), ("test", 4)):
        for name in ("cat", "dog"):
            place = folder / split / name
            place.mkdir(parents=True)
            for i in range(count):
                pixels = rng.integers(0, 256, (9, 9, 3)).astype(np.uint8)
                (place / f"{i}.png").write_bytes(tf.io.encode_png(pixels).numpy())


@pytest.mark.slow
@pytest.mark.parametrize("given", [[], ["--public_dataset=synthetic:shapes"]], ids=["", "named"])
def test_own_images_need_no_other_set(main, tmp_path, given):
    """Also for an export, whose int8 ranges come from synthetic images."""
    write_model(tmp_path / "mine.keras")
    write_images(tmp_path / "photos")
    result = main(
        "finetune",
        f"--model={tmp_path / 'mine.keras'}",
        f"--dataset={tmp_path / 'photos'}",
        *[flag for flag in SMALL if "public" not in flag],
        *given,
        f"--cache_dir={tmp_path / 'cache'}",
        f"--output_dir={tmp_path / 'out'}",
        f"--export_dir={tmp_path / 'export'}",
        f"--data_dir={tmp_path / 'no_data'}",
    )
    assert result.code == 0, result.err
    kind = "shapes" if given else "fractal"
    card = (tmp_path / "export" / "MODEL_CARD.md").read_text()
    assert f"on 64 synthetic images (synthetic:{kind})." in card
    for name in ("model.keras", "saved_model", "model.tflite", "model_int8.tflite"):
        assert f"writing and comparing {tmp_path / 'export' / name}" in result.out


@pytest.mark.slow
def test_from_a_file_to_an_exported_model(main, tmp_path):
    write_model(tmp_path / "mine.keras")
    write_images(tmp_path / "photos")
    result = main(
        "finetune",
        f"--model={tmp_path / 'mine.keras'}",
        f"--dataset={tmp_path / 'photos'}",
        *SMALL,
        f"--cache_dir={tmp_path / 'cache'}",
        f"--output_dir={tmp_path / 'out'}",
        f"--export_dir={tmp_path / 'export'}",
    )
    assert result.code == 0, result.err
    assert "N = 40" in result.out and "Record:" in result.out and "Model card:" in result.out
    card = (tmp_path / "export" / "MODEL_CARD.md").read_text()
    assert "epsilon" in card and "digits, which are public" in card
    (record,) = read_records(tmp_path / "out")
    card = json.loads((tmp_path / "export" / "model_card.json").read_text())
    assert card["privacy"] == record["statement"] and card["privacy"]["guarantee_holds"]
    picture = np.random.default_rng(1).random((1, 8, 8, 3)).astype(np.float32)
    (logits,) = run_tflite(tmp_path / "export" / "model.tflite", picture)
    loaded = keras.models.load_model(tmp_path / "export" / "model.keras")
    np.testing.assert_allclose(logits, loaded(picture)[0], atol=1e-4)


@pytest.mark.slow_cases("last:1")
@pytest.mark.parametrize("trainable", ["head", "last:1"])
def test_the_program_is_resumed_by_the_same_flags_alone(main, tmp_path, monkeypatch, trainable):
    write_model(tmp_path / "mine.keras")
    write_images(tmp_path / "photos")
    flags = (
        f"--model={tmp_path / 'mine.keras'}",
        f"--dataset={tmp_path / 'photos'}",
        *SMALL,
        f"--trainable={trainable}",
        "--checkpoint_every=1",
        f"--run_dir={tmp_path / 'run'}",
        f"--cache_dir={tmp_path / 'cache'}",
        f"--output_dir={tmp_path / 'out'}",
    )
    real = Checkpointing.on_train_batch_end

    def dies(self, batch, logs=None):
        real(self, batch, logs)
        self._private.ledger.close()
        raise OSError("the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr(Checkpointing, "on_train_batch_end", dies)
        assert "the disk is gone" in main("finetune", *flags).err
    for changed, name in (("--learning_rate=9", "learning_rate"), ("--image_size=9", "image_size")):
        refused = main("finetune", *flags, "--resume", changed)
        assert refused.code == 2 and f"{name}. Move it away" in refused.err
    done = main("finetune", *flags, "--resume")
    assert done.code == 0 and "resumed after update 1 of 2" in done.out, done.err
    (record,) = read_records(tmp_path / "out")
    assert (record["updates"], record["resumes"]) == (2, 1) and record["epsilon"] <= 8


@pytest.mark.slow
def test_dry_runs_and_refusals(main, tmp_path):
    write_model(tmp_path / "mine.keras")
    model = f"--model={tmp_path / 'mine.keras'}"
    cache = f"--cache_dir={tmp_path / 'cache'}"
    result = main("finetune", model, "--dataset=digits", *SMALL, cache, "--dry_run")
    assert result.code == 0 and "Nothing was trained" in result.out, result.err  # grey to colour
    write_images(tmp_path / "photos")
    photos = f"--dataset={tmp_path / 'photos'}"
    result = main("finetune", model, photos, *SMALL, cache, "--dry_run")
    assert result.code == 0 and "Nothing was trained" in result.out, result.err
    result = main("finetune", "--model=nowhere.keras", photos, *SMALL, cache)
    assert result.code == 2 and "Expected the file of a Keras model" in result.err
    result = main("finetune", model, photos, *SMALL, cache, "--trainable=last:none")
    assert result.code == 2 and "Expected trainable to be" in result.err
    result = main("finetune", model, photos, *SMALL, cache, f"--save_model={tmp_path / 'a.keras'}")
    assert result.code == 2 and "Expected --export_dir" in result.err


@pytest.mark.parametrize("public", ["split", "cifar100"])
def test_what_cannot_be_exported_is_refused_before_training(main, tmp_path, monkeypatch, public):
    monkeypatch.setattr(common, "train", lambda spec: pytest.fail("was trained"))
    flags = ["--model=a.keras", "--dataset=digits", "--epsilon=3", f"--public_dataset={public}"]
    places = [f"--export_dir={tmp_path / 'export'}", f"--data_dir={tmp_path / 'no_data'}"]
    result = main("finetune", *flags, *places)
    assert result.code == 2
    wanted = "Expected data set 'cifar100'" if public == "cifar100" else f"got '{public}'"
    assert wanted in result.err


def test_each_mistake_gives_one_line(main, tmp_path):
    write_model(tmp_path / "mine.keras")
    write_images(tmp_path / "photos")
    (tmp_path / "text.keras").write_text("no model")
    keras.models.load_model(tmp_path / "mine.keras").save_weights(tmp_path / "of.weights.h5")
    keras.Sequential([keras.Input((5,)), layers.Dense(3)]).save(tmp_path / "flat.keras")
    any_size = [keras.Input((None, None, 3)), layers.Conv2D(4, 3), layers.GlobalAveragePooling2D()]
    keras.Sequential(any_size).save(tmp_path / "any.keras")
    (tmp_path / "columns.csv").write_text("image,label\nx.png,cat\n")
    (tmp_path / "short.csv").write_text("image,label,split\nx.png,cat\n")
    lines = "x.png,cat,train\ny.png,dog,train\nz.png,dog,test\n"
    (tmp_path / "files.csv").write_text(f"image,label,split\n{lines}")
    (tmp_path / "x.png").mkdir()
    for changed, message in (
        ("--model=text.keras", "Expected a whole Keras model in"),
        ("--model=of.weights.h5", "Expected a whole Keras model in"),
        ("--model=flat.keras", r"Expected a model of images \[height, width, channels\]"),
        ("--image_size=9", "Expected images of 8 by 8 pixels, .* got 9 by 9. Set image_size=8."),
        ("--model=any.keras --image_size=2", "Expected images that model .* takes"),
        ("--dataset=columns.csv", "Expected columns image, label, split .* none named split"),
        ("--dataset=short.csv", "Expected image, label, split in line 2 .* got no split"),
        ("--dataset=files.csv", "Expected an image in .*x.png, got Is a directory"),
        ("--dataset=nothing", "Expected dataset to be one of"),
        ("--trainable=last:999", "Expected trainable to be last:3 or fewer, got last:999"),
        ("--epsilon=-1", "Expected epsilon > 0"),
        (
            "--expected_batch_size=41",
            "Expected expected_batch_size <= num_examples, got .*41 and num_examples=40",
        ),
        ("--head=imported", "Expected a model that ends with a dense layer"),
    ):
        given = {"model": "mine.keras", "dataset": "photos"}
        given |= dict(flag.removeprefix("--").split("=") for flag in changed.split())
        for name in ("model", "dataset"):
            given[name] = tmp_path / given[name]
        flags = {**dict(flag.removeprefix("--").split("=") for flag in SMALL), **given}
        folder = f"--cache_dir={tmp_path / 'cache'}"
        result = main("finetune", folder, *(f"--{name}={value}" for name, value in flags.items()))
        assert result.code == 2 and len(result.err.splitlines()) == 1, (changed, result.err)
        assert re.search(f"^Error: {message}", result.err), (changed, result.err)
