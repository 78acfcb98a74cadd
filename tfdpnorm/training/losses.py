"""A Keras loss as one value per example."""

import functools
import warnings

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import files
from tfdpnorm.dtypes import widened
from tfdpnorm.errors import PrivacyError
from tfdpnorm.keras_compat.graphs import as_written, cause_of, converted, users_code_converted
from tfdpnorm.keras_compat.layers import keras_mask

_ROW_BY_ROW = (
    "compute each row's value from its own target and prediction, without products, softmax, means "
    "or sums over axis 0."
)
_MIXES_ROWS = f"The loss itself mixes rows, like a loss over pairs of examples: {_ROW_BY_ROW}"
_MIXES_OR_BROADCASTS = (
    f"If the loss itself mixes rows, as loss / mean(loss) does: {_ROW_BY_ROW} If it does not: give "
    "targets the shape of the model's outputs."
)


class PerExampleLoss:
    """Evaluates a Keras loss without reducing it over the batch.

    The loss of an example is the mean over its steps (words, pixels). Masks of Keras on the
    predictions, and `ignore_class`, leave steps out, as in Keras: it is then the mean over the
    example's *own* valid steps. Keras divides by the mean number of valid steps of the batch, which
    depends on all examples; both are equal where examples have as many valid steps, and otherwise
    a weight of each example, its number of valid steps by a public number, makes them so. An
    example without a valid step has loss 0. The first mask that is met is warned of.

    Args:
        loss: A loss name, function or `keras.losses.Loss`, or a list or dict of them like the
            model's outputs. An output whose loss is None, or that a dict leaves out, takes no part.
        loss_weights: None, or numbers in the same structure as `loss`.
        output_names: Names of the model's outputs, in their order, by which dicts are matched with
            outputs that come as a list.
    """

    def __init__(self, loss, loss_weights=None, output_names=None):
        if loss is None:
            raise ValueError("Expected a loss, got None. Pass loss=... to compile().")
        self._loss = loss
        self._weights = loss_weights
        self._output_names = output_names
        self._apart = set()  # Shapes that rows were found to be apart for.
        self._told = False
        # Unknown names fail here, not in the first step.
        known = [_function(each) for each in tf.nest.flatten(loss) if each is not None]
        if not known:
            raise ValueError("Expected a loss for at least one output, got None for all of them.")

    @users_code_converted
    def __call__(self, y, predictions, sample_weight=None):
        """Returns the loss of each row, [rows], float32 or wider.

        Targets and predictions are structures of [rows, ...]; weights are [rows], or [rows, ...]
        for each step of the losses. Raises ValueError if a loss does not give (at least) one value
        per row, or not one for each weight of a step.
        """
        return self.with_outputs(y, predictions, sample_weight)[0]

    @users_code_converted
    def with_outputs(self, y, predictions, sample_weight=None):
        """Returns the loss of each row, [rows], and a list of it by outputs that have a loss.

        Arguments and errors as in `__call__`. The parts are not multiplied by the weights of the
        losses. Weights of steps multiply a step's loss, and change nothing of the number that the
        mean is divided by; as in Keras.
        """
        names = sorted(predictions) if isinstance(predictions, dict) else self._output_names
        outputs = tf.nest.flatten(predictions)
        losses = self.of_outputs(len(outputs), names)
        if isinstance(y, dict) and isinstance(self._loss, dict):
            y = [y[n] for n in names if n in y and self._loss.get(n) is not None]
        targets = _by_output(y, names)
        if len(targets) < len(outputs) == len(losses):
            # As Keras does, targets may be left out of outputs without a loss.
            given = iter(targets)
            targets = [None if loss is None else next(given, None) for loss in losses]
        if not len(losses) == len(targets) == len(outputs):
            raise ValueError(
                "Expected as many losses as targets and outputs, got "
                f"{len(losses)}, {len(targets)} and {len(outputs)}."
            )
        weights = _by_output(self._weights, names, 1.0) if self._weights else [1.0] * len(losses)
        each = [
            (weight, self._values(loss, target, output, sample_weight))
            for weight, loss, target, output in zip(weights, losses, targets, outputs, strict=True)
            if loss is not None
        ]
        total = tf.add_n([tf.cast(w, v.dtype) * v for w, v in each])
        return total, [values for _, values in each]

    def of_outputs(self, count, names):
        """Returns a list of the losses of `count` outputs `names`, None for those without one."""
        if not isinstance(self._loss, (list, tuple, dict)):
            return [self._loss] * count
        return _by_output(self._loss, names, None)

    def _values(self, loss, y, predictions, sample_weight):
        given = predictions
        y, predictions = matched(y, predictions)
        key = (id(loss), tuple(y.shape[1:]), tuple(predictions.shape[1:]), y.dtype)
        if key not in self._apart:
            _check_rows_apart(loss, y, predictions)
            self._apart.add(key)
        loss, y, valid = _without_ignored(loss, y, predictions)
        values = _values(loss, y, predictions)
        masks = [keras_mask(t) for t in (given, values)]
        masks = [tf.cast(each, tf.bool) for each in masks if each is not None]
        masks += [] if valid is None else [valid]
        mask = functools.reduce(tf.logical_and, masks) if masks else None
        if mask is not None and not self._told:
            self._told = True
            _warn_of_meaning()
        return widened(example_means(values, mask, sample_weight))


