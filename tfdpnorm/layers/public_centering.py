"""Inputs of a layer, centred by the mean of public rows."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.layers.public_moments_layer import PublicMomentsLayer


@keras.utils.register_keras_serializable(package="tfdpnorm")
class PublicCentering(PublicMomentsLayer):
    """Subtracts the public rows' mean from each channel: y = x - mean, for a layer W before
    `PublicBatchNormalization`.

    The network computes the same as without it: normalisation subtracts W mean anyway, so that the
    mean can be held constant without an error in the gradient. What changes is each example's
    gradient by W as the clip sees it, b x^T: without centring much of it lies along the mean. The
    pull-back through the public statistics removes that part again, but only after it has used up
    a share of the clipping norm.

    Use it only on the input of a layer that is linear (its bias does not matter) and directly
    followed by `PublicBatchNormalization` with the same `statistics`. Exact before dense
    layers and convolutions without padding. A padded convolution then pads with the mean instead of
    with 0: another function at the border, whose gradient by way of that mean is left out.

    Privacy:
        As `PublicBatchNormalization` with the same `statistics`; "blend" centres by the public
        rows alone.

    Args:
        axis: The channel axis, any but 0 (the batch).
        statistics: As in `PublicBatchNormalization`.

    Call arguments:
        inputs: [rows, ..., channels, ...], 2-D to 5-D, floating point.
        training: Only used to refuse training outside of a private model.
    """

    def build(self, input_shape):
        self._add_moments(self._set_axes(input_shape))
        super().build(input_shape)

    def call(self, inputs, training=None):
        values, mean, _ = self._values_and_moments(inputs, training, blends=False)
        return tf.cast(values - tf.stop_gradient(mean), self.compute_dtype)
