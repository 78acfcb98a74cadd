"""Data sets by name: what is there, what is missing, what is broken."""

import shutil

import numpy as np
import pytest

from trainers.data import tfds
from trainers.data.catalogue import known_names
from trainers.data.errors import DatasetCorruptError, DatasetNotFoundError
from trainers.data.sources import load_examples

OFFICIAL = {
    "mnist": (60_000, 10_000),
    "kmnist": (60_000, 10_000),
    "cifar10": (50_000, 10_000),
    "cifar100": (50_000, 10_000),
    "imagenette": (9_469, 3_925),
    "ag_news_subset": (120_000, 7_600),
}
CLASSES = {
    "mnist": 10,
    "kmnist": 10,
    "cifar10": 10,
    "cifar100": 100,
    "imagenette": 10,
    "ag_news_subset": 4,
}


@pytest.mark.slow_cases("mnist-train-*")
@pytest.mark.parametrize(
    "name,split,shape",
    [
        ("mnist", "train", (28, 28, 1)),
        ("mnist", "test", (28, 28, 1)),
        ("kmnist", "train", (28, 28, 1)),
        ("cifar10", "test", (32, 32, 3)),
        ("cifar100", "test", (32, 32, 3)),
        ("imagenette", "test", (160, 160, 3)),
    ],
)
def test_real_images(tfds_dir, name, split, shape):
    folder = tfds_dir("imagenette/160px-v2" if name == "imagenette" else name)
    examples = load_examples(name, split, folder)
    assert examples.x.shape == (len(examples), *shape) and examples.x.dtype == np.float32
    assert examples.x.min() == 0 and examples.x.max() == 1
    assert 0.05 < examples.x.mean() < 0.6
    check_labels(examples, name, split)


def test_real_texts(tfds_dir):
    examples = load_examples("ag_news_subset", "test", tfds_dir("ag_news_subset"))
    assert examples.x.shape == (len(examples),)
    assert all(type(text) is str and len(text) > 10 for text in examples.x)
    check_labels(examples, "ag_news_subset", "test")


def check_labels(examples, name, split):
    assert examples.y.dtype == np.int32 and examples.num_classes == CLASSES[name]
    assert set(examples.y.tolist()) == set(range(examples.num_classes))
    assert len(set(examples.class_names)) == examples.num_classes
    official = OFFICIAL[name][split == "test"]
    assert len(examples) <= official
    assert examples.is_complete == (len(examples) == official)


def test_the_environment_names_the_folder(tfds_dir, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tfds_dir("kmnist")))
    first, second = (load_examples("kmnist", "train") for _ in range(2))
    np.testing.assert_array_equal(first.x[:100], second.x[:100])


def test_digits():
    train, test = load_examples("digits", "train"), load_examples("digits", "test")
    assert (len(train), len(test)) == (1437, 360)
    for part in (train, test):
        assert part.x.shape[1:] == (8, 8, 1) and part.x.dtype == np.float32
        assert part.y.dtype == np.int32 and part.is_complete and part.num_classes == 10
        assert part.x.min() == 0 and part.x.max() == 1
    # Every image once, classes in proportion, and the same split for everybody.
    from sklearn.datasets import load_digits

    everything = sorted(map(bytes, (load_digits().images / 16).astype(np.float32)))
    assert sorted(map(bytes, np.concatenate([train.x, test.x]))) == everything
    shares = np.bincount(test.y) / np.bincount(np.concatenate([train.y, test.y]))
    assert np.abs(shares - 360 / 1797).max() < 0.005
    assert test.y[:20].tolist() == DIGITS_TEST_LABELS


DIGITS_TEST_LABELS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 3, 6, 5, 9, 2, 1, 7, 8, 4]


def test_unknown_names_and_splits():
    all_names = (
        "'ag_news_subset', 'cifar10', 'cifar100', 'digits', 'imagenette', 'kmnist', 'mnist', "
        "'tiny_imagenet'"
    )
    for name in ("mnits", None, ""):
        with pytest.raises(ValueError, match=f"name to be one of {all_names}, got"):
            load_examples(name, "train")
    for split in ("validation", "train[:10%]", None):
        with pytest.raises(ValueError, match="split to be one of 'train', 'test'"):
            load_examples("mnist", split)
    assert len(known_names()) == 8


def test_a_missing_set_without_download(tmp_path):
    folder = tmp_path / "not yet" / "there"
    with pytest.raises(DatasetNotFoundError) as caught:
        load_examples("mnist", "train", folder)
    message = str(caught.value)
    assert "'mnist'" in message and str(folder) in message and "--data_dir" in message
    assert "download" not in message.replace("download_and_prepare", "")
    assert f"tfds.load('mnist', data_dir={str(folder)!r})" in message
    assert list(tmp_path.iterdir()) == []


def test_the_newest_version_is_taken(tmp_path):
    for version in ("3.0.2", "3.0.10", "2.9.9", "4.0.0.incompleteABC"):
        (tmp_path / "mnist" / version).mkdir(parents=True)
        (tmp_path / "mnist" / version / "dataset_info.json").write_text("{}")
    (tmp_path / "mnist" / "9.9.9").mkdir()  # Without its information: not prepared.
    assert tfds.prepared_folder("mnist", tmp_path).name == "3.0.10"


def truncate(folder):
    for path in folder.glob("*tfrecord*"):
        path.write_bytes(path.read_bytes()[:200_000])


def empty(folder):
    for path in folder.glob("*train.tfrecord*"):
        path.write_bytes(b"")


def keep_one_record(folder):
    """Cuts between two records, so that what is left is readable."""
    for path in folder.glob("*train.tfrecord*"):
        content = path.read_bytes()
        path.write_bytes(content[: int.from_bytes(content[:8], "little") + 16])


def flip_a_byte(folder):
    for path in folder.glob("*tfrecord*"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)


def remove_records(folder):
    for path in folder.glob("*tfrecord*"):
        path.unlink()


def spoil_information(folder):
    (folder / "dataset_info.json").write_text("{ not json")


@pytest.mark.parametrize(
    "damage", [truncate, empty, keep_one_record, flip_a_byte, remove_records, spoil_information]
)
def test_a_damaged_folder(tfds_dir, tmp_path, damage):
    shutil.copytree(tfds_dir("kmnist") / "kmnist", tmp_path / "kmnist")
    (folder,) = (tmp_path / "kmnist").iterdir()
    for path in (folder, *folder.iterdir()):
        path.chmod(0o755)
    damage(folder)
    with pytest.raises(DatasetCorruptError) as caught:
        load_examples("kmnist", "train", tmp_path)
    assert str(folder) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1 and caught.value.__suppress_context__
