"""Losses and metrics of the examples in a step, without noise."""

import warnings
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.errors import PrivacyWarning
from tfdpnorm.keras_compat.layers import keras_mask, with_keras_mask
from tfdpnorm.keras_compat.training import loss_means, update_compiled_metrics


class Shown(NamedTuple):
    """The inputs of losses and metrics, for each row.

    For persons, the shapes are [persons, R, ...] until they are shown.

    Attributes:
        predictions: Structure of [rows, ...].
        masks: Dict of Keras masks [rows, ...], float32, by the number of the output that has one.
        losses: List of the losses [rows] of each output that has one.
    """

    predictions: Any
    masks: dict
    losses: list

    @classmethod
    def of(cls, predictions, losses):
        """As a step finds them, the masks on the predictions."""
        masks = [keras_mask(t) for t in tf.nest.flatten(predictions)]
        masks = {n: tf.cast(m, tf.float32) for n, m in enumerate(masks) if m is not None}
        return cls(predictions, masks, list(losses))

    def masked_predictions(self):
        """The predictions, carrying their masks."""
        flat = [
            with_keras_mask(t, self.masks[n]) if n in self.masks else t
            for n, t in enumerate(tf.nest.flatten(self.predictions))
        ]
        return tf.nest.pack_sequence_as(self.predictions, flat)


def show_update(private, lot, outputs):
    """Updates the losses and metrics with a `Lot` [K, P, ...] and the `Outputs` of its update.

    Rows of padding are dropped: multiplied by 0, what a model makes of rows of zeros could still
    be NaN. XLA knows no tensors of unknown size: with jit_compile they are replaced by a row of an
    example, and weighed by 0. Metrics are of rows; losses are means over examples, and so over
    persons where these are the examples.
    """
    mask, weight = _joined(lot.mask), _joined(lot.sample_weight)
    is_real, count = mask > 0, tf.reduce_sum(mask)
    shown, losses = outputs.predictions, outputs.losses

    def mean(losses, is_real=is_real):
        """Over the examples; `losses` are weighted."""
        present = tf.where(is_real, losses, tf.zeros_like(losses))
        return tf.math.divide_no_nan(tf.reduce_sum(present), tf.cast(count, losses.dtype))

    means = [mean(_of_examples(losses, weight)) for losses in shown.losses]
    y = tf.nest.map_structure(_joined, lot.y)
    if private.plan.drawn_per_person is not None:
        y, shown, weight = tf.nest.map_structure(_joined, (y, shown, weight))
        mask = tf.repeat(mask, private.plan.drawn_per_person) * _has_weight(weight)
        is_real = mask > 0
    of_all, of_outputs = loss_means(private, y, shown.predictions)
    of_all.update_state(mean(losses) + tf.cast(outputs.penalty, losses.dtype), count)
    for metric, of_output in zip(of_outputs, means, strict=False):
        metric.update_state(of_output, count)

    if private.jit_compile:
        rows = tf.where(is_real, tf.range(tf.size(mask)), tf.argmax(mask, output_type=tf.int32))
        y, shown, weight = tf.nest.map_structure(lambda t: tf.gather(t, rows), (y, shown, weight))
        # Keras wants masks and weights of as many axes.
        of_weights = tf.ones_like(weight) * tf.reshape(mask, [-1] + [1] * (weight.shape.rank - 1))
        predictions = tf.nest.map_structure(
            lambda t: with_keras_mask(t, _both(keras_mask(t), of_weights)),
            shown.masked_predictions(),
        )
        update_compiled_metrics(private, y, predictions, weight)
        return

    def update():
        rows = tf.where(is_real)[:, 0]  # once, where `tf.boolean_mask` would look for each tensor
        parts = tf.nest.map_structure(lambda t: tf.gather(t, rows), (y, shown, weight))
        update_compiled_metrics(private, parts[0], parts[1].masked_predictions(), parts[2])
        return tf.constant(True)

    # An empty batch has no metrics: a function that returns a mean would return NaN.
    tf.cond(count > 0, update, lambda: tf.constant(False))


