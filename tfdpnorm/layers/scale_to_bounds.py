"""Columns of a table scaled by public bounds, for training and for one release alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from tensorflow import keras

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import ArrayLike


@keras.utils.register_keras_serializable(package="tfdpnorm")
class ScaleToBounds(keras.layers.Layer):
    """Scales columns by public bounds into [-1, 1], and clips what lies outside.

    y = clip((2 x - low - high) / (high - low), -1, 1), in float32. NaN stays NaN.

    Privacy:
        Per-example. **The bounds must be public**: units, a reference interval, a codebook; not the
        smallest and largest private values.

    Args:
        low: A number, or one for each column, [columns].
        high: Likewise; larger than `low`.
        **kwargs: As for every Keras layer, such as `name`.

    Raises:
        ValueError: if a bound is not finite, or `low` is not below `high`.

    Example::

        inputs = keras.Input([2])
        scaled = tfdpnorm.layers.ScaleToBounds([18, 0], [90, 300])(inputs)  # age, glucose
        model = keras.Model(inputs, keras.layers.Dense(2)(scaled))
    """

    def __init__(self, low: ArrayLike, high: ArrayLike, **kwargs: Any) -> None:
        # Half precision would round columns of large numbers before they are scaled.
        super().__init__(**{"dtype": "float32", **kwargs})
        lows, highs = np.broadcast_arrays(*(np.asarray(b, np.float32) for b in (low, high)))
        if lows.ndim > 1 or not (np.isfinite([lows, highs]).all() and (lows < highs).all()):
            raise ValueError(
                "Expected finite bounds with low < high, numbers or one for each column, got low "
                f"{np.asarray(low).tolist()}, high {np.asarray(high).tolist()}. Leave out columns "
                "that are constant."
            )
        self.low, self.high = lows.tolist(), highs.tolist()

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        low, high = tf.constant(self.low), tf.constant(self.high)
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        return tf.clip_by_value((tf.cast(inputs, tf.float32) - middle) / half, -1.0, 1.0)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "low": self.low, "high": self.high}