def _without_ignored(loss, y, predictions):
    """Keras' own loss with an `ignore_class` as one without it, its targets, and which are valid.

    Keras gathers the valid steps of all rows in one list, in which rows can no longer be told
    apart. Any other loss is returned as given, with None.
    """
    loss = keras.losses.get(loss)
    if type(loss) is not keras.losses.SparseCategoricalCrossentropy:
        return loss, y, None
    settings = loss.get_config()
    ignored = settings["ignore_class"]
    if ignored is None:
        return loss, y, None
    if y.shape.rank == predictions.shape.rank:
        y = tf.squeeze(y, -1)
    valid = tf.not_equal(y, tf.cast(ignored, y.dtype))
    every = type(loss)(from_logits=settings["from_logits"])
    return every, tf.where(valid, y, tf.zeros_like(y)), valid


def _by_output(structure, names, *missing):
    """Returns the parts of a structure in the order of the model's outputs `names`, a list.

    A dict may leave outputs out if there is a value for what is `missing`, as Keras reads it.
    """
    if not isinstance(structure, dict):
        return tf.nest.flatten(structure)
    known = set(names or ())
    if not known or not (set(structure) <= known if missing else set(structure) == known):
        raise ValueError(
            "Expected losses, loss weights and targets in a dict to have the names of the model's "
            f"outputs, {names and list(names)}, got {sorted(structure)}. Rename the keys, or pass "
            "lists in the order of the outputs."
        )
    return [structure.get(name, *missing) for name in names]


def _function(loss):
    """The unreduced function `(y, predictions) -> values` of a loss."""
    loss = keras.losses.get(loss)
    # `call` is the unreduced part of a Loss; reduction happens in its `__call__`.
    return converted(loss.call if isinstance(loss, keras.losses.Loss) else loss)


def _check_rows_apart(loss, y, predictions):
    """Rejects a loss that broadcasts targets across rows.

    Targets [rows] with predictions [rows, outputs] are an error of TensorFlow's, except for as many
    outputs as rows: then each row's loss would be taken against all rows' targets. It is tried with
    another number of rows, on random numbers.
    """
    sizes = {*y.shape[1:], *predictions.shape[1:]}
    rows = next(n for n in range(2, len(sizes) + 4) if n not in sizes)
    given = f"targets of shape {['rows', *y.shape[1:]]} and predictions of shape "
    given += f"{['rows', *predictions.shape[1:]]}"
    alike = y.shape[1:].as_list() == predictions.shape[1:].as_list()
    shapes = [[rows, *(3 if n is None else n for n in t.shape[1:])] for t in (y, predictions)]
    rng = np.random.default_rng(0)
    both = [rng.random(shape).astype(np.float32) for shape in shapes]
    changed = [np.concatenate([t[:1], rng.random(t[1:].shape).astype(np.float32)]) for t in both]
    function = _function(loss)
    try:
        with tf.init_scope():
            tried = [
                tf.convert_to_tensor(function(*map(tf.constant, pair))).numpy()
                for pair in (both, changed, both)
            ]
    except (ValueError, TypeError, tf.errors.OpError) as error:
        if alike or not isinstance(error, ValueError) and "ncompatible shapes" not in str(error):
            return  # It wants other numbers than random ones.
        raise ValueError(
            f"The loss {_name(loss)!r} fails for {given}: {files.reason(cause_of(error))}. "
            "If they should be alike, give targets the shape of the model's outputs."
        ) from error
    if tried[0].shape[:1] != (rows,):
        return  # Refused where its value is used.
    first, other, again = (values[0] for values in tried)
    if np.allclose(first, again, equal_nan=True) and not np.allclose(first, other, equal_nan=True):
        raise PrivacyError(
            f"The loss compares examples with each other, for {given}. "
            f"{_MIXES_ROWS if alike else _MIXES_OR_BROADCASTS}"
        )


