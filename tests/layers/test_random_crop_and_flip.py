"""Random crops and flips: which windows there are, how often, and that rows stay apart."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

import tfdpnorm
from tfdpnorm.audit import probe_augmentation
from tfdpnorm.layers import RandomCropAndFlip
from tfdpnorm.training.step.layer_draws import LayerDraws

SIZE = (5, 4)


def windows(image, padding, flip):
    """All windows of an image and its mirror images, from scratch: a dict from bytes to a place."""
    height, width, _ = image.shape
    edge = (padding, padding)
    padded = np.pad(image, (edge, edge, (0, 0)), mode="symmetric")
    found = {}
    for down in range(2 * padding + 1):
        for right in range(2 * padding + 1):
            window = padded[down : down + height, right : right + width]
            found[window.tobytes()] = (down, right, False)
            if flip:
                found[window[:, ::-1].tobytes()] = (down, right, True)
    return found


@pytest.mark.parametrize("padding, flip", [(0, True), (1, False), (1, True), (2, True), (4, True)])
def test_a_view_is_one_of_all_windows_and_all_are_as_likely(padding, flip):
    image = np.random.default_rng(0).random((*SIZE, 3), np.float32)
    expected = windows(image, padding, flip)
    places = (2 * padding + 1) ** 2 * (1 + flip)
    count = 200 * places
    made = RandomCropAndFlip(padding, flip)(np.repeat(image[np.newaxis], count, 0), training=True)
    keys, counts = np.unique([view.tobytes() for view in made.numpy()], return_counts=True)
    assert {expected[key] for key in keys} == set(expected.values())
    if len(expected) == places:  # a mirrored window may be another one's mirror image
        # Chi-square, some ten standard deviations above its mean.
        statistic = np.sum((counts - 200) ** 2 / 200)
        assert statistic < places + 10 * np.sqrt(2 * places) + 10


def test_without_training_images_stay_as_they_are():
    images = np.random.default_rng(0).random((3, *SIZE, 1), np.float32)
    np.testing.assert_array_equal(RandomCropAndFlip(2)(images), images)
    np.testing.assert_array_equal(RandomCropAndFlip(2)(images, training=False), images)


def test_a_row_without_numbers_spoils_no_other():
    images = np.ones((8, *SIZE, 1), np.float32)
    images[3] = np.nan
    made = RandomCropAndFlip(2)(images, training=True).numpy()
    assert np.isnan(made[3]).all() and np.array_equal(np.delete(made, 3, 0), np.ones((7, *SIZE, 1)))
    assert probe_augmentation(RandomCropAndFlip(2), images[:3]).findings == []


@pytest.mark.parametrize("shape", [(2, 3, 9, 1), (2, 9, 3, 1), (2, 9), (2, None, 9, 1)])
def test_images_too_small_for_the_padding_are_refused(shape):
    with pytest.raises(ValueError, match="Expected images .* of padding=4 or more, got shape"):
        RandomCropAndFlip().build(shape)


def test_it_comes_back_from_its_config():
    layer = RandomCropAndFlip(3, flip=False, name="views")
    again = keras.layers.deserialize(keras.layers.serialize(layer))
    assert again.get_config() == layer.get_config()
    with pytest.raises(ValueError, match="padding to be a whole number >= 0, got -1"):
        RandomCropAndFlip(-1)


def trained(run_dir, *, stop_at=None, seed=None, engine="book_keeping"):
    """Weights of a run of four updates, stopped and resumed on the way or not."""
    rng = np.random.default_rng(1)
    x, y = rng.random((40, 6, 6, 1), np.float32), rng.integers(0, 2, 40)

    def begin():
        keras.utils.set_random_seed(3)
        model = keras.Sequential(
            [keras.Input((6, 6, 1)), keras.layers.Flatten(), keras.layers.Dense(2)]
        )
        private = tfdpnorm.make_private(
            model,
            num_examples=40,
            expected_batch_size=16,
            steps=4,
            l2_norm_clip=1.0,
            noise_multiplier=1.0,
            delta=1e-3,
            engine=engine,
            physical_batch_size=8,
            augmentation_multiplicity=3,
            augmentation=RandomCropAndFlip(2),
            run_dir=run_dir,
            resume=True,
            checkpoint_every=1,
            insecure_seed=seed,
        )
        private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return private

    if stop_at is not None:
        private = begin()
        private.fit(x, y, verbose=0, steps_per_epoch=1, epochs=stop_at)
        private.ledger.close()
    private = begin()
    private.fit(x, y, verbose=0, steps_per_epoch=1)
    private.ledger.close()
    return private.get_weights()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*delta")
def test_a_resumed_run_draws_the_views_again(tmp_path):
    whole = trained(tmp_path / "whole", seed=7)
    for one, other in zip(whole, trained(tmp_path / "cut", stop_at=2, seed=7), strict=True):
        np.testing.assert_array_equal(one, other)


def test_two_layers_draw_different_views():
    images = tf.random.stateless_uniform((16, 6, 6, 1), [1, 2])
    first, second = (RandomCropAndFlip(2)(images, training=True).numpy() for _ in range(2))
    assert not np.array_equal(first, second)


def test_in_a_step_views_follow_from_the_runs_key_and_the_update():
    images = tf.random.stateless_uniform((16, 6, 6, 1), [1, 2])
    model = keras.Sequential([keras.Input((6, 6, 1)), keras.layers.Flatten()])

    def views(key, update):
        layer = RandomCropAndFlip(2)
        draws = LayerDraws(model, (layer,), key)

        @tf.function
        def step(update):
            with draws.of_update(update):
                return layer(images, training=True)

        return step(tf.constant(update, tf.int64)).numpy().tobytes()

    places = [(key, update) for key in (b"one", b"other") for update in (0, 1)]
    found = [views(*place) for place in places]
    assert len(set(found)) == 4 and found == [views(*place) for place in places]
    assert views(None, 0) != views(None, 0)  # a new key for each run
