"""Keras' state during training: its loop, means of losses, optimizers, the state of a search.

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
- `_flat_losses` of Keras 3's `CompileLoss`, which say whose means its `metrics` are, in the order
  of the losses.
- `_trainable_variables` of an optimizer of Keras 3, those that it updates; `_optimizer_map` of one
  that hands them on to others.
- `_get_oracle_fname`, `_get_trial_dir`, `_save_trial` and `_retry_queue` of Keras Tuner's oracles.
"""

import contextlib
import json
import operator
import os
import types
from collections.abc import Mapping

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.variables import KERAS, KERAS_3, is_variable, raw

if KERAS_3:
    from keras.src.backend import compute_output_spec

# --- the loop of fit ---


class BeginsWithinEpoch(keras.Model):
    """A Keras model whose `fit` may begin in the middle of an epoch."""

    _first_step = None  # of the next `fit`, once that has been said

    def begin_within_epoch(self, step):
        """Lets the next `fit` begin after so many steps of its first epoch, 0 or more."""
        self._first_step = step

    def _maybe_load_initial_counters_from_ckpt(self, steps_per_epoch, initial_epoch):
        del steps_per_epoch
        step, self._first_step = self._first_step or 0, None
        return initial_epoch, step

    if KERAS_3:

        def compile(self, *args, jit_compile=False, **kwargs):
            """As in Keras 2: XLA compiles the step where it is told to, on a GPU, too."""
            jit_compile = bool(jit_compile) and jit_compile != "auto"
            super().compile(*args, jit_compile=jit_compile, **kwargs)
            self._steps_now = tf.Variable(self.steps_per_execution, dtype=tf.int64, trainable=False)

        def _maybe_symbolic_build(self, iterator=None, data_batch=None):
            """Where `fit` begins. In a strategy Keras would draw a batch here to see its shapes."""
            del data_batch
            if iterator is not None and self._first_step is not None and iterator.steps_per_epoch:
                first, self._first_step = self._first_step, None
                self._steps_now.assign(self.steps_per_execution)  # after a fit that ended within
                iterator.enumerate_epoch = _Executions(self, iterator, first)  # of Keras 3.5 to 3.7
                iterator._enumerate_iterator = iterator.enumerate_epoch

        def make_train_function(self, force=False):
            """One graph of as many steps as are asked for at each call, as in Keras 2."""
            if self.train_function is not None and not force:
                return self.train_function
            # An execution of the steps, from an iterator to logs.
            step = self.train_step
            if self.jit_compile and not self.run_eagerly:
                step = tf.function(step, jit_compile=True, autograph=False)

            def one(iterator):
                return step(next(iterator))

            def several(iterator):
                logs = one(iterator)

                def body(number, *_):
                    return [number + 1, *tf.nest.flatten(one(iterator))]

                first = [tf.constant(1, tf.int64), *tf.nest.flatten(logs)]
                last = tf.while_loop(lambda number, *_: number < self._steps_now, body, first)
                return tf.nest.pack_sequence_as(logs, last[1:])

            run = one if self.steps_per_execution == 1 else several
            if not self.run_eagerly:
                run = tf.function(run, autograph=False)
            self.train_function = run
            return run


class _Executions:
    """The executions of each epoch of a `fit` of Keras 3: (first step, last step, iterator).

    As in Keras 2, the first epoch may begin later, and the last execution of an epoch makes no more
    steps than are left of it. The iterator continues from epoch to epoch. Before Keras 3.11 there
    is no last step.
    """

    def __init__(self, model, epochs, first_step):
        self._model, self._epochs, self._first = model, epochs, first_step
        self._iterator = None

    def __call__(self):
        if self._iterator is None:
            self._iterator = iter(self._epochs._get_iterator())
        first, self._first = self._first, 0
        end, size = self._epochs.steps_per_epoch, self._epochs.steps_per_execution
        for step in range(first, end, size):
            count = min(size, end - step)
            self._model._steps_now.assign(count)
            steps = (step, step + count - 1) if KERAS >= (3, 11) else (step,)
            yield *steps, self._iterator


def repeatable(iterator):
    """The one batch of `train_on_batch` of Keras 3, a generator, as an iterator of tf.data.

    Each trace of a graph would take the generator's only batch.
    """
    if not isinstance(iterator, types.GeneratorType):
        return iterator
    return iter(tf.data.Dataset.from_tensors(next(iterator)))


def is_validation_of_fit(arguments):
    """Whether arguments of `evaluate` are those with which `fit` calls it for its own data."""
    return bool(arguments.get("_use_cached_eval_dataset"))


def steps_per_execution(model):
    """Returns how many steps one call of the compiled model's training function runs."""
    if not KERAS_3:
        return int(getattr(model, "_steps_per_execution", None) or 1)
    now = getattr(model, "_steps_now", None)
    return int(model.steps_per_execution if now is None else now)


