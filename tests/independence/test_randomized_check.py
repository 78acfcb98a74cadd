"""The randomized check: sound functions pass, and nothing of it stays behind."""

import random

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.independence.checked import (
    CLASSES,
    FEATURES,
    checked_augmentation,
    checked_loss,
    checked_model,
)
from tests.independence.sound_models import SOUND, masked_lstm, sequential
from tfdpnorm.independence.examples import input_specs, splits, synthetic_examples

layers = keras.layers
PASSED = ([], None)
_SLOW_MODELS = ("masked_lstm", "convolutional_lstm")


@pytest.mark.slow
@pytest.mark.parametrize("name", SOUND)
def test_sound_models_pass(name):
    model = SOUND[name]()
    if not isinstance(input_specs(model), dict | list):  # `checked_model` makes one input
        assert checked_model(model) == PASSED


@pytest.mark.slow
def test_some_sound_models_pass():
    norm = sequential(layers.LayerNormalization(), layers.Dropout(0.5), layers.Dense(4, "relu"))
    assert checked_model(norm) == checked_model(masked_lstm()) == PASSED


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_other_precisions_pass(policy):
    keras.mixed_precision.set_global_policy(policy)
    assert checked_model(sequential(layers.LayerNormalization(), layers.Dense(4))) == PASSED


def test_sound_losses_pass():
    losses = [
        "mse",
        keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1),
        keras.losses.BinaryCrossentropy(from_logits=True),
        keras.losses.Huber(reduction="none"),
        lambda y, p: tf.reduce_sum(tf.abs(y - p), -1),
    ]
    labelled = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    found = [checked_loss(loss) for loss in losses] + [checked_loss(labelled, labels=True)]
    assert found == [PASSED] * len(found)


def test_sound_augmentations_pass():
    found = {
        "flip": checked_augmentation(layers.RandomFlip()),
        "rotation": checked_augmentation(layers.RandomRotation(0.2)),
        "several": checked_augmentation(
            keras.Sequential([layers.RandomFlip(), layers.RandomZoom(0.2)])
        ),
        "noise": checked_augmentation(lambda x: x + tf.random.normal(tf.shape(x))),
    }
    assert found == dict.fromkeys(found, PASSED)


class _Weight(layers.Layer):
    """Multiplies by a weight [F], whose gradient, the sum over rows, goes through a function."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def build(self, shape):
        self.w = self.add_weight(name="w", shape=shape[1:], initializer="ones")

    def call(self, inputs):
        @tf.custom_gradient
        def changed(w):
            return tf.identity(w), self.change

        return inputs * changed(self.w)


def test_gradients_that_do_not_add_up_are_found():
    def bent(g):
        return g * (1 + 0.3 * tf.tanh(tf.reduce_sum(g)))

    assert checked_model(sequential(_Weight(lambda g: 1.0 * g))) == PASSED
    (found,) = checked_model(sequential(_Weight(bent))).found
    assert found == "gradients of some examples that change when others are part of the loss"


def test_functions_that_cannot_run_or_repeat_are_reported():
    def broken(x):
        raise KeyError("no such column")

    def drifting(x):
        return tf.ensure_shape(tf.numpy_function(lambda a: a, [x], x.dtype), x.shape)

    assert checked_augmentation(broken).not_run.startswith("it could not be run: KeyError")
    assert checked_augmentation(drifting).not_run.startswith("it calls Python functions")
    calls = tf.Variable(0.0)
    unknown = checked_augmentation(lambda x: x + tf.random.uniform([]) + 0 * calls)
    assert unknown == PASSED
    assert "8 examples gave shapes" in checked_augmentation(tf.reduce_mean).not_run

    def without_the_largest(x):  # how many rows it gives, no trace knows
        corner = x[:, 0, 0, 0]
        return tf.boolean_mask(x, corner < tf.reduce_max(corner))

    of_seven = checked_augmentation(without_the_largest)
    assert "could not be run: " in of_seven.not_run


def test_a_check_that_would_show_nothing_is_not_run():
    def mixing(x):  # whose values hide that examples meet
        return tf.math.log(-tf.square(x)) + tf.reduce_mean(x)

    dead = sequential(layers.Dense(4, "relu", bias_initializer=lambda *_, **__: -1e9 * tf.ones(4)))
    dead.layers[-1].trainable = False
    assert "not finite" in checked_augmentation(mixing).not_run
    assert "all 0" in checked_model(dead).not_run


def _observed(model, check):
    """All that could show that a check was run, from an equal start."""
    keras.utils.set_random_seed(7)
    generator = tf.random.Generator.from_seed(1)
    first = tf.random.uniform([2], seed=3).numpy()
    if check:
        checked_model(model)
    losses = [
        len(x._losses) + len(getattr(x, "_eager_losses", ())) for x in model._flatten_layers()
    ]
    drawn = [tf.random.uniform([2], seed=3).numpy(), generator.normal([2]).numpy()]
    drawn += [np.random.rand(2), random.random(), tf.random.normal([2]).numpy()]
    return first, [v.numpy() for v in model.variables], drawn, losses


def test_randomized_check_leaves_the_model_unchanged():
    models = {
        "random": sequential(layers.Dropout(0.5, seed=1), layers.GaussianNoise(0.1)),
        "batch": sequential(layers.BatchNormalization()),
        "added_loss": sequential(layers.Dense(2, activity_regularizer="l2")),
    }
    for model in models.values():
        without, after = (_observed(model, check) for check in (False, True))
        tf.nest.map_structure(np.testing.assert_array_equal, without, after)


def test_a_trained_model_trains_on():
    """Compiled functions and dropout masks go on as if nothing had been in between."""

    def trained(check):
        keras.backend.clear_session()
        keras.utils.set_random_seed(3)
        model = sequential(layers.Dense(8), layers.Dropout(0.5))
        model.compile("sgd", "mse")
        x, y = np.ones((8, FEATURES), np.float32), np.ones((8, CLASSES), np.float32)
        model.fit(x, y, epochs=2, verbose=0)
        if check:
            checked_model(model)
        model.fit(x, y, epochs=2, verbose=0)
        return model.get_weights()

    for one, other in zip(trained(False), trained(True), strict=True):
        np.testing.assert_array_equal(one, other)


def test_synthetic_examples_have_the_shapes_and_types_of_specs():
    specs = {
        "a": tf.TensorSpec([None, 2], tf.float16),
        "b": tf.TensorSpec([None], tf.bool),
        "c": tf.TensorSpec([None, None], tf.string),
        "d": tf.TensorSpec([None, 3], tf.uint8),
    }
    examples = synthetic_examples(specs, 6)
    assert examples.count == 6
    for part in examples:
        for name, spec in specs.items():
            assert spec.is_compatible_with(tf.convert_to_tensor(part[name]))


def test_splits_part_each_pair_in_both_roles():
    for count in (2, 3, 4, 6, 7):
        parted = np.zeros((count, count), bool)
        for mask in splits(count):
            assert 0 < mask.sum() < count
            parted |= mask[:, np.newaxis] & ~mask
        assert np.array_equal(parted, ~np.eye(count, dtype=bool))
