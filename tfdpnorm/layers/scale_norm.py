"""One more normalisation right after a residual addition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.arguments import choice, refusal
from tfdpnorm.dtypes import at_least_float32
from tfdpnorm.layers.public_batch_normalization import PublicBatchNormalization

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


NORMALIZATIONS = ("group", "batch", "public_batch")


@keras.utils.register_keras_serializable(package="tfdpnorm")
class ScaleNorm(keras.layers.Layer):
    """Adds a residual block's two paths and normalises the sum.

    The convolutional path of a residual block is normalised, the skip path is not, so that their
    sum has another scale. ScaleNorm restores mean 0 and variance 1, per group or per channel:
    y = normalization(path + skip).

    Privacy:
        `normalization="group"` is per-example. `"public_batch"` is per-example in its modes
        "public", "blend" and "example" (see `PublicBatchNormalization`). With `"batch"`
        each example changes the outputs of others and the moving averages: not private, and
        rejected by `tfdpnorm.make_private`.

    Args:
        normalization: "group", "batch" or "public_batch".
        groups: Number of groups of channels, for "group": 1 normalises all channels together, -1
            each channel by itself. Must divide the number of channels. Other normalisations
            ignore it.
        axis: The channel axis.
        epsilon: Added to the variance.
        statistics: For "public_batch": whose moments normalise, one of
            `tfdpnorm.choices.STATISTICS`.
        statistics_gradient: For "public_batch": "full", or "stop" for no gradient through the
            moments.
        **kwargs: As for every Keras layer, such as `name`.

    Call arguments:
        inputs: [rows, ..., channels], or a list of such tensors of one shape, which are added.

    Raises:
        ValueError: for a value out of its range; and when it is called, for paths of different
            shapes, or groups that do not divide the channels.

    Example::

        inputs = keras.Input([8, 8, 4])
        path = keras.layers.Conv2D(4, 3, padding="same")(inputs)
        outputs = tfdpnorm.ScaleNorm("group", groups=2)([path, inputs])

    Reference:
        Klause, Ziller, Rueckert, Hammernik, Kaissis (2022), "Differentially private training of
        residual networks with scale normalisation", Section 3.
    """

    def __init__(
        self,
        normalization: str = "group",
        groups: int = 32,
        axis: int = -1,
        epsilon: float = 1e-3,
        statistics: str = "public",
        statistics_gradient: str = "full",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(groups, int) or (groups < 1 and groups != -1):
            raise refusal("groups", "to be a positive int, or -1 (each channel)", groups)
        self.normalization = choice("normalization", normalization, NORMALIZATIONS)
        self.groups = groups
        self.axis = axis
        self.epsilon = float(epsilon)
        self.statistics = statistics
        self.statistics_gradient = statistics_gradient
        shared = {"axis": axis, "epsilon": self.epsilon, "name": "normalization"}
        # A Keras 2 layer does not hand its own policy down to the layers that it owns.
        policy = getattr(self, "dtype_policy", None)
        if normalization == "group":
            # Keras takes a group's moments in the compute dtype: in half precision too coarse.
            wide = at_least_float32(self.compute_dtype).name
            self._normalize = keras.layers.GroupNormalization(groups=groups, dtype=wide, **shared)
        elif normalization == "batch":
            self._normalize = keras.layers.BatchNormalization(dtype=policy, **shared)
        else:
            self._normalize = PublicBatchNormalization(
                statistics=statistics,
                statistics_gradient=statistics_gradient,
                dtype=policy,
                **shared,
            )

    def build(self, input_shape: Sequence[int | None]) -> None:
        shapes = input_shape if _is_list_of_shapes(input_shape) else [input_shape]
        shapes = [tuple(shape) for shape in shapes]
        if len(set(shapes)) != 1:
            raise ValueError(
                f"Expected paths of one shape in layer {self.name!r}, got {shapes}. Bring the skip "
                "path to the block's shape first, by a 1x1 convolution for instance."
            )
        channels = shapes[0][self.axis]
        if channels is None:
            raise ValueError(
                f"Expected the size of axis {self.axis} to be known, got input shape {shapes[0]} "
                f"in layer {self.name!r}."
            )
        if self.normalization == "group" and self.groups != -1 and channels % self.groups:
            raise ValueError(
                f"Expected groups to divide the {channels} channels of layer {self.name!r}, got "
                f"{self.groups} groups."
            )
        sizes = [size for axis, size in enumerate(shapes[0]) if axis not in (0, self._axis(shapes))]
        one_unit = self.groups in (-1, channels) and all(size == 1 for size in sizes)
        if self.normalization == "group" and one_unit:
            raise ValueError(
                f"Expected groups of two units or more to normalise, got {channels} units in as "
                f"many groups in layer {self.name!r}, whose output would be constant. Choose fewer "
                "groups."
            )
        self._normalize.build(shapes[0])
        super().build(input_shape)

    def call(
        self, inputs: tf.Tensor | Sequence[tf.Tensor], training: bool | None = None
    ) -> tf.Tensor:
        paths = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        total = tf.add_n([tf.convert_to_tensor(path) for path in paths])
        if self.normalization == "group":
            return tf.cast(self._normalize(total), total.dtype)
        return self._normalize(total, training=training)

    def _axis(self, shapes):
        return self.axis % len(shapes[0])

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple | tf.TensorShape:
        return input_shape[0] if _is_list_of_shapes(input_shape) else input_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "normalization": self.normalization,
            "groups": self.groups,
            "axis": self.axis,
            "epsilon": self.epsilon,
            "statistics": self.statistics,
            "statistics_gradient": self.statistics_gradient,
        }


def _is_list_of_shapes(shape):
    return isinstance(shape, (list, tuple)) and isinstance(shape[0], (list, tuple, tf.TensorShape))
