"""Tiny ImageNet from an archive: what it makes of a good one, and what it says of others."""

import urllib.error
import zipfile

import numpy as np
import pytest
import tensorflow as tf

from trainers.data import tfds, tiny_imagenet
from trainers.data.errors import DatasetCorruptError, DatasetNotFoundError
from trainers.data.sources import load_examples

WNIDS = [f"n{number:08d}" for number in reversed(range(200))]
ROOT = "tiny-imagenet-200"


def jpeg(value, channels=3):
    image = np.full((64, 64, channels), value, np.uint8)
    return tf.io.encode_jpeg(image, quality=100).numpy()


def files():
    """A small archive's files: two training images of each of three classes, four of validation."""
    made = {
        f"{ROOT}/wnids.txt": "\n".join(WNIDS) + "\n",
        f"{ROOT}/test/images/test_0.JPEG": jpeg(0),
        f"{ROOT}/val/val_annotations.txt": "".join(
            f"val_{i}.JPEG\t{WNIDS[i]}\t0\t1\t2\t3\n" for i in range(4)
        ),
    }
    for label in (0, 7, 199):
        wnid = WNIDS[label]
        made[f"{ROOT}/train/{wnid}/{wnid}_boxes.txt"] = ""
        for i in range(2):
            # Some images of the real archive are grey.
            made[f"{ROOT}/train/{wnid}/images/{wnid}_{i}.JPEG"] = jpeg(label + i, 1 + 2 * i)
    for i in range(4):
        made[f"{ROOT}/val/images/val_{i}.JPEG"] = jpeg(100 + i)
    return made


def write(folder, contents):
    path = folder / tiny_imagenet.ARCHIVE
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in contents.items():
            archive.writestr(name, text)
    return path


def test_an_archive_becomes_a_set_and_says_which_it_is(tmp_path):
    write(tmp_path, files())
    with pytest.warns(UserWarning, match=r"not the official archive.* 6 training and 4 validation"):
        info = tiny_imagenet.prepare(tmp_path / "tfds", manual_dir=tmp_path)
    assert (info.train, info.validation, info.is_official) == (6, 4, False)
    train, test = (load_examples("tiny_imagenet", s, tmp_path / "tfds") for s in ("train", "test"))
    assert train.origin == f"another archive than the official one (MD5 {info.md5})"
    assert train.take([0, 1]).origin == train.origin == test.origin
    assert train.x.shape == (6, 64, 64, 3) and train.num_classes == 200 and not train.is_complete
    # Each image has the value of its label, or one more; grey ones in all three channels.
    means = np.rint(255 * train.x.mean((1, 2)))
    assert sorted(train.y) == [0, 0, 7, 7, 199, 199]
    assert sorted(map(tuple, means - train.y[:, np.newaxis])) == [(0,) * 3] * 3 + [(1,) * 3] * 3
    np.testing.assert_array_equal(np.rint(255 * test.x.mean((1, 2, 3))) - 100, test.y)


def test_the_official_archive_is_taken_without_a_warning(tmp_path, monkeypatch, recwarn):
    path = write(tmp_path, files())
    monkeypatch.setattr(tiny_imagenet, "OFFICIAL_MD5", tiny_imagenet.check_archive(path).md5)
    fetched = []

    def fetch(url, target):
        fetched.append(url)
        target.write_bytes(path.read_bytes())

    assert tiny_imagenet.prepare(tmp_path / "tfds", fetch=fetch).is_official
    assert fetched == [tiny_imagenet.URL]
    assert load_examples("tiny_imagenet", "train", tmp_path / "tfds").origin == ""
    assert not [w for w in recwarn if "official" in str(w.message)]


def test_a_set_of_another_archive_is_not_taken_for_one_of_this(tmp_path):
    write(tmp_path, files())
    with pytest.warns(UserWarning, match="not the official archive"):
        first = tiny_imagenet.prepare(tmp_path / "tfds", manual_dir=tmp_path)
        assert tiny_imagenet.prepare(tmp_path / "tfds", manual_dir=tmp_path) == first
    write(tmp_path, {**files(), f"{ROOT}/more.txt": "more"})
    with pytest.warns(UserWarning, match="not the official archive"):
        with pytest.raises(
            DatasetCorruptError, match=f"another archive \\(MD5 {first.md5}\\).* Remove"
        ):
            tiny_imagenet.prepare(tmp_path / "tfds", manual_dir=tmp_path)


def changed(**changes):
    made = {**files(), **{f"{ROOT}/{name}": text for name, text in changes.items()}}
    return {name: text for name, text in made.items() if text is not None}


@pytest.mark.parametrize(
    "contents, message",
    [
        (changed(**{"wnids.txt": None}), "wnids.txt is not in it"),
        (changed(**{"wnids.txt": "n1\nn2\n"}), "wnids.txt names 2 classes, not 200"),
        (changed(**{"val/val_annotations.txt": None}), "val_annotations.txt is not in it"),
        (changed(**{"val/val_annotations.txt": ""}), "validation part has images of class None"),
        (changed(**{"train/n9/images/n9_0.JPEG": jpeg(0)}), "train part has images of class n9"),
        ({f"{ROOT}/wnids.txt": "\n".join(WNIDS)}, "train part has no images"),
    ],
)
def test_other_layouts_are_rejected(tmp_path, contents, message):
    write(tmp_path, contents)
    with pytest.raises(DatasetCorruptError, match=message):
        tiny_imagenet.prepare(tmp_path / "tfds", manual_dir=tmp_path)
    assert not (tmp_path / "tfds").exists()


def test_files_that_are_cut_short_or_damaged_are_rejected(tmp_path):
    path = write(tmp_path, files())
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DatasetCorruptError, match="to be a zip file, but File is not a zip file"):
        tiny_imagenet.prepare(tmp_path / "tfds", manual_dir=tmp_path)
    broken = bytearray(whole)
    broken[whole.index(b"\xff\xd8") + 300] ^= 1
    path.write_bytes(broken)
    with pytest.raises(DatasetCorruptError, match=r"\.JPEG is damaged"):
        tiny_imagenet.prepare(tmp_path / "tfds", manual_dir=tmp_path)


def test_a_download_that_fails_or_brings_something_else(tmp_path):
    def offline(url, target):
        raise urllib.error.URLError("no route")

    with pytest.raises(DatasetNotFoundError, match="no route.*pass the folder"):
        tiny_imagenet.prepare(tmp_path / "tfds", fetch=offline)
    other = write(tmp_path, files()).read_bytes()
    with pytest.raises(DatasetCorruptError, match="to have the MD5 90528d7c.*got"):
        tiny_imagenet.prepare(tmp_path / "tfds", fetch=lambda _, target: target.write_bytes(other))


def test_metadata_that_cannot_be_read_are_rejected(tmp_path):
    (tmp_path / "metadata.json").write_text('{"official": false}')
    with pytest.raises(
        DatasetCorruptError, match="to name the archive of the data set, but KeyErr"
    ):
        tfds.origin(tmp_path)


def test_a_missing_archive_and_a_missing_set(tmp_path):
    with pytest.raises(DatasetNotFoundError, match="tiny-imagenet-200.zip in manual_dir"):
        tiny_imagenet.prepare(tmp_path / "tfds", manual_dir=tmp_path)
    with pytest.raises(DatasetNotFoundError, match="python -m trainers.prepare_tiny_imagenet"):
        load_examples("tiny_imagenet", "train", tmp_path)
