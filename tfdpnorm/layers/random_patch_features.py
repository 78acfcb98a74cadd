"""Fixed random features of the patches of an image: an untrained hidden layer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import tensorflow as tf
from tensorflow import keras

from tfdpnorm import arguments

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


_SHORTEST_PATCH = 0.3


@keras.utils.register_keras_serializable(package="tfdpnorm")
class RandomPatchFeatures(keras.layers.Layer):
    """Cosines of random projections of an image's patches: |p| cos(w p / (s |p|) + b).

    For patches p and p' of the same length, the inner product of their features divided by
    filters / 2 comes near to |p|^2 exp(-|u - u'|^2 / (2 s^2)), where u and u' are the patches at
    length 1. Weights and phases are drawn once and never trained. Patches shorter than 0.3 are
    divided by 0.3 instead of their length.

    Privacy:
        Per-example, and the weights do not depend on the data. They are not trained, and so neither
        clipped nor noised.

    Args:
        filters: Random projections of each patch.
        size: Height and width of a patch; images are padded by zeros ("same").
        width: s > 0.
        strides: Distance from one patch to the next.

    Call arguments:
        inputs: [rows, height, width, channels].

    Returns:
        [rows, height / strides, width / strides, filters], rounded up.

    Raises:
        ValueError: for a value out of its range.

    Reference:
        Rahimi and Recht (2007), "Random features for large-scale kernel machines"; Mairal,
        Koniusz, Harchaoui, Schmid (2014), "Convolutional kernel networks", for the patches.
    """

    def __init__(
        self, filters: int, size: int = 5, width: float = 0.4, strides: int = 1, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.filters = arguments.whole("filters", filters, at_least=1)
        self.size = arguments.whole("size", size, at_least=1)
        self.width = arguments.positive("width", width)
        self.strides = arguments.whole("strides", strides, at_least=1)
        self.input_spec = keras.layers.InputSpec(ndim=4)

    def build(self, input_shape: Sequence[int | None]) -> None:
        patch = (self.size, self.size, input_shape[-1])
        self.kernel = self.add_weight(
            name="kernel",
            shape=(*patch, self.filters),
            initializer=keras.initializers.RandomNormal(stddev=1.0),
            trainable=False,
        )
        self.phases = self.add_weight(
            name="phases",
            shape=(self.filters,),
            initializer=keras.initializers.RandomUniform(0.0, 2 * math.pi),
            trainable=False,
        )
        super().build(input_shape)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        ones = tf.ones((self.size, self.size, inputs.shape[-1], 1), inputs.dtype)
        lengths = tf.sqrt(tf.nn.conv2d(tf.square(inputs), ones, self.strides, "SAME"))
        kernel = tf.cast(self.kernel, inputs.dtype)
        products = tf.nn.conv2d(inputs, kernel, self.strides, "SAME")
        angles = products / (self.width * tf.maximum(lengths, _SHORTEST_PATCH))
        return lengths * tf.cos(angles + tf.cast(self.phases, inputs.dtype))

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple | tf.TensorShape:
        sides = [None if x is None else -(-x // self.strides) for x in input_shape[1:-1]]
        return (input_shape[0], *sides, self.filters)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "filters": self.filters,
            "size": self.size,
            "width": self.width,
            "strides": self.strides,
        }
