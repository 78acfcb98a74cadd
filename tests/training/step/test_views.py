"""Augmentation multiplicity: K views of an example behind one clipped gradient."""

import numpy as np
import pytest
import tensorflow as tf

from tests.each import each
from tests.training.step.looped import looped_sum


def mirrored(rows):
    signs = tf.where(tf.range(tf.shape(rows)[0]) % 2 == 0, 1.0, -1.0)
    return rows * signs[:, tf.newaxis]


@pytest.mark.parametrize(
    "engine, augmentation",
    [("book_keeping", mirrored), ("per_example", [tf.identity, tf.negative])],
    ids=["by place", "one each"],
)
def test_the_mean_gradient_of_the_views_is_clipped_once(
    engine, augmentation, build, private, step_sum, one_lot, data, cross_entropy
):
    """Views at x and -x: by a function that knows which view of a row it makes, or by two."""
    model = build(norm="layer")
    x, y = data[0][:5], data[1][:5]
    views = {"augmentation_multiplicity": 2, "augmentation": augmentation}
    trained = private(model, l2_norm_clip=0.5, engine=engine, **views)
    trained.compile("sgd", cross_entropy)
    total = step_sum(trained)(one_lot(x, y, rows=3))

    def loss_of(i):  # the mean over the two views
        return cross_entropy(np.repeat(y[i], 2), model(np.stack([x[i], -x[i]])))

    expected = looped_sum(model, loss_of, len(x), 0.5)
    np.testing.assert_allclose(total, expected, rtol=1e-5, atol=1e-6)


@each(
    "settings, message",
    [
        ({"augmentation_multiplicity": 0}, "got 0"),
        ({"augmentation_multiplicity": 2.0}, "got 2.0"),
        ({"augmentation": "flip"}, "got str"),
        ({"augmentation": []}, r"got \[\]"),
        ({"augmentation": [tf.identity] * 2, "augmentation_multiplicity": 3}, "multiplicity=3"),
        ({"augmentation": [tf.identity, "flip"], "augmentation_multiplicity": 2}, "'flip'"),
    ],
)
def test_augmentations_that_cannot_be_are_rejected(settings, message, build, private):
    with pytest.raises(ValueError, match=message):
        private(build(), **settings)


def test_an_augmentation_that_changes_the_row_count_is_rejected(build, private):
    with pytest.raises(ValueError, match="as many rows"):
        private(build(), augmentation=lambda rows: rows[:1], physical_batch_size=8)
