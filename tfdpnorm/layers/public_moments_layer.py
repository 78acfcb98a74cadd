"""What layers with the moments of a public batch have in common."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.arguments import choice, refusal
from tfdpnorm.choices import STATISTICS
from tfdpnorm.dtypes import at_least_float32
from tfdpnorm.keras_compat.devices_and_precision import no_autocast
from tfdpnorm.layers.public_statistics import RecordedMoments, current_pass


class PublicMomentsLayer(keras.layers.Layer):
    """Normalises by the per-channel moments that `statistics` names; keeps the public rows' ones.

    See `PublicBatchNormalization` for what `statistics` means and where the moments come from.

    Args:
        axis: The channel axis, any but 0 (the batch).
        statistics: One of "public", "blend", "example", "lot".
    """

    # Whether `pull_back` differentiates what the layer does with its moments: "full" or "stop".
    statistics_gradient = "stop"

    def __init__(self, axis=-1, statistics="public", **kwargs):
        super().__init__(**kwargs)
        if not isinstance(axis, int) or axis == 0:
            raise refusal("axis", "to be an int other than 0 (the batch)", axis)
        self.axis = axis
        self.statistics = choice("statistics", statistics, STATISTICS)
        self.supports_masking = True

    def _set_axes(self, input_shape):
        """Reads the axes off the shape of the input; returns the number of channels."""
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
        return channels

    def _add_vector(self, name, initializer, trainable, shape):
        return self.add_weight(
            name=name,
            shape=shape,
            dtype=self._moments_dtype,
            initializer=initializer,
            trainable=trainable,
            **no_autocast(self.add_weight),
        )

    def _add_moments(self, channels):
        self.public_mean = self._add_vector("public_mean", "zeros", False, (channels,))
        self.public_variance = self._add_vector("public_variance", "ones", False, (channels,))
        self.public_rows = self._add_vector("public_rows", "zeros", False, ())

    @property
    def moments_variables(self):
        """The variables that `store_moments` writes, a list; empty before the layer is built."""
        if not self.built:
            return []
        return [self.public_mean, self.public_variance, self.public_rows]

    @property
    def _moments_dtype(self):
        return at_least_float32(self.compute_dtype).name

    def store_moments(self, mean, variance, rows):
        """Keeps public moments ([channels], [channels]) of `rows` public rows for inference."""
        self.public_mean.assign(tf.cast(mean, self.public_mean.dtype))
        self.public_variance.assign(tf.cast(variance, self.public_variance.dtype))
        self.public_rows.assign(tf.cast(rows, self.public_rows.dtype))

    def _values_and_moments(self, inputs, training, blends=True):
        """Inputs in the dtype of moments, and their moments, broadcastable.

        With `blends` False a row's own moments stay out where `statistics` would blend them in.
        """
        values = tf.cast(inputs, self._moments_dtype)
        forward_pass = current_pass()
        if forward_pass is None:
            if training is True:
                # An op rather than an exception: saving traces the training branch as well.
                stop = tf.debugging.Assert(False, [self._training_outside()])
                with tf.control_dependencies([stop]):
                    values = tf.identity(values)
            stored = (self.public_mean, self.public_variance, self.public_rows)
            public = RecordedMoments(self, *(tf.convert_to_tensor(v) for v in stored))
            moments = self._private_moments(values, public, blends and self.statistics != "public")
            return values, *moments
        if forward_pass.kind == "use":
            public = forward_pass.next_moments(self)
            moments = self._private_moments(values, public, blends and self.statistics == "blend")
            return values, *moments
        mean, variance = self._moments_of_all_rows(values, forward_pass.row_weights)
        if forward_pass.kind == "record":
            # Identity: the pull-back differentiates the recorded tensors, which must lie on the
            # path from the weights to every later layer's moments.
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

    def _training_outside(self):
        return (
            f"{type(self).__name__} was trained outside of a private model. Expected: "
            "private = tfdpnorm.make_private(model, public_batch=...); private.fit(...). It learns "
            "no statistics from the rows of an ordinary fit."
        )

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "axis": self.axis, "statistics": self.statistics}
