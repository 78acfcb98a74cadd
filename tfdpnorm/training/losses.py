"""A Keras loss as one value per example."""

import tensorflow as tf
from tensorflow import keras


class PerExampleLoss:
    """Evaluates a Keras loss without reducing it over the batch.

    Args:
        loss: A loss name, function or `keras.losses.Loss`, or a list or dict of them like the
            model's outputs.
        loss_weights: None, or numbers in the same structure as `loss`.

    Raises:
        ValueError: if `loss` is None or unknown to Keras.
    """

    def __init__(self, loss, loss_weights=None):
        if loss is None:
            raise ValueError("Expected a loss, got None. Pass loss=... to compile().")
        self._loss = loss
        self._weights = loss_weights
        tf.nest.map_structure(_function, loss)  # unknown names fail here, not in the first step

    def __call__(self, y, predictions, sample_weight=None):
        """Returns the loss of each row, [rows], float32 or wider.

        Args:
            y: Targets, a structure of [rows, ...].
            predictions: What the model gave, likewise.
            sample_weight: [rows] or None.

        Raises:
            ValueError: if a loss does not give (at least) one value per row.
        """
        if isinstance(self._loss, (list, tuple, dict)):
            flat_losses = tf.nest.flatten(self._loss)
            flat_y = tf.nest.flatten(y)
            flat_predictions = tf.nest.flatten(predictions)
            if not len(flat_losses) == len(flat_y) == len(flat_predictions):
                raise ValueError(
                    "Expected as many losses as targets and outputs, got "
                    f"{len(flat_losses)}, {len(flat_y)} and {len(flat_predictions)}."
                )
        else:
            flat_y, flat_predictions = tf.nest.flatten(y), tf.nest.flatten(predictions)
            flat_losses = [self._loss] * len(flat_predictions)
        weights = tf.nest.flatten(self._weights) if self._weights else [1.0] * len(flat_losses)
        total = tf.add_n(
            [
                tf.cast(weight, tf.float32) * _values(loss, target, prediction)
                for weight, loss, target, prediction in zip(
                    weights, flat_losses, flat_y, flat_predictions, strict=True
                )
            ]
        )
        if sample_weight is None:
            return total
        return total * tf.cast(sample_weight, total.dtype)


def _function(loss):
    """The unreduced function `(y, predictions) -> values` of a loss."""
    loss = keras.losses.get(loss)
    # `call` is the unreduced part of a Loss; reduction happens in its `__call__`.
    return loss.call if isinstance(loss, keras.losses.Loss) else loss


def _values(loss, y, predictions):
    if predictions.dtype in (tf.float16, tf.bfloat16):
        predictions = tf.cast(predictions, tf.float32)
    y = tf.convert_to_tensor(y)
    if y.shape.rank == predictions.shape.rank - 1 and predictions.shape[-1] == 1:
        # Without this [rows] against [rows, 1] broadcasts to [rows, rows]: every row with every
        # other.
        y = y[..., tf.newaxis]
    values = tf.convert_to_tensor(_function(loss)(y, predictions))
    if values.shape.rank == 0 or not values.shape[:1].is_compatible_with(predictions.shape[:1]):
        raise ValueError(
            f"Expected the loss {loss!r} to give one value per example, shape [rows], got shape "
            f"{tuple(values.shape)} for predictions of shape {tuple(predictions.shape)}. A loss "
            "that is reduced over the batch cannot be clipped per example: remove the reduction "
            "(tf.reduce_mean without an axis, for instance)."
        )
    if values.shape.rank != 1:
        values = tf.reduce_mean(values, axis=list(range(1, values.shape.rank)))
    return tf.cast(values, tf.float64 if values.dtype == tf.float64 else tf.float32)