@contextlib.contextmanager
def exchanged_steps_per_execution(model, count):
    """Context in which the training function of a compiled model runs `count` steps a call.

    Another number than `steps_per_execution(model)` needs a model compiled with more than one.
    """
    asked = steps_per_execution(model)
    if count == asked:
        yield
        return
    steps = model._steps_now if KERAS_3 else model._steps_per_execution
    steps.assign(count)
    try:
        yield
    finally:
        steps.assign(asked)


def make_metric_variables(model, predictions, targets):
    """Makes the variables of a compiled model's metrics, unless they are made.

    Made within the first trace of the training step, they would have it traced a second time.
    `predictions` are symbolic, `targets` `tf.TensorSpec`s, each one or a structure. With Keras 2,
    for several outputs or targets this does nothing: only Keras knows how it matches them.
    """
    if KERAS_3:
        _make_metrics_of_specs(model, targets, predictions)
        return
    several = tf.nest.is_nested(predictions) or tf.nest.is_nested(targets)
    if not (several or model.compiled_metrics.built):
        model.compiled_metrics.build(predictions, targets)


def _make_metrics_of_specs(model, targets, predictions):
    """As Keras 3 makes them in a strategy, but without a batch of examples."""
    specs = tf.nest.map_structure(
        lambda t: keras.KerasTensor(tuple(t.shape), getattr(t.dtype, "name", t.dtype)),
        (targets, predictions),
    )
    metrics, loss = model._compile_metrics, model._compile_loss
    for compiled, update in ((metrics, getattr(metrics, "update_state", None)), (loss, loss)):
        if compiled is not None and not compiled.built:
            # Losses by name for some outputs only, in a list of outputs, Keras 3 does not match.
            with contextlib.suppress(ValueError):
                compute_output_spec(update, *specs)


# --- means of losses ---


def loss_means(model, targets, predictions):
    """Returns the mean of a compiled model's loss, and those of each output if there are several.

    These are a list of `keras.metrics.Mean`s, for the outputs that have a loss, in the order in
    which `tf.nest` flattens them; empty for a single output.
    """
    if KERAS_3:
        _make_metrics_of_specs(model, targets, predictions)
        # From Keras 3.7 on they are in the order in which a dict of losses was written.
        losses = model._compile_loss
        if not hasattr(losses, "_flat_losses"):
            return model._loss_tracker, list(losses.metrics)
        each = zip([loss.path for loss in losses._flat_losses or ()], losses.metrics, strict=False)
        return model._loss_tracker, [mean for _, mean in sorted(each, key=operator.itemgetter(0))]
    if not model.compiled_loss.built:
        model.compiled_loss.build(predictions)
    total, *each = model.compiled_loss.metrics
    return total, each


def shown_loss(model, y, predictions, sample_weight):
    """Updates the means of the losses just as `evaluate` of Keras; with regularisers."""
    if KERAS_3:
        loss = model._compute_loss(
            y=y, y_pred=predictions, sample_weight=sample_weight, training=False
        )
        rows = tf.shape(tf.nest.flatten(y)[0])[0]
        model._loss_tracker.update_state(loss, sample_weight=tf.cast(rows, tf.float32))
        return
    model.compiled_loss(y, predictions, sample_weight, regularization_losses=model.losses)


def update_compiled_metrics(model, y, predictions, sample_weight):
    """Updates the metrics of `compile`; as `compute_metrics` of Keras."""
    if KERAS_3:
        if model._compile_metrics is not None:
            model._compile_metrics.update_state(y, predictions, sample_weight)
        return
    model.compiled_metrics.update_state(y, predictions, sample_weight)


def apply_gradients(optimizer, gradients, variables):
    """Makes a step of an optimizer; `gradients` has None for variables that are left."""
    pairs = [
        (None if g is None else tf.cast(g, v.dtype), v)
        for g, v in zip(gradients, variables, strict=True)
    ]
    if KERAS_3:
        pairs = [pair for pair in pairs if pair[0] is not None]
    optimizer.apply_gradients(pairs)


# --- optimizers ---

_OPTIMIZERS = (keras.optimizers.Optimizer,)
if not KERAS_3:
    _OPTIMIZERS += (keras.optimizers.legacy.Optimizer,)


def make_optimizer_variables(optimizer, variables):
    """Makes what an optimizer keeps of each of all variables that it will update, if it has not.

    Keras would do so within the first trace of the training step. TensorFlow traces a function
    again that made variables, and the step takes longer to trace than any other.
    """
    if KERAS_3:
        if not optimizer.built:
            optimizer.build(variables)
        return
    # In scopes of the names that Keras gives.
    if hasattr(optimizer, "build"):
        with tf.name_scope(optimizer.name):
            optimizer.build(variables)
    else:
        with tf.name_scope(optimizer._name):
            optimizer._create_all_weights(variables)


