"""What random layers draw in private training: by the run's key and the number of the update."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.training.step.layer_draws import LayerDraws


def dropping():
    inner = keras.Sequential([keras.layers.GaussianNoise(1.0)])
    return keras.Sequential([keras.Input((50,)), keras.layers.Dropout(0.5), inner])


def numbers(draws, model, update, times=1):
    """[times, 4, 50]: what the model gives in an update, traced."""

    @tf.function
    def step(update):
        with draws.of_update(update):
            return [model(tf.ones([4, 50]), training=True) for _ in range(times)]

    return np.array(step(tf.constant(update, tf.int64)))


def test_they_follow_from_key_layer_and_update():
    seen = []
    for key in (b"one", b"other"):
        for update in (0, 1):
            model = dropping()
            first = numbers(LayerDraws(model, (), key), model, update, times=2)
            keras.utils.set_random_seed(8)
            again = numbers(LayerDraws(model, (), key), model, update, times=2)
            np.testing.assert_array_equal(first, again)
            seen += list(first)
    assert len({x.tobytes() for x in seen}) == 8


@pytest.mark.parametrize("key", [None, b"secret"])
def test_nobody_else_can_compute_them(key):
    """Not from a global seed, nor from a seed of the layer."""
    found = []
    for secret in (key, None):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((50,)), keras.layers.Dropout(0.5, seed=3)])
        found.append(numbers(LayerDraws(model, (), secret), model, 0))
    assert (found[0] != found[1]).any()


@pytest.mark.parametrize("seed", [None, 3])
def test_nobody_can_compute_what_is_drawn_by_tensorflows_counters(seed):
    """Settings are public: neither a global seed nor one of the operation says the numbers."""
    found = []
    for _ in range(2):
        keras.utils.set_random_seed(1)
        model = keras.Sequential(
            [keras.layers.Lambda(lambda x: x + tf.random.normal(tf.shape(x), seed=seed))]
        )
        found.append(numbers(LayerDraws(model, (), by_rows=True), model, 0))
    assert (found[0] != found[1]).all()


def test_two_layers_draw_different_numbers():
    model = keras.Sequential([keras.Input((50,))] + [keras.layers.GaussianNoise(1.0)] * 1)
    two = keras.Sequential([keras.layers.GaussianNoise(1.0), keras.layers.GaussianNoise(1.0)])
    draws = LayerDraws(two, (model,), b"key")

    @tf.function
    def step():
        with draws.of_update(tf.constant(0, tf.int64)):
            return [layer(tf.zeros([4, 50]), True) for layer in (*two.layers, *model.layers)]

    assert len({x.numpy().tobytes() for x in step()}) == 3


def test_outside_of_the_step_a_model_is_as_it_was(tmp_path):
    model, reference = dropping(), dropping()
    draws = LayerDraws(model, (), b"key")
    before = [dict(vars(x._random_generator)) for x in (model.layers[0], model.layers[1].layers[0])]
    numbers(draws, model, 0)
    after = [dict(vars(x._random_generator)) for x in (model.layers[0], model.layers[1].layers[0])]
    assert before == after
    for each in (model, reference):
        each.save(tmp_path / f"{each.name}.keras")
    rows = tf.ones([2, 50])
    loaded = keras.models.load_model(tmp_path / f"{model.name}.keras")
    np.testing.assert_array_equal(loaded(rows), model(rows))
    keras.models.clone_model(model)
    results = []
    for each in (model, reference):
        tf.random.set_seed(5)
        results.append(each(rows, training=True).numpy())
    np.testing.assert_array_equal(*results)


def test_no_checkpoint_holds_the_key():
    class Holder(keras.Model):
        def __init__(self, draws):
            super().__init__()
            self.draws = draws

    model = dropping()
    draws = LayerDraws(model, (), b"key")
    numbers(draws, model, 0)
    holder = Holder(draws)
    assert not holder.weights
    assert "layer_keys" not in str(tf.train.Checkpoint(holder).save_counter.name) + str(
        [v.name for v in holder.variables]
    )


def test_one_row_at_a_time_only_generators_are_set():
    own = keras.layers.RandomFlip()
    model = keras.Sequential([keras.layers.Dropout(0.5), own])
    draws = LayerDraws(model, (), b"key", by_rows=True)
    assert draws._sources() == [own._random_generator]
