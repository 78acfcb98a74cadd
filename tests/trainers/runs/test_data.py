"""Which rows an experiment trains on, tests on and takes for public."""

import dataclasses
from unittest import mock

import numpy as np
import pytest

from tfdpnorm.data import Examples, check_public_batch
from tfdpnorm.data.public import match_images
from trainers.data.sources import load_examples
from trainers.davody import cells as davody
from trainers.runs import data as datasets
from trainers.runs.data import load_experiment_data

NORMS = ("none", "layer", "group", "public_batch")


def row_set(images):
    return {row.tobytes() for row in images}


@pytest.fixture(scope="module")
def digits():
    """The data of each norm, with the same seed."""
    return {norm: load_experiment_data(davody.spec("digits", norm, 1.0)) for norm in NORMS}


def test_public_and_private_digits_partition_the_training_set(digits):
    data = digits["public_batch"]
    whole = match_images(load_examples("digits", "train").x, (28, 28, 1))
    both = np.concatenate([data.public_x, data.train_x])
    assert sorted(row.tobytes() for row in both) == sorted(row.tobytes() for row in whole)


def test_examples_that_answer_of_plateaus_are_not_trained_on():
    plateau = dict(plateau="private", plateau_examples=100, learning_rate_schedule="constant")
    spec = davody.spec("digits", "none", 1.0, **plateau)
    data = load_experiment_data(spec)
    assert (data.num_examples, len(data.validation_x)) == (1437 - 128 - 100, 100)
    assert not row_set(data.train_x) & row_set(data.validation_x)
    assert data.scale == "100 training examples kept for plateaus, not trained on"


def made_up(name, count, shape, classes):
    rng = np.random.default_rng(len(name))
    x, y = rng.random((count, *shape), np.float32), rng.integers(classes, size=count)
    return Examples(name, "train", x, y.astype(np.int32), classes, True)


def load_with(public):
    """Loads DIGITS, whose plateaus public examples tell."""
    settings = dict(plateau="public", plateau_dataset="others", plateau_examples=40)
    spec = davody.spec("digits", "none", 1.0, learning_rate_schedule="constant", **settings)

    def source(name, split, data_dir):
        return public if (name, split) == ("others", "train") else load_examples(name, split)

    with mock.patch.object(datasets, "load_labelled", source):
        return load_experiment_data(spec)


def test_public_examples_of_plateaus_do_not_change_private_ones(digits):
    public = made_up("others", 50, (14, 14, 3), classes=10)
    data = load_with(public)
    assert data.validation_x.shape == (40, 28, 28, 1) and data.scale == "full"
    np.testing.assert_array_equal(data.train_x, digits["none"].train_x)
    fitted = match_images(match_images(public.x, (8, 8, 1)), (28, 28, 1))
    labels = {image.tobytes(): label for image, label in zip(fitted, public.y, strict=True)}
    assert [labels[image.tobytes()] for image in data.validation_x] == list(data.validation_y)


@pytest.mark.parametrize(
    "count, classes, message",
    [
        (50, 9, "Expected plateau_dataset with 10 classes of images, those of digits, got others"),
        (39, 10, "Expected plateau_examples of at most 39"),
    ],
)
def test_public_examples_of_plateaus_that_do_not_fit(count, classes, message):
    with pytest.raises(ValueError, match=message):
        load_with(made_up("others", count, (8, 8, 1), classes))


def test_public_examples_of_plateaus_are_matched_by_class_names():
    """A folder's classes are numbered in the order of their names, other sets' by their own."""
    public = dataclasses.replace(
        made_up("others", 50, (8, 8, 1), classes=10), class_names=tuple("3456789012")
    )
    data = load_with(public)
    fitted = match_images(public.x, (28, 28, 1))
    labels = {image.tobytes(): label for image, label in zip(fitted, public.y, strict=True)}
    expected = [(labels[image.tobytes()] + 3) % 10 for image in data.validation_x]
    assert list(data.validation_y) == expected
    others = dataclasses.replace(public, class_names=("zero", *"123456789"))
    with pytest.raises(
        ValueError, match="classes of digits, such as 0, got 1, 2, 3, 4, .* folders"
    ):
        load_with(others)


@pytest.mark.parametrize("norm", NORMS)
def test_every_norm_has_the_same_private_rows(digits, norm):
    np.testing.assert_array_equal(digits[norm].train_x, digits["public_batch"].train_x)
    np.testing.assert_array_equal(digits[norm].train_y, digits["public_batch"].train_y)
    np.testing.assert_array_equal(digits[norm].test_x, digits["public_batch"].test_x)
    assert (digits[norm].public_x is None) == (norm != "public_batch")


@pytest.mark.parametrize(
    "count, said",
    [
        (None, []),
        (1309, []),
        (10**6, ["max_examples=1,000,000 is more than the 1,309 there are: all are used"]),
    ],
)
def test_max_examples_that_leaves_all_is_full_scale(digits, count, said):
    spec, lines = davody.spec("digits", "none", 1.0, max_examples=count), []
    data = load_experiment_data(spec, echo=lines.append)
    assert (data.num_examples, data.scale, lines) == (1309, "full", said)


def test_twins_of_rows_that_are_split_off_are_not_trained_on(monkeypatch):
    x = np.random.default_rng(0).random((40, 28, 28, 1), np.float32)
    x[20:] = x[:20]
    y = np.arange(40, dtype=np.int32) % 20
    both = Examples("mnist", "train", x, y, num_classes=20, is_complete=True)
    monkeypatch.setattr(datasets, "load_examples", lambda *args: both)
    spec = davody.spec("mnist", "public_batch", 1.0, public_dataset="split", public_batch_size=8)
    data = load_experiment_data(spec)
    check_public_batch(data.public_x, data.train_x)
    public = {row.tobytes() for row in data.public_x}
    assert data.num_examples == len(data.train_y) == 40 - 2 * len(public)
    np.testing.assert_array_equal(data.train_x, x[data.train_y])
