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
    with pytest.raises(ValueError, match="needs the columns image, label, split"):
        load_labelled(str(path), "train")
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="Expected a text file in UTF-8"):
        load_labelled(str(path), "train")


@pytest.fixture
def of_persons(tmp_path):
    """Ann has images of both classes, in folders of her own, and one below these."""
    for name in ("train/cat/ann/1", "train/cat/ann/in/2", "train/cat/bob/1", "train/dog/ann/1"):
        write_image(tmp_path / "pets" / f"{name}.png")
    for name in ("test/cat/cleo/1", "test/dog/dan/1"):
        write_image(tmp_path / "pets" / f"{name}.png")
    return tmp_path / "pets"


def written_csv(path, lines):
    path.write_text("\n".join(["image,label,split,owner", *lines]))
    return path


def test_whose_images_are_in_a_folder(of_persons):
    train = load_labelled(str(of_persons), "train", person_feature="subfolder")
    ann, bob = train.persons[0], train.persons[2]
    assert ann != bob and train.persons.tolist() == [ann, ann, bob, ann]
    assert train.y.tolist() == [0, 0, 0, 1] and train.num_persons == 2
    assert len(load_labelled(str(of_persons), "test", person_feature="subfolder")) == 2
    write_image(of_persons / "train" / "cat" / "secret.png")
    with pytest.raises(ValueError, match="got 1 images in the folder of a class itself") as told:
        load_labelled(str(of_persons), "train", person_feature="subfolder")
    assert "secret" not in str(told.value)
    with pytest.raises(ValueError, match="Expected person_feature='subfolder' for a folder"):
        load_labelled(str(of_persons), "train", person_feature="owner")


def test_whose_images_are_in_a_csv_file(folder):
    cat, dog = "pets/train/cat/0.png,a,train", "pets/train/dog/1.png,b,train"
    test = "pets/test/dog/0.png,a,test"
    path = written_csv(folder.parent / "pets.csv", [f"{cat},ann", f"{dog},ann", f"{test},dan"])
    train = load_labelled(str(path), "train", person_feature="owner")
    assert train.num_persons == 1 and train.persons.tolist() == [0, 0]
    assert load_labelled(str(path), "train").persons is None
    with pytest.raises(ValueError, match="no column named whose.*needs the columns .*whose"):
        load_labelled(str(path), "train", person_feature="whose")
    written_csv(path, [f"{cat},ann", f"{dog},", f"{test},dan"])
    with pytest.raises(ValueError, match="Line 3 of .* has no owner"):
        load_labelled(str(path), "train", person_feature="owner")


def test_nobody_is_trained_on_and_tested(of_persons):
    write_image(of_persons / "test" / "dog" / "bob" / "1.png")
    for split in ("train", "test"):
        with pytest.raises(ValueError, match="in train or in test alone, got 1 in both") as told:
            load_labelled(str(of_persons), split, person_feature="subfolder")
        assert "bob" not in str(told.value).replace(str(of_persons), "")


def test_other_names_and_files_are_rejected(folder):
    with pytest.raises(ValueError, match="Expected dataset to be one of"):
        load_labelled("nothing", "train")
    (folder / "train" / "dog" / "broken.png").write_text("no image")
    with pytest.raises(ValueError, match="in all 9 files, got 1 that .* read: .*broken.png"):
        load_labelled(str(folder), "train")
    (folder / "train" / "dog" / "broken.png").unlink()
    write_image(folder / "train" / "dog" / "large.png", size=(9, 9))
    with pytest.raises(ValueError, match="Expected images of one size"):
        load_labelled(str(folder), "train")
    assert load_labelled(str(folder), "train", image_size=4).x.shape == (7, 4, 4, 3)
    (folder.parent / "empty").mkdir()
    with pytest.raises(ValueError, match="Expected images of two classes or more"):
        load_labelled(str(folder.parent / "empty"), "train")
