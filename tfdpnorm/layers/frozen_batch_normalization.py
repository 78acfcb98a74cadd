"""Batch normalisation by averages that nothing changes any more."""

import tensorflow as tf
from tensorflow import keras


@keras.utils.register_keras_serializable(package="tfdpnorm")
class FrozenBatchNormalization(keras.layers.BatchNormalization):
    """Keras' batch normalisation in inference mode, in training too.

    y = gamma (z - moving_mean) / sqrt(moving_variance + epsilon) + beta, per channel. The moving
    averages are constants, such as those of a pre-trained model; gamma and beta are learnt, unless
    the layer is frozen altogether (`trainable = False`).

    Privacy:
        Per-example: no statistics are taken, and no variable is written but by the optimizer. The
        averages are released as they are: they must not come from private data.

    Args:
        **settings: As for `keras.layers.BatchNormalization`.

    Call arguments:
        inputs: [rows, ..., channels, ...], of the channels of `axis`.
        training: Without effect.

    Reference:
        Ioffe, Szegedy (2015), "Batch normalization", Algorithm 2, step 11.
    """

    def call(self, inputs, training=None):
        del training
        return super().call(inputs, training=False)

    def normalized(self, inputs, training=None):
        """The layer without gamma and beta, in float32 where it computes in less."""
        del training
        axes = [axis % inputs.shape.rank for axis in self.axis]
        shape = [size if i in axes else 1 for i, size in enumerate(inputs.shape)]
        mean, variance = (
            tf.reshape(tf.convert_to_tensor(v), shape)
            for v in (self.moving_mean, self.moving_variance)
        )
        return (tf.cast(inputs, mean.dtype) - mean) * tf.math.rsqrt(variance + self.epsilon)
