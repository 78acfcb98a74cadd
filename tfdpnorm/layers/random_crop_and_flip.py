"""Random crops of padded images, some of them flipped: each image by random numbers of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.arguments import whole

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


@keras.utils.register_keras_serializable(package="tfdpnorm")
class RandomCropAndFlip(keras.layers.Layer):
    """Pads images with mirror images, cuts a window of the old size out, and flips half of them.

    Where the window lies, and whether it is flipped left to right, is drawn again for each image
    and each call. Without `training=True` images stay as they are.

    Privacy:
        Per-example: a view depends on its own image and on numbers drawn for its position.

    Args:
        padding: Pixels added on each side, at most the size of the images. The mirror
            image begins with the outermost pixels again.
        flip: Whether half of the windows are flipped left to right.

    Call arguments:
        inputs: [rows, height, width, channels].

    Reference:
        De et al. (2022), "Unlocking high-accuracy differentially private image classification
        through scale", Section 3, and its code: windows after padding by 4 pixels, and flips.
    """

    def __init__(self, padding: int = 4, flip: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.padding = whole("padding", padding, at_least=0)
        self.flip = bool(flip)
        with tf.init_scope():
            self._generator = tf.random.Generator.from_non_deterministic_state()

    def build(self, input_shape: Sequence[int | None]) -> None:
        shape = tuple(input_shape)
        sizes = shape[1:3]
        if len(shape) != 4 or any(size is None or size < self.padding for size in sizes):
            raise ValueError(
                "Expected images [rows, height, width, channels] of a known height and width of "
                f"padding={self.padding} or more, got shape {shape}. Choose a smaller padding."
            )
        super().build(input_shape)

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        if not training:
            return inputs
        rows, (height, width) = tf.shape(inputs)[0], inputs.shape[1:3]
        down, right = (self._below(2 * self.padding + 1, rows) for _ in range(2))
        columns = right[:, tf.newaxis] + tf.range(width)
        if self.flip:
            flipped = self._below(2, rows)[:, tf.newaxis] > 0
            columns = tf.where(flipped, columns[:, ::-1], columns)
        edge = [self.padding, self.padding]
        padded = tf.pad(inputs, [[0, 0], edge, edge, [0, 0]], "SYMMETRIC")
        window = tf.gather(padded, down[:, tf.newaxis] + tf.range(height), axis=1, batch_dims=1)
        window = tf.gather(window, columns, axis=2, batch_dims=1)
        return tf.ensure_shape(window, inputs.shape)

    def _below(self, end, rows):
        """Whole numbers from 0 to `end` - 1, [rows], drawn alike."""
        return self._generator.uniform([rows], 0, end, tf.int32)

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple | tf.TensorShape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "padding": self.padding, "flip": self.flip}
