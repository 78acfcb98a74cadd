"""Damaged folders of TensorFlow Datasets: rejected, or exactly the data that were written."""

import pathlib
import shutil

import numpy as np
import pytest
import tensorflow_datasets as tfds
from hypothesis import strategies as st

from tests.fuzz.damage import damaged_bytes, damaged_text
from tests.fuzz.targets import Refusal, attempt, fuzz
from trainers.data.errors import DatasetCorruptError, DatasetNotFoundError
from trainers.data.sources import load_examples

REFUSALS = (DatasetCorruptError, DatasetNotFoundError)
VERSION = "3.0.1"
ROWS = {"train": 7, "test": 5}


def write(root, name, features, example):
    """Prepares a tiny data set in several files, by TFDS's own writer; returns its examples."""
    folder = root / name / VERSION
    folder.mkdir(parents=True)
    identity = tfds.core.dataset_info.DatasetIdentity(
        name=name, version=VERSION, data_dir=str(folder), module_name="tests"
    )
    info = tfds.core.DatasetInfo(builder=identity, features=tfds.features.FeaturesDict(features))
    writer = tfds.core.SequentialWriter(info, max_examples_per_shard=3)
    writer.initialize_splits(list(ROWS))
    examples = {split: [example() for _ in range(count)] for split, count in ROWS.items()}
    writer.add_examples(examples)
    writer.close_all()
    return examples


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with an image set and a text set."""
    root, rng = tmp_path_factory.mktemp("tfds"), np.random.default_rng(0)
    label = lambda count: int(rng.integers(count))  # noqa: E731
    word = lambda: "".join(rng.choice(list("abc \u00e9"), size=rng.integers(9)))  # noqa: E731
    digits, topics = (tfds.features.ClassLabel(num_classes=count) for count in (10, 4))
    write(
        root,
        "kmnist",
        {"image": tfds.features.Image(shape=(4, 4, 1)), "label": digits},
        lambda: {"image": rng.integers(256, size=(4, 4, 1)).astype(np.uint8), "label": label(10)},
    )
    texts = {name: tfds.features.Text() for name in ("title", "description")}
    write(
        root,
        "ag_news_subset",
        {**texts, "label": topics},
        lambda: {"title": word(), "description": word(), "label": label(4)},
    )
    return root


def content(examples):
    return (examples.x.tolist(), examples.y.tolist(), examples.num_classes, str(examples.x.dtype))


@st.composite
def harm(draw, folder):
    """Does one thing to a data set's folder."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    records = [path for path in files if "tfrecord" in path.name]
    texts = [path for path in files if path.suffix == ".json"]
    kind = draw(
        st.sampled_from(
            ["record", "record", "text", "text", "delete", "folder", "copy", "exchange", "stray"]
        )
    )
    if kind == "record":
        file = draw(st.sampled_from(records))
        file.write_bytes(draw(damaged_bytes(file.read_bytes())))
    elif kind == "text":
        file = draw(st.sampled_from(texts))
        file.write_bytes(draw(damaged_text(file.read_bytes())))
    elif kind == "delete":
        draw(st.sampled_from(files)).unlink()
    elif kind == "folder":
        file = draw(st.sampled_from(files))
        file.unlink()
        file.mkdir()
    elif kind == "copy":
        content = draw(st.sampled_from(records)).read_bytes()
        draw(st.sampled_from(records)).write_bytes(content)
    elif kind == "exchange":
        first, second = (draw(st.sampled_from(files)) for _ in range(2))
        contents = first.read_bytes(), second.read_bytes()
        second.write_bytes(contents[0])
        first.write_bytes(contents[1])
    else:
        name = draw(st.sampled_from(["kmnist-train.tfrecord-00009", "x.json", "notes.txt"]))
        (folder / name).write_bytes(draw(st.sampled_from(files)).read_bytes())


@fuzz(
    data=st.data(),
    name=st.sampled_from(["kmnist", "kmnist", "ag_news_subset"]),
    split=st.sampled_from(list(ROWS)),
    quick=12,
    share=0.1,
)
def test_tfds_folders(data, name, split, whole, tmp_path_factory):
    truth = content(load_examples(name, split, whole))
    root = pathlib.Path(tmp_path_factory.mktemp("damaged"))
    try:
        shutil.copytree(whole / name, root / name)
        data.draw(harm(root / name / VERSION))
        unseen = exchanged(whole / name / VERSION, root / name / VERSION, split)
        found = attempt(lambda: load_examples(name, split, root), REFUSALS)
    finally:
        shutil.rmtree(root)
    if isinstance(found, Refusal):
        assert str(root) in str(found.error)
        return "refused"
    if unseen:
        return "read, with files exchanged"
    assert content(found) == truth
    return "read"


def exchanged(before, after, split):
    """Whether a split's files hold other ones' content, and have as many bytes together.

    With as many records in each, nothing in the folder tells of it.
    """
    old, new = (
        {p.name: p.read_bytes() for p in place.glob(f"*-{split}.tfrecord*") if p.is_file()}
        for place in (before, after)
    )
    whole_files = {p.read_bytes() for p in before.glob("*tfrecord*")}
    return (
        old != new
        and set(old) == set(new)
        and set(new.values()) <= whole_files
        and sum(map(len, old.values())) == sum(map(len, new.values()))
    )


@fuzz(data=st.data(), quick=12, share=0.1)
def test_flipped_bits_of_tfds_records(data, whole, tmp_path_factory):
    """The checksum of each record finds any of them, wherever it is."""
    file = data.draw(st.sampled_from(sorted((whole / "kmnist").glob("*/*train.tfrecord*"))))
    flipped = bytearray(file.read_bytes())
    bit = data.draw(st.integers(0, 8 * len(flipped) - 1))
    flipped[bit // 8] ^= 1 << bit % 8
    root = pathlib.Path(tmp_path_factory.mktemp("flipped"))
    try:
        shutil.copytree(whole / "kmnist", root / "kmnist")
        (root / file.relative_to(whole)).write_bytes(flipped)
        found = attempt(lambda: load_examples("kmnist", "train", root), REFUSALS)
        assert isinstance(found, Refusal)
    finally:
        shutil.rmtree(root)
    return "refused"
