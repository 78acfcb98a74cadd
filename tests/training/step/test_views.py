"""Augmentation multiplicity: K views of an example behind one clipped gradient."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.training.step.looped import looped_sum

every_engine = pytest.mark.parametrize(
    "engine", ["book_keeping", "per_example", "tfp_vectorized", "tfp_model"]
)


def summed(private, step_sum, model, loss, lot, **settings):
    trained = private(model, l2_norm_clip=0.5, **settings)
    trained.compile("sgd", loss)
    return step_sum(trained)(lot)


@pytest.mark.quick_cases("public_batch-book_keeping")
@every_engine
@pytest.mark.parametrize("norm", ["layer", "public_batch"])
def test_copies_of_an_example_give_its_gradient(
    engine, norm, build, private, step_sum, one_lot, data, public, cross_entropy
):
    model = build(norm=norm)
    lot = one_lot(data[0][:6], data[1][:6], padding=1)
    settings = {"public_batch": public if norm == "public_batch" else None}
    once = summed(private, step_sum, model, cross_entropy, lot, **settings)
    copies = summed(
        private,
        step_sum,
        model,
        cross_entropy,
        lot,
        engine=engine,
        augmentation_multiplicity=3,
        **settings,
    )
    assert np.linalg.norm(once) > 0.5
    np.testing.assert_allclose(copies, once, rtol=1e-5, atol=1e-6)


def mirrored(rows):
    signs = tf.where(tf.range(tf.shape(rows)[0]) % 2 == 0, 1.0, -1.0)
    return rows * signs[:, tf.newaxis]


@pytest.mark.slow_cases("*-tfp_*", "one each-*")
@every_engine
@pytest.mark.parametrize(
    "augmentation", [mirrored, [tf.identity, tf.negative]], ids=["by place", "one each"]
)
def test_the_mean_gradient_of_the_views_is_clipped_once(
    engine, augmentation, build, private, step_sum, one_lot, data, cross_entropy
):
    """Views at x and -x: by a function that knows which view of a row it makes, or by two."""
    model = build(norm="layer")
    x, y = data[0][:5], data[1][:5]
    total = summed(
        private,
        step_sum,
        model,
        cross_entropy,
        one_lot(x, y, rows=3),
        engine=engine,
        augmentation_multiplicity=2,
        augmentation=augmentation,
    )

    def loss_of(i):  # the mean over the two views
        return cross_entropy(np.repeat(y[i], 2), model(np.stack([x[i], -x[i]])))

    expected = looped_sum(model, loss_of, len(x), 0.5)
    np.testing.assert_allclose(total, expected, rtol=1e-5, atol=1e-6)


def test_one_row_with_its_views_moves_the_sum_by_the_clip(
    build, private, step_sum, one_lot, data, cross_entropy
):
    trained = private(build(), engine="book_keeping", l2_norm_clip=0.5, augmentation_multiplicity=4)
    trained.compile("sgd", cross_entropy)
    run = step_sum(trained)
    x, y = data[0][:6], data[1][:6]
    without = run(one_lot(x[1:], y[1:], padding=1))
    outlier = np.concatenate([np.full((1, 5), 1e3, np.float32), x[1:]])
    change = np.linalg.norm(run(one_lot(outlier, y)) - without)
    assert 0.45 < change <= 0.5 * (1 + 1e-5)


@pytest.mark.slow
def test_images_are_augmented_anew_in_every_update(private, cross_entropy):
    model = keras.Sequential(
        [keras.Input((8, 8, 1)), keras.layers.Conv2D(2, 3), keras.layers.Flatten()]
    )
    model.add(keras.layers.Dense(3))
    augmentation = keras.Sequential(
        [keras.layers.RandomFlip(), keras.layers.RandomTranslation(0.2, 0.2)]
    )
    seen = []

    def spied(rows):
        found = augmentation(rows, training=True)
        tf.py_function(lambda t: seen.append(t.numpy()), [found], [])
        return found

    x = np.random.default_rng(0).random((40, 8, 8, 1), np.float32)
    settings = {"augmentation_multiplicity": 2, "physical_batch_size": 8}
    # Not validated: a Python function that gets rows is refused otherwise.
    trained = private(model, augmentation=spied, validate=False, **settings)
    trained.compile("sgd", cross_entropy, metrics=["accuracy"])
    history = trained.fit(x, np.arange(40) % 3, epochs=1, verbose=0)
    assert np.isfinite(history.history["loss"][0])
    assert all(len(rows) == 16 for rows in seen)
    views = [rows.reshape(8, 2, 8, 8, 1) for rows in seen]
    examples = [pair for rows in views for pair in rows if pair.any()]  # not padding
    assert examples and not any(np.array_equal(*pair) for pair in examples)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"augmentation_multiplicity": 0}, "to be an integer >= 1, got 0"),
        ({"augmentation_multiplicity": 2.0}, "to be an integer >= 1, got 2.0"),
        ({"augmentation": "flip"}, "a Keras layer or a function of rows, .* got str"),
        ({"augmentation": []}, r"multiplicity=1, .* got \[\]"),
        ({"augmentation": [tf.identity] * 2, "augmentation_multiplicity": 3}, "multiplicity=3"),
        ({"augmentation": [tf.identity, "flip"], "augmentation_multiplicity": 2}, "'flip'"),
    ],
    ids=range(6),
)
def test_augmentations_that_cannot_be_are_rejected(settings, message, build, private):
    with pytest.raises(ValueError, match=message):
        private(build(), **settings)


@pytest.mark.parametrize("statistics", ["example", "lot"])
def test_views_beside_public_rows_are_rejected(statistics, build, private, public):
    model = build(norm="public_batch", statistics=statistics)
    with pytest.raises(ValueError, match=f'statistics="{statistics}"'):
        private(model, public_batch=public, augmentation_multiplicity=2)


def test_an_augmentation_that_changes_the_row_count_is_rejected(build, private):
    with pytest.raises(ValueError, match="as many rows as it takes, 8, got shapes"):
        private(build(), augmentation=lambda rows: rows[:1], physical_batch_size=8)


@pytest.mark.slow
def test_views_of_several_inputs_are_made_one_each(private, step_sum, one_lot, cross_entropy):
    inputs = {name: keras.Input((2,), name=name) for name in ("a", "b")}
    model = keras.Model(inputs, keras.layers.Dense(3)(inputs["a"] - inputs["b"]))
    rng = np.random.default_rng(0)
    x = {name: rng.normal(size=(4, 2)).astype(np.float32) for name in ("a", "b")}
    y = np.arange(4) % 3

    def swapped(rows):
        return {"a": rows["b"], "b": rows["a"]}

    def total(augmentation, count):
        trained = private(
            model,
            l2_norm_clip=0.5,
            augmentation=augmentation,
            augmentation_multiplicity=count,
            engine="per_example",
        )
        trained.compile("sgd", cross_entropy)
        lot = one_lot(x["a"], y)
        weights, mask = lot.sample_weight, lot.mask
        rows = {name: one_lot(x[name], y).x for name in x}
        return step_sum(trained)(type(lot)(rows, lot.y, weights, mask))

    both = total([lambda rows: rows, swapped], 2)
    apart = total(None, 1), total(swapped, 1)
    assert np.linalg.norm(apart[0] - apart[1]) > 0.1
    assert np.linalg.norm(both - apart[0]) > 0.1
    np.testing.assert_allclose(total([swapped, lambda rows: rows], 2), both, rtol=1e-5, atol=1e-6)
