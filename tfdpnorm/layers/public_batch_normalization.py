"""Batch normalisation whose statistics come from public rows."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.arguments import choice, positive
from tfdpnorm.choices import STATISTICS_GRADIENTS
from tfdpnorm.layers.public_moments_layer import PublicMomentsLayer


@keras.utils.register_keras_serializable(package="tfdpnorm")
class PublicBatchNormalization(PublicMomentsLayer):
    """Batch normalisation with the moments of a public batch.

    y = gamma (z - mean) / sqrt(variance + epsilon) + beta, per channel. A private model
    (`tfdpnorm.make_private(..., public_batch=...)`) runs M public rows through the network with
    the private rows; `statistics` says which rows give `mean` and `variance` for private row i:

    * `"public"`: the public rows alone, at every layer. Inference needs no public rows: the
      moments are stored in the layer, which can be folded into a stock `BatchNormalization`.
    * `"blend"`: mean = (M mean_p + mean_i) / (M + 1) and variance = (M variance_p + variance_i) /
      (M + 1) + M (mean_i - mean_p)^2 / (M + 1)^2, where p are the public rows and i is row i
      alone. It bounds the normalised value of a dense layer by sqrt(M).
    * `"example"`: exactly the rows {x_i} and all public rows, run once for each example: the test
      phase of Davody et al. (2020), Algorithm 1. 1 + M times the work; a reference.
    * `"lot"`: all private and public rows of a lot together: the training phase of Davody et al.
      (2020), Algorithm 1, as printed. NOT private.

    `statistics_gradient="full"` includes the gradient through the public moments (see
    `tfdpnorm.layers.pull_back`). `"stop"` holds the moments constant, which is sound too, but loses
    the invariance to the scale of the weights, and trains badly under noise.

    Outside of a private model (a loaded model, `model.predict`) the layer normalises with its
    stored moments, in the modes other than `"public"` blended with each row's own. Training it
    there is an error.

    Privacy:
        `public`, `blend` and `example` are per-example: row i of the output depends on row i, the
        weights and public data only, and private rows write no variable. In `lot` an example
        changes the outputs of others: clipping no longer bounds what it changes, and no guarantee
        holds.

    Args:
        axis: The channel axis, any but 0 (the batch).
        epsilon: Added to the variance.
        center: Whether beta is learnt. If not, it stays 0; its gradient is still taken, clipped
            and noised, because the pull-back needs it.
        scale: Whether gamma is learnt. If not, it stays 1; as for beta, its gradient is still used.
        statistics: One of "public", "blend", "example", "lot".
        statistics_gradient: "full" or "stop".
        beta_initializer: Initializer of beta.
        gamma_initializer: Initializer of gamma.

    Call arguments:
        inputs: [rows, ..., channels, ...], 2-D to 5-D, floating point. Moments are taken in
            float32 where the layer computes in less.
        training: Only used to refuse training outside of a private model.

    Reference:
        Davody, Adelani, Kleinbauer, Klakow (2020), "On the effect of normalization layers on
        differentially private training of deep neural networks", Algorithm 1.
    """

    def __init__(
        self,
        axis=-1,
        epsilon=1e-3,
        center=True,
        scale=True,
        statistics="public",
        statistics_gradient="full",
        beta_initializer="zeros",
        gamma_initializer="ones",
        **kwargs,
    ):
        super().__init__(axis, statistics, **kwargs)
        self.epsilon = positive("epsilon", epsilon)
        self.center = bool(center)
        self.scale = bool(scale)
        self.statistics_gradient = choice(
            "statistics_gradient", statistics_gradient, STATISTICS_GRADIENTS
        )
        self.beta_initializer = keras.initializers.get(beta_initializer)
        self.gamma_initializer = keras.initializers.get(gamma_initializer)

    def build(self, input_shape):
        channels = self._set_axes(input_shape)
        gamma = self.gamma_initializer if self.scale else "ones"
        beta = self.beta_initializer if self.center else "zeros"
        self.gamma = self._add_vector("gamma", gamma, self.scale, (channels,))
        self.beta = self._add_vector("beta", beta, self.center, (channels,))
        self._add_moments(channels)
        super().build(input_shape)

    def call(self, inputs, training=None):
        values, mean, variance = self._values_and_moments(inputs, training)
        gamma, beta = (tf.convert_to_tensor(v) for v in (self.gamma, self.beta))
        factor = self._broadcast(gamma) * tf.math.rsqrt(variance + self.epsilon)
        outputs = (values - mean) * factor + self._broadcast(beta)
        return tf.cast(outputs, self.compute_dtype)

    def normalized(self, inputs, training=None):
        """The layer without gamma and beta: (inputs - mean) / sqrt(variance + epsilon)."""
        values, mean, variance = self._values_and_moments(inputs, training)
        return (values - mean) * tf.math.rsqrt(variance + self.epsilon)

    def get_config(self):
        return {
            **super().get_config(),
            "epsilon": self.epsilon,
            "center": self.center,
            "scale": self.scale,
            "statistics_gradient": self.statistics_gradient,
            "beta_initializer": keras.initializers.serialize(self.beta_initializer),
            "gamma_initializer": keras.initializers.serialize(self.gamma_initializer),
        }
