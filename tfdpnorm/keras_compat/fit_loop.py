"""What the training loop of `keras.Model` keeps to itself.

Private parts of Keras 2: `_steps_per_execution`, a variable that the compiled training function
reads (or None), and `compiled_metrics`, whose `build` makes the variables of the metrics. Publicly
both are set once, by `compile`, and metrics make their variables within the first step. And
`_maybe_load_initial_counters_from_ckpt`, which says where `fit` begins: publicly at the first step
of an epoch. And the argument `_use_cached_eval_dataset`, with which `fit` calls `evaluate`.
"""

import contextlib

import tensorflow as tf
from tensorflow import keras


class BeginsWithinEpoch(keras.Model):
    """A Keras model whose `fit` may begin in the middle of an epoch."""

    _first_step = 0

    def begin_within_epoch(self, step):
        """Lets the next `fit` begin after so many steps of its first epoch."""
        self._first_step = step

    def _maybe_load_initial_counters_from_ckpt(self, steps_per_epoch, initial_epoch):
        del steps_per_epoch
        step, self._first_step = self._first_step, 0
        return initial_epoch, step


def is_validation_of_fit(arguments):
    """Whether arguments of `evaluate` are those with which `fit` calls it for its own data."""
    return bool(arguments.get("_use_cached_eval_dataset"))


def steps_per_execution(model):
    """Returns how many steps one call of the compiled model's training function runs."""
    return int(getattr(model, "_steps_per_execution", None) or 1)


@contextlib.contextmanager
def exchanged_steps_per_execution(model, count):
    """Context in which the training function of a compiled model runs `count` steps a call.

    Args:
        model: A compiled `keras.Model`.
        count: Whole number >= 1; other than `steps_per_execution(model)` only where the model was
            compiled with more than one.
    """
    asked = steps_per_execution(model)
    if count != asked:
        model._steps_per_execution.assign(count)
    try:
        yield
    finally:
        if count != asked:
            model._steps_per_execution.assign(asked)


def make_metric_variables(model, predictions, targets):
    """Makes the variables of a compiled model's metrics, unless they are made.

    Made within the first trace of the training step, they would have it traced a second time.

    Args:
        model: A compiled `keras.Model`.
        predictions: Its output, a symbolic tensor. For a structure of several outputs or targets
            this does nothing: only Keras knows how it matches them.
        targets: `tf.TensorSpec` of the targets, or a structure of them.
    """
    several = tf.nest.is_nested(predictions) or tf.nest.is_nested(targets)
    if not (several or model.compiled_metrics.built):
        model.compiled_metrics.build(predictions, targets)
