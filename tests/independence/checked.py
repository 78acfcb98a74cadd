"""The randomized check, run on a model, a loss or an augmentation."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.independence.examples import input_specs, integer_bound, synthetic_examples
from tfdpnorm.independence.randomized_check import randomized_check
from tfdpnorm.training.losses import PerExampleLoss

FEATURES, CLASSES, COUNT = 5, 3, 8


def specs_of(model):
    """The specs that a model takes; of [None, FEATURES] for one that Keras 3 keeps no specs of."""
    specs = input_specs(model)
    return tf.TensorSpec([None, FEATURES]) if specs is None else specs


def checked_model(model, count=COUNT, training=True):
    """The `Checked` of a model's outputs."""
    if not model.built:
        model.build((None, FEATURES))
    examples = synthetic_examples(specs_of(model), count, bound=integer_bound(model))
    return randomized_check(
        lambda x: model(x, training=training),
        examples,
        variables=lambda: model.trainable_variables,
        layers=(model,),
    )


def checked_loss(loss, width=CLASSES, labels=False, count=COUNT):
    """The `Checked` of a loss on predictions [count, width]."""
    predictions = synthetic_examples(tf.TensorSpec([None, width]), count)
    target = tf.TensorSpec([None], tf.int64) if labels else tf.TensorSpec([None, width])
    both = synthetic_examples(target, count, labels=True, seed=1).joined_with(predictions)
    return randomized_check(lambda pair: PerExampleLoss(loss)(*pair), both)


def checked_augmentation(augmentation, shape=(8, 8, 1), count=COUNT):
    """The `Checked` of an augmentation of [count, *shape]."""
    is_layer = isinstance(augmentation, keras.layers.Layer)
    function = (lambda x: augmentation(x, training=True)) if is_layer else augmentation
    examples = synthetic_examples(tf.TensorSpec([None, *shape]), count)
    return randomized_check(function, examples, layers=[augmentation] if is_layer else [])