def _of_examples(losses, weight):
    """The weighted loss of each example: of [examples], or of [persons, R]."""
    if weight.shape.rank == losses.shape.rank:  # those of steps are in the losses
        losses *= tf.cast(weight, losses.dtype)
    return losses if losses.shape.rank == 1 else tf.reduce_mean(losses, axis=1)


def _has_weight(weight):
    """1 for rows with a weight other than 0, and 0 for those that repeat another."""
    return tf.cast(tf.reduce_any(weight != 0, list(range(1, weight.shape.rank))), tf.float32)


def _both(mask, rows):
    """A mask [rows, ...] and one of rows, [rows] or [rows, ...], as one."""
    if mask is None:
        return rows
    missing = [1] * (mask.shape.rank - rows.shape.rank)
    return mask * tf.reshape(rows, tf.concat([tf.shape(rows), missing], 0))


def _joined(t):
    """[K, P, ...] to [K * P, ...]."""
    return tf.reshape(t, tf.concat([[-1], tf.shape(t)[2:]], 0))


class Latest(keras.metrics.Metric):
    """Shows a number that is set from outside, such as the epsilon spent so far."""

    def __init__(self, name):
        super().__init__(name=name, dtype="float32")
        self.latest = self.add_weight(name="latest", initializer="zeros")

    def show(self, number):
        """Sets the number, rounded up where float32 has to round."""
        rounded = np.float32(number)
        self.latest.assign(
            rounded if rounded >= number else np.nextafter(rounded, np.float32("inf"))
        )

    def update_state(self, *args, **kwargs):
        """Does nothing: the number is assigned."""

    def reset_state(self):
        """Does nothing: the count continues through epochs."""

    def result(self):
        return self.latest + 0.0


_CAUSES = """
- NaN or infinity in inputs, targets and weights, and labels that the loss does not know.
- A log, square root, norm or division in your loss or layers. Its derivative is infinite or NaN \
at 0, also where tf.where leaves it out. Add a small constant inside, as in tf.sqrt(x + 1e-6).
- Inputs and targets of large scale. Scale them to about [-1, 1]."""
_OF_FLOAT16 = """
- The range of float16. Use Clipping(loss_scale=...) below {:g}, or mixed_bfloat16."""
_FIRST_UPDATES = 3
_MANY = 0.25


class WarnsOfNonfinite(keras.callbacks.Callback):
    """Warns if many gradients of the first updates of `fit` are not finite.

    They count as zero: the budget would be spent on noise, in silence. The warning depends on
    private data, as the metric that `fit` shows anyway, and changes nothing that is released.
    """

    def __init__(self, private):
        super().__init__()
        self._private, self._has_looked = private, False

    def on_epoch_begin(self, epoch, logs=None):
        self._before = self._private.ledger.updates

    def on_train_batch_end(self, batch, logs=None):
        if self._private.ledger.updates - self._before >= _FIRST_UPDATES:
            self._look(logs)

    def on_epoch_end(self, epoch, logs=None):
        self._look(logs)

    def _look(self, logs):
        if self._has_looked:
            return
        self._has_looked = True
        made = self._private.ledger.updates - self._before
        expected = made * self._private.plan.expected_batch_size
        if (logs or {}).get("nonfinite_gradients", 0) > _MANY * expected:
            scale = self._private.loss_scale
            causes = _CAUSES + (_OF_FLOAT16.format(scale) if scale != 1 else "")
            warnings.warn(
                "More than a quarter of the gradients of the first "
                f"{made} update(s) were not finite. They count as zero: the updates "
                f"learn less, or nothing. Stop, and look at these, in this order:{causes}\n"
                "This message depends on the private data; keep it with them.",
                PrivacyWarning,
                stacklevel=2,
            )


class UpdateMetrics:
    """The numbers that `fit` shows for every update.

    The number of nonfinite gradients is **not private**: a sum over examples without noise. A Keras
    model takes a metric that is its attribute for a layer, whose variables are weights and part of
    checkpoints; so this is no object that Keras or TensorFlow looks into.
    """

    def __init__(self):
        self.nonfinite = keras.metrics.Sum(name="nonfinite_gradients")
        self.epsilon = Latest(name="epsilon")

    @property
    def all(self):
        """All of them, a list."""
        return [self.nonfinite, self.epsilon]