def optimizer_variables(optimizer):
    """Returns the list of all variables that an optimizer keeps, without those of `rate_variables`.

    They have to be made. First those that it lists, by a method of legacy optimizers, of the others
    by a list that can also be called. Then those that it lists nowhere, such as Nadam's
    `_u_product`, by the names of the attributes that they are found in: of the optimizer, and of
    the optimizers that it holds.
    """
    listed = optimizer.variables if KERAS_3 else optimizer.variables()
    others = {id(v) for v in rate_variables(optimizer)}
    if KERAS_3:  # which has the optimizer hold what it updates
        others |= {id(v) for v in raw(list(optimizer._trainable_variables))}
    found = {}
    held = [value for value in _held(optimizer) if is_variable(value)]
    for variable in raw([*listed, *held]):
        if id(variable) not in others:
            found.setdefault(id(variable), variable)
    return list(found.values())


def rate_variables(optimizer):
    """Returns the list of variables that hold the learning rate and other settings, in fixed order.

    Those of optimizers that it holds, too. Keras 2 keeps them apart from the optimizer's variables,
    Keras 3 among them. Empty where a schedule gives the rate.
    """
    found = []
    for each in with_held_optimizers(optimizer):
        rates = getattr(each, "_hyper", {"": getattr(each, "_learning_rate", None)})
        found += [rates[name] for name in sorted(rates) if is_variable(rates[name])]
    return raw(found)


def next_learning_rate(optimizer):
    """Returns the learning rate of the update that comes next, a float.

    That of a schedule is a function of the number of updates made. The public `learning_rate` gives
    the one of the update before.
    """
    if hasattr(optimizer, "_decayed_lr"):
        return float(optimizer._decayed_lr(tf.float32))
    rate = optimizer._learning_rate
    if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
        rate = rate(optimizer.iterations)
    return float(rate)


def has_schedule(optimizer):
    """Whether a schedule gives the rate of an optimizer, or of one that it holds.

    Keras 3 refuses to set such a rate; Keras 2 sets one that the next update does not use.
    """
    for each in with_held_optimizers(optimizer):
        rates = getattr(each, "_hyper", {"learning_rate": getattr(each, "_learning_rate", None)})
        if isinstance(rates["learning_rate"], keras.optimizers.schedules.LearningRateSchedule):
            return True
    return False


def scales_losses(optimizer):
    """Whether an optimizer is Keras' LossScaleOptimizer, whose scale follows the gradients."""
    where = keras.optimizers if KERAS_3 else keras.mixed_precision
    return isinstance(optimizer, where.LossScaleOptimizer)


def with_held_optimizers(optimizer):
    """Returns a list: an optimizer, and those that it holds, as Keras 3's MultiOptimizer does."""
    held = [value for value in _held(vars(optimizer)) if isinstance(value, _OPTIMIZERS)]
    return [optimizer, *held]


def asks_for_direction(callback):
    """Whether later Keras 3 looks for the direction of what a callback monitors, after an epoch."""
    return hasattr(callback, "_set_monitor_op") and callback.mode == "auto"


def steps_of(optimizer):
    """The most steps that an optimizer (or None) has made, or one that it holds."""
    held = [] if optimizer is None else with_held_optimizers(optimizer)
    return max((int(each.iterations) for each in held), default=0)


def chooses_by_a_function(optimizer):
    """Whether a MultiOptimizer asks a function for its optimizers, and has none before training."""
    by_map = getattr(keras.optimizers, "MultiOptimizer", ())  # of late Keras 3
    return isinstance(optimizer, by_map) and not isinstance(optimizer._optimizer_map, Mapping)


def is_of_tensorflow_privacy(optimizer):
    """Whether an optimizer is one of tensorflow-privacy's, which clip and noise by themselves."""
    return hasattr(optimizer, "_was_dp_gradients_called")


def _held(value, seen=None):
    """Yields variables, optimizers and schedules: a value, and what these, lists and dicts hold."""
    seen = set() if seen is None else seen
    if is_variable(value):
        yield value
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, (*_OPTIMIZERS, keras.optimizers.schedules.LearningRateSchedule)):
        yield value
        value = vars(value)
    if isinstance(value, Mapping):
        value = [value[name] for name in sorted(value, key=str)]
    if isinstance(value, list | tuple | set):
        for each in value:
            yield from _held(each, seen)


# --- the state of Keras Tuner ---


def keep_whole(oracle, write):
    """Lets an oracle write its files whole or not at all, by `write(path, text)`.

    Keras Tuner empties a file before it fills it: killed in between, it cannot be resumed.
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