def matched(y, predictions):
    """Targets and predictions in shapes that the losses of Keras compare row by row."""
    if predictions.dtype in (tf.float16, tf.bfloat16):
        predictions = tf.cast(predictions, tf.float32)
    y = tf.convert_to_tensor(y)
    # Without this [rows] against [rows, 1] broadcasts to [rows, rows]: every row with every other.
    if predictions.shape.rank == 1:
        predictions = predictions[:, tf.newaxis]
    if y.shape.rank == predictions.shape.rank - 1 and predictions.shape[-1] == 1:
        y = y[..., tf.newaxis]
    elif y.shape.rank == predictions.shape.rank + 1 and y.shape[-1] == 1:
        y = tf.squeeze(y, -1)
    return y, predictions


def _name(loss):
    return getattr(loss, "name", None) or getattr(loss, "__name__", None) or type(loss).__name__


def _values(loss, y, predictions):
    values = tf.convert_to_tensor(_function(loss)(y, predictions))
    if values.shape.rank == 0 or not values.shape[:1].is_compatible_with(predictions.shape[:1]):
        remedy = "Remove the reduction, such as tf.reduce_mean without an axis."
        if hasattr(loss, "axis"):  # Keras 3: Dice and Tversky
            axes = tuple(range(1, predictions.shape.rank))
            remedy = f"Write {type(loss).__name__}(axis={axes})."
        raise PrivacyError(
            f"The loss {_name(loss)!r} gives shape {tuple(values.shape)} for predictions of shape "
            f"{tuple(predictions.shape)}, and not one value per example, [rows]: its gradient "
            f"cannot be clipped per example. {remedy}"
        )
    return values


MEANING = (
    "Outputs carry a Keras mask, or the loss an ignore_class. Each example's loss is the mean over "
    "its own valid steps; Keras divides by the valid steps of the whole batch, a private number. "
    "Both are the same where all examples have as many valid steps. To weigh all steps alike, as "
    "Keras does, pass sample_weight = valid steps of each example / a public number of steps."
)


def example_means(values, mask, weights=None):
    """Returns the mean of each row's values [rows, ...], [rows]; 0 without a valid step.

    `mask` and `weights` are None, or [rows, ...] with as many axes as `values` or the first of
    them (else ValueError). Steps where the mask is 0 are left out; weights multiply the values,
    and the mean is not divided by them.
    """
    if weights is not None:
        weights = _of_first_axes("weights", tf.cast(weights, values.dtype), values)
        missing = [1] * (values.shape.rank - weights.shape.rank)
        values *= tf.reshape(weights, tf.concat([tf.shape(weights), missing], 0))
    if mask is None:
        return _mean_from(values, 1)
    mask = _of_first_axes("a mask", mask, values)
    rank = mask.shape.rank
    values, valid = _mean_from(values, rank), tf.cast(mask, tf.bool)
    # Chosen, not multiplied by 0: what is left out may be infinite, and so may its gradient.
    values = tf.where(valid, values, tf.zeros_like(values))
    steps = list(range(1, rank))
    if not steps:
        return values
    count = tf.reduce_sum(tf.cast(valid, values.dtype), axis=steps)
    return tf.math.divide_no_nan(tf.reduce_sum(values, axis=steps), count)


def _of_first_axes(name, t, values):
    """A mask or weights, without last axes of one entry that `values` does not have."""
    while t.shape.rank > values.shape.rank and t.shape[-1] == 1:
        t = tf.squeeze(t, -1)
    rank = t.shape.rank
    if rank > values.shape.rank or not t.shape.is_compatible_with(values.shape[:rank]):
        raise ValueError(
            f"Expected {name} with the first axes of the loss, {tuple(values.shape)}, got shape "
            f"{tuple(t.shape)}. Compute the loss with one value for each step that has one."
        )
    return t


@as_written
def _warn_of_meaning():
    """Says once for each place that asks what a mask means here, and where Keras differs."""
    warnings.warn(MEANING, stacklevel=2)


def _mean_from(values, axis):
    if values.shape.rank == axis:
        return values
    return tf.reduce_mean(values, axis=list(range(axis, values.shape.rank)))
