"""Labelled images of one's own, in folders and CSV files."""

import numpy as np
import pytest
import tensorflow as tf

from trainers.data.images import load_labelled


def write_image(path, size=(4, 5), value=128):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.full((*size, 3), value, np.uint8)
    path.write_bytes(tf.io.encode_png(pixels).numpy())


@pytest.fixture
def folder(tmp_path):
    for split, count in (("train", 3), ("test", 1)):
        for value, name in enumerate(("cat", "dog")):
            for i in range(count):
                write_image(tmp_path / "pets" / split / name / f"{i}.png", value=100 * value)
    (tmp_path / "pets" / "train" / "cat" / "notes.txt").write_text("no image")
    return tmp_path / "pets"


def test_a_folder(folder):
    train, test = load_labelled(str(folder), "train"), load_labelled(str(folder), "test")
    assert train.x.shape == (6, 4, 5, 3) and train.num_classes == 2 and train.name == "pets"
    np.testing.assert_array_equal(train.y, [0, 0, 0, 1, 1, 1])
    assert train.class_names == test.class_names == ("cat", "dog")
    np.testing.assert_allclose(train.x[-1], 100 / 255, rtol=1e-6)
    assert test.x.shape == (2, 4, 5, 3) and test.y.tolist() == [0, 1]
    assert load_labelled(str(folder), "test", image_size=8).x.shape == (2, 8, 8, 3)


def test_a_csv_file(folder):
    path = folder.parent / "pets.csv"
    lines = ["image,label,split", "pets/train/cat/0.png,b,train", "pets/test/dog/0.png,a,test"]
    path.write_text("\n".join(lines))
    train = load_labelled(str(path), "train")
    assert train.y.tolist() == [1] and train.num_classes == 2
    path.write_text("\n".join([*lines, "pets/test/dog/0.png,a,validation"]))
    with pytest.raises(ValueError, match="Expected splits train and test"):
        load_labelled(str(path), "train")
    path.write_text("file,label\nx,1")
    with pytest.raises(ValueError, match="Expected columns image, label, split"):
        load_labelled(str(path), "train")
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="Expected a text file in UTF-8"):
        load_labelled(str(path), "train")


def test_what_is_none_of_them(folder):
    with pytest.raises(ValueError, match="Expected dataset to be one of"):
        load_labelled("nothing", "train")
    (folder / "train" / "dog" / "broken.png").write_text("no image")
    with pytest.raises(ValueError, match="Expected an image in .*broken.png"):
        load_labelled(str(folder), "train")
    (folder / "train" / "dog" / "broken.png").unlink()
    write_image(folder / "train" / "dog" / "large.png", size=(9, 9))
    with pytest.raises(ValueError, match="Expected images of one size"):
        load_labelled(str(folder), "train")
    assert load_labelled(str(folder), "train", image_size=4).x.shape == (7, 4, 4, 3)
    (folder.parent / "empty").mkdir()
    with pytest.raises(ValueError, match="Expected images of two classes or more"):
        load_labelled(str(folder.parent / "empty"), "train")


def test_known_names_are_known():
    assert load_labelled("digits", "test").x.shape == (360, 8, 8, 1)
