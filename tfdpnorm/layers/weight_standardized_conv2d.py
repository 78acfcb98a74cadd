"""Convolution whose kernel is standardised per output channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.layers import SavesAllVariables

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


@keras.utils.register_keras_serializable(package="tfdpnorm")
class WeightStandardizedConv2D(SavesAllVariables, keras.layers.Conv2D):
    """Conv2D with the kernel (w - mean) / sqrt(max(n variance, epsilon)) * gain, per filter.

    Mean and variance are over the n = height * width * input channels numbers of an output
    channel's kernel. With a bias per output channel, as in Conv2D, and a gain.

    Privacy:
        Per-example: the standardisation looks at weights only.

    Args:
        filters: Number of output channels.
        kernel_size: Height and width of the kernel: a number or a pair.
        weight_epsilon: The floor under n * variance.
        **kwargs: Further arguments of Conv2D; `groups` other than 1 and a causal padding are not
            supported.

    Call arguments:
        inputs: [rows, height, width, channels].

    Reference:
        Qiao et al. (2019), "Micro-batch training with batch-channel normalization and weight
        standardization"; the scaled form with a gain of Brock et al. (2021), as used under DP by
        De et al. (2022).
    """

    def __init__(
        self,
        filters: int,
        kernel_size: int | tuple[int, int],
        weight_epsilon: float = 1e-4,
        **kwargs: Any,
    ) -> None:
        super().__init__(filters, kernel_size, **kwargs)
        if self.groups != 1 or self.data_format != "channels_last":
            raise ValueError(
                "Expected groups=1 and data_format='channels_last', got "
                f"groups={self.groups} and {self.data_format!r}."
            )
        self.weight_epsilon = float(weight_epsilon)

    def build(self, input_shape: Sequence[int | None]) -> None:
        super().build(input_shape)
        self.gain = self.add_weight(
            name="gain", shape=(self.filters,), initializer="ones", trainable=True
        )

    def standardized_kernel(self) -> tf.Tensor:
        """The kernel that is convolved with, gain included: like `kernel`."""
        kernel = tf.convert_to_tensor(self.kernel)
        wide = tf.cast(kernel, tf.float32) if kernel.dtype.size < 4 else kernel
        mean, variance = tf.nn.moments(wide, [0, 1, 2])
        fan_in = tf.cast(tf.reduce_prod(kernel.shape[:3]), wide.dtype)
        scale = tf.math.rsqrt(tf.maximum(variance * fan_in, self.weight_epsilon))
        gain = tf.cast(tf.convert_to_tensor(self.gain), wide.dtype)
        return tf.cast((wide - mean) * scale * gain, kernel.dtype)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        # Not conv2d: it has no gradient for dilated kernels on CPUs.
        outputs = tf.nn.convolution(
            inputs,
            self.standardized_kernel(),
            strides=self.strides,
            padding=self.padding.upper(),
            dilations=self.dilation_rate,
        )
        if self.use_bias:
            outputs = tf.nn.bias_add(outputs, self.bias)
        return self.activation(outputs) if self.activation is not None else outputs

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "weight_epsilon": self.weight_epsilon}
