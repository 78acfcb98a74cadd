"""Weights of classes are weights of examples, each by its own label."""

import numpy as np
import pytest
from tensorflow import keras

from tests.each import each
from tfdpnorm.training.checks.targets import weights_by_class

WEIGHTS = {0: 0.5, 1: 1.0, 2: 3.0}
LABELS = np.array([2, 0, 1, 1])
EXPECTED = [3.0, 0.5, 1.0, 1.0]


@each(
    "y",
    [
        *(LABELS, LABELS[:, np.newaxis], LABELS.astype(np.float32), list(LABELS)),
        *(np.eye(3)[LABELS], 0.1 + 0.7 * np.eye(3)[LABELS]),
    ],
)
def test_each_example_has_the_weight_of_its_class(y):
    np.testing.assert_array_equal(weights_by_class(WEIGHTS, y, None), EXPECTED)


def test_they_multiply_the_weights_of_examples_and_of_steps():
    each = np.arange(4.0)
    np.testing.assert_array_equal(weights_by_class(WEIGHTS, LABELS, each), each * EXPECTED)
    steps = np.arange(8.0).reshape(4, 2)
    expected = steps * np.array(EXPECTED)[:, np.newaxis]
    np.testing.assert_array_equal(weights_by_class(WEIGHTS, LABELS, steps), expected)


@each(
    "weights, y, words",
    [
        ({1: 1.0}, LABELS, "each class 0, 1"),
        ({0: "a", 1: 1.0}, LABELS, "each class 0, 1"),
        ({0: 1.0, 1: 1.0}, LABELS, "each class in the targets"),
        (WEIGHTS, np.zeros([4, 5, 1]), r"\(4, 5, 1\)"),
        (WEIGHTS, (LABELS, LABELS), "one output"),
        (WEIGHTS, None, "class_weight"),
        ({0: 1, 1: 3}, np.ones([4, 5]) - np.eye(4, 5), "sample_weight"),
        (WEIGHTS, np.array([[0, 1, 1], [1, 0, 0]]), "sample_weight"),
        (WEIGHTS, np.array([0.5, 0, 1, 2]), "each class in the targets"),
        *(({0: 1.0, 1: 0, 2: w}, LABELS, r"\{2: \S+\}") for w in (-0.5, np.nan, np.inf, 1e39)),
    ],
)
def test_invalid_class_weights_are_rejected(weights, y, words):
    with pytest.raises(ValueError, match=words):
        weights_by_class(weights, y, None)


def test_the_statement_says_what_they_are_presumed_not_to_show(private, build, data):
    trained = private(build(), steps=1)
    trained.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    trained.fit(*data, class_weight=WEIGHTS, verbose=0)
    said = " ".join(trained.privacy_statement().split())
    assert "The choice of class_weight" in said
