"""What Keras keeps while it trains: its loop, means of losses, optimizers, the state of a search.

Private parts of Keras 2:

- `_steps_per_execution`, a variable that the compiled training function reads (or None), and
  `compiled_metrics` and `compiled_loss`, whose `build` makes the variables of the metrics and the
  means of several outputs. Publicly these are set once, by `compile`, and metrics make their
  variables within the first step.
- `_maybe_load_initial_counters_from_ckpt`, which says where `fit` begins: publicly at the first
  step of an epoch. And the argument `_use_cached_eval_dataset`, with which `fit` calls `evaluate`.
- `_name`, `_create_all_weights`, `_decayed_lr` and `_hyper` of legacy optimizers, `_learning_rate`
  of the others, and every other attribute that holds a variable. Publicly a learning rate can be
  read and set, but its variable cannot be saved, the rate of a schedule is that of the update
  before, and Nadam's `_u_product` is not seen at all.
- tensorflow-privacy marks its optimizers by `_was_dp_gradients_called` alone: it makes a class for
  each.
- `_get_oracle_fname`, `_get_trial_dir`, `_save_trial` and `_retry_queue` of Keras Tuner's oracles.
"""

import contextlib
import json
import os
from collections.abc import Mapping

import tensorflow as tf
from tensorflow import keras

# --- the loop of fit ---


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


# --- means of losses ---


def loss_means(model, predictions):
    """Returns the mean of a compiled model's loss, and those of each output if there are several.

    Args:
        model: A compiled `keras.Model`.
        predictions: Structure of its outputs.

    Returns:
        A `keras.metrics.Mean` and a list of them, for the outputs that have a loss; empty for a
        single output.
    """
    if not model.compiled_loss.built:
        model.compiled_loss.build(predictions)
    total, *each = model.compiled_loss.metrics
    return total, each


def shown_loss(model, y, predictions, sample_weight):
    """Updates the means of the losses just as `evaluate` of Keras; with regularisers."""
    model.compiled_loss(y, predictions, sample_weight, regularization_losses=model.losses)


# --- optimizers ---


def make_optimizer_variables(optimizer, variables):
    """Makes what an optimizer keeps of each variable, unless it has been made.

    Keras would do so within the first trace of the training step. TensorFlow traces a function
    again that made variables, and the step takes longer to trace than any other.

    Args:
        optimizer: A Keras optimizer, a legacy one included.
        variables: All that it will update.
    """
    # In scopes of the names that Keras gives.
    if hasattr(optimizer, "build"):
        with tf.name_scope(optimizer.name):
            optimizer.build(variables)
    else:
        with tf.name_scope(optimizer._name):
            optimizer._create_all_weights(variables)


def optimizer_variables(optimizer):
    """Returns the list of all variables that an optimizer keeps, without those of `rate_variables`.

    First those that it lists, by a method of legacy optimizers, of the others by a list that can
    also be called. Then those that it lists nowhere, such as Nadam's `_u_product`, by the names of
    the attributes that they are found in: of the optimizer, and of the optimizers that it holds.

    Args:
        optimizer: A Keras optimizer whose variables are made.
    """
    found = {v.ref(): v for v in optimizer.variables()}
    rates = {v.ref() for v in rate_variables(optimizer)}
    for variable in _held_variables(optimizer):
        if variable.ref() not in rates:
            found.setdefault(variable.ref(), variable)
    return list(found.values())


def rate_variables(optimizer):
    """Returns the list of variables that hold the learning rate and other settings, in fixed order.

    Keras 2 keeps them apart from the optimizer's variables. Empty where a schedule gives the rate.
    """
    rates = getattr(optimizer, "_hyper", {"": getattr(optimizer, "_learning_rate", None)})
    return [rates[name] for name in sorted(rates) if isinstance(rates[name], tf.Variable)]


def next_learning_rate(optimizer):
    """Returns the learning rate of the update that comes next, a float.

    That of a schedule is a function of the number of updates made. The public `learning_rate` gives
    the one of the update before.

    Args:
        optimizer: A Keras optimizer, a legacy one included.
    """
    if hasattr(optimizer, "_decayed_lr"):
        return float(optimizer._decayed_lr(tf.float32))
    rate = optimizer._learning_rate
    if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
        rate = rate(optimizer.iterations)
    return float(rate)


def scales_losses(optimizer):
    """Whether an optimizer is Keras' LossScaleOptimizer, whose scale follows the gradients."""
    return isinstance(optimizer, keras.mixed_precision.LossScaleOptimizer)


def is_of_tensorflow_privacy(optimizer):
    """Whether an optimizer is one of tensorflow-privacy's, which clip and noise by themselves."""
    return hasattr(optimizer, "_was_dp_gradients_called")


def _held_variables(value, seen=None):
    """Yields the variables in a value, and in what optimizers, lists and dicts it holds."""
    seen = set() if seen is None else seen
    if isinstance(value, tf.Variable):
        yield value
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if _has_attributes_of_interest(value):
        value = vars(value)
    if isinstance(value, Mapping):
        value = [value[name] for name in sorted(value, key=str)]
    if isinstance(value, list | tuple | set):
        for each in value:
            yield from _held_variables(each, seen)


def _has_attributes_of_interest(value):
    kinds = (
        keras.optimizers.Optimizer,
        keras.optimizers.legacy.Optimizer,
        keras.optimizers.schedules.LearningRateSchedule,
    )
    return isinstance(value, kinds)


# --- the state of Keras Tuner ---


def keep_whole(oracle, write):
    """Lets an oracle write its files whole or not at all.

    Keras Tuner empties a file before it fills it: killed in between, it cannot be resumed.

    Args:
        oracle: `keras_tuner.Oracle`.
        write: Function of a path and a text that writes a file whole or not at all.
    """

    def save():
        write(oracle._get_oracle_fname(), json.dumps(oracle.get_state()))

    def save_trial(trial):
        folder = oracle._get_trial_dir(trial.trial_id)
        write(os.path.join(folder, "trial.json"), json.dumps(trial.get_state()))

    oracle.save, oracle._save_trial = save, save_trial


def run_again_what_began(oracle):
    """Hands out again, after a reload, trials that began and are not in the oracle's state.

    A trial is in a file before the state of the oracle names it. Killed in between, Keras Tuner
    counts it and never runs it.
    """
    for name, trial in oracle.trials.items():
        if trial.status == "RUNNING" and name not in oracle._retry_queue:
            oracle._retry_queue.append(name)
