"""Batch normalisation whose statistics come from public rows."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.layers.autocast import no_autocast
from tfdpnorm.layers.public_statistics import RecordedMoments, current_pass

STATISTICS = ("public", "blend", "example", "lot")
STATISTICS_GRADIENTS = ("full", "stop")

_TRAINING_OUTSIDE = (
    "PublicBatchNormalization was trained outside of a private model. Expected: "
    "private = tfdpnorm.make_private(model, public_batch=...); private.fit(...). It has no "
    "statistics of its own to learn from the rows of an ordinary fit."
)


@keras.utils.register_keras_serializable(package="tfdpnorm")
class PublicBatchNormalization(keras.layers.Layer):
    """Batch normalisation with the moments of a public batch.

    y = gamma (z - mean) / sqrt(variance + epsilon) + beta, per channel. A private model
    (`tfdpnorm.make_private(..., public_batch=...)`) runs M public rows through the network beside
    the private rows; `statistics` says which rows give `mean` and `variance` for private row i:

    * `"public"`: the public rows alone, at every layer. Inference needs no public rows: the
      moments are stored in the layer, which can be folded into a stock `BatchNormalization`.
    * `"blend"`: mean = (M mean_p + mean_i) / (M + 1) and variance = (M variance_p + variance_i) /
      (M + 1) + M (mean_i - mean_p)^2 / (M + 1)^2, where p are the public rows and i is row i
      alone. It bounds the normalised value of a dense layer by sqrt(M).
    * `"example"`: exactly the rows {x_i} and all public rows, run anew for each example: the test
      phase of Davody et al. (2020), Algorithm 1. 1 + M times the work; a reference.
    * `"lot"`: all private and public rows of a lot together: the training phase of Davody et al.
      (2020), Algorithm 1, as printed. NOT private.

    The gradient through the public moments is part of `statistics_gradient="full"` (see
    `tfdpnorm.layers.pull_back`); `"stop"` holds the moments constant, which is sound too, but loses
    the invariance to the scale of the weights, and trains badly under noise.

    Outside of a private model (a loaded model, `model.predict`) the layer normalises with its
    stored moments, in the modes other than `"public"` blended with each row's own. Training it
    there is an error.

    Privacy:
        `public`, `blend` and `example` are per-example: row i of the output depends on row i, the
        weights and public data only, and no variable is written from private rows. `lot` mixes
        examples: clipping no longer bounds what one example changes, and no guarantee holds.

    Args:
        axis: The channel axis, any but 0 (the batch).
        epsilon: Added to the variance.
        center: Whether beta is learnt. If not, it stays 0; its gradient is still taken, clipped
            and noised, because the pull-back needs it.
        scale: Whether gamma is learnt; likewise.
        statistics: One of "public", "blend", "example", "lot".
        statistics_gradient: "full" or "stop".
        beta_initializer: Initializer of beta.
        gamma_initializer: Initializer of gamma.

    Call arguments:
        inputs: [rows, ..., channels, ...], 2-D to 5-D, floating point. Moments are taken in
            float32 where the layer computes in less.
        training: Only to refuse training outside of a private model.

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
        super().__init__(**kwargs)
        if not isinstance(axis, int) or axis == 0:
            raise ValueError(f"Expected axis to be an int other than 0 (the batch), got {axis!r}.")
        if not epsilon > 0:
            raise ValueError(f"Expected epsilon > 0, got {epsilon!r}.")
        if statistics not in STATISTICS:
            raise ValueError(f"Expected statistics to be one of {STATISTICS}, got {statistics!r}.")
        if statistics_gradient not in STATISTICS_GRADIENTS:
            raise ValueError(
                f"Expected statistics_gradient to be one of {STATISTICS_GRADIENTS}, got "
                f"{statistics_gradient!r}."
            )
        self.axis = axis
        self.epsilon = float(epsilon)
        self.center = bool(center)
        self.scale = bool(scale)
        self.statistics = statistics
        self.statistics_gradient = statistics_gradient
        self.beta_initializer = keras.initializers.get(beta_initializer)
        self.gamma_initializer = keras.initializers.get(gamma_initializer)
        self.supports_masking = True

    def build(self, input_shape):
        rank = len(input_shape)
        if not 2 <= rank <= 5:
            raise ValueError(
                f"Expected an input of 2 to 5 dimensions, got shape {tuple(input_shape)} in layer "
                f"{self.name!r}."
            )
        axis = self.axis if self.axis >= 0 else rank + self.axis
        if not 1 <= axis < rank:
            raise ValueError(
                f"Expected axis within 1 to {rank - 1} (or negative) for input shape "
                f"{tuple(input_shape)}, got {self.axis} in layer {self.name!r}."
            )
        channels = input_shape[axis]
        if channels is None:
            raise ValueError(
                f"Expected the size of axis {self.axis} to be known, got input shape "
                f"{tuple(input_shape)} in layer {self.name!r}."
            )
        self._channel_axis = axis
        self._spatial_axes = [i for i in range(1, rank) if i != axis]
        self._broadcast_shape = [channels if i == axis else 1 for i in range(rank)]

        def weight(name, initializer, trainable, shape=(channels,)):
            return self.add_weight(
                name=name,
                shape=shape,
                dtype=self._moments_dtype,
                initializer=initializer,
                trainable=trainable,
                **no_autocast(self.add_weight),
            )

        self.gamma = weight("gamma", self.gamma_initializer if self.scale else "ones", self.scale)
        self.beta = weight("beta", self.beta_initializer if self.center else "zeros", self.center)
        self.public_mean = weight("public_mean", "zeros", False)
        self.public_variance = weight("public_variance", "ones", False)
        self.public_rows = weight("public_rows", "zeros", False, shape=())
        super().build(input_shape)

    @property
    def _moments_dtype(self):
        return "float64" if self.compute_dtype == "float64" else "float32"

    def store_moments(self, mean, variance, rows):
        """Keeps public moments ([channels], [channels]) of `rows` public rows for inference."""
        self.public_mean.assign(tf.cast(mean, self.public_mean.dtype))
        self.public_variance.assign(tf.cast(variance, self.public_variance.dtype))
        self.public_rows.assign(tf.cast(rows, self.public_rows.dtype))

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

    def _values_and_moments(self, inputs, training):
        """Inputs in the dtype of moments, and the moments that hold for them, broadcastable."""
        values = tf.cast(inputs, self._moments_dtype)
        forward_pass = current_pass()
        if forward_pass is None:
            if training is True:
                # An op rather than an exception: saving traces the training branch as well.
                with tf.control_dependencies([tf.debugging.Assert(False, [_TRAINING_OUTSIDE])]):
                    values = tf.identity(values)
            stored = (self.public_mean, self.public_variance, self.public_rows)
            public = RecordedMoments(self, *(tf.convert_to_tensor(v) for v in stored))
            moments = self._private_moments(values, public, blend=self.statistics != "public")
            return values, *moments
        if forward_pass.kind == "use":
            public = forward_pass.next_moments(self)
            moments = self._private_moments(values, public, blend=self.statistics == "blend")
            return values, *moments
        mean, variance = self._moments_of_all_rows(values, forward_pass.row_weights)
        if forward_pass.kind == "record":
            # Identity: the recorded tensors are what the pull-back differentiates, and must lie on
            # the way from the weights to every later layer's moments.
            mean, variance = tf.identity(mean), tf.identity(variance)
            rows = tf.cast(tf.shape(values)[0], self._moments_dtype)
            forward_pass.statistics.moments.append(RecordedMoments(self, mean, variance, rows))
        return values, self._broadcast(mean), self._broadcast(variance)

    def _moments_of_all_rows(self, values, row_weights):
        axes = [0, *self._spatial_axes]
        if row_weights is None:
            return tf.nn.moments(values, axes)
        weights = tf.reshape(row_weights, [-1] + [1] * (values.shape.rank - 1))
        return tf.nn.weighted_moments(values, axes, tf.cast(weights, values.dtype))

    def _broadcast(self, per_channel):
        return tf.reshape(per_channel, self._broadcast_shape)

    def _private_moments(self, values, public, blend):
        """Moments for private rows, broadcastable against `values`, from public ones."""
        public_mean = self._broadcast(tf.cast(public.mean, values.dtype))
        public_variance = self._broadcast(tf.cast(public.variance, values.dtype))
        if not blend:
            return public_mean, public_variance
        if self._spatial_axes:
            own_mean, own_variance = tf.nn.moments(values, self._spatial_axes, keepdims=True)
        else:
            own_mean, own_variance = values, tf.zeros_like(values)
        rows = tf.cast(public.rows, values.dtype)
        total = rows + 1.0
        mean = (rows * public_mean + own_mean) / total
        # Not E[z^2] - mean^2, which cancels where a row lies far from the public ones.
        variance = (rows * public_variance + own_variance) / total
        variance += rows * tf.square(own_mean - public_mean) / tf.square(total)
        return mean, variance

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {
            **super().get_config(),
            "axis": self.axis,
            "epsilon": self.epsilon,
            "center": self.center,
            "scale": self.scale,
            "statistics": self.statistics,
            "statistics_gradient": self.statistics_gradient,
            "beta_initializer": keras.initializers.serialize(self.beta_initializer),
            "gamma_initializer": keras.initializers.serialize(self.gamma_initializer),
        }
