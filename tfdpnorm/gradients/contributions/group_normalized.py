"""Group normalisation with the sums that its gradients are made of."""

import tensorflow as tf

from tfdpnorm.gradients.contributions.arithmetic import widened
from tfdpnorm.gradients.contributions.positions import over_positions, size


class GroupNormalized:
    """One run of a group normalisation over [rows, *positions, channels].

    y = gamma x^ + beta with x^ = r (x - mean), r = 1 / sqrt(variance + epsilon), moments over all
    positions and the n / positions channels of a group. With b = dloss/dy, the sums over positions
    S1 = sum b and S2 = sum b (x - mean) give everything: dloss/dbeta = S1, dloss/dgamma = r S2, and

        dloss/dx = r (gamma b - sum_g(gamma S1) / n - (x - mean) r^2 sum_g(gamma S2) / n)

    where sum_g adds up the channels of a group.

    Reference:
        Wu and He (2018), Equations 1 to 3.
    """

    def __init__(self, layer):
        self._layer = layer
        self._sums = {}

    def __call__(self, inputs):
        """Returns what the layer gives, in float32 (float64 for float64 inputs)."""
        inputs = widened(inputs)
        dtype, channels = inputs.dtype, inputs.shape[-1]
        layer = self._layer
        # Tensors: tf.custom_gradient takes no variables.
        gamma = tf.ones([channels], dtype)
        if layer.scale:
            gamma = tf.cast(tf.convert_to_tensor(layer.gamma), dtype)
        beta = tf.cast(tf.convert_to_tensor(layer.beta), dtype) if layer.center else 0.0
        self._groups = channels if layer.groups == -1 else layer.groups
        # The static number of positions where there is one.
        positions = inputs.shape[1:-1].num_elements()
        if positions is None:
            positions = tf.reduce_prod(tf.shape(inputs)[1:-1])
        self._count = tf.cast(positions * (channels // self._groups), dtype)
        self._per_channel = [-1, *[1] * (inputs.shape.rank - 2), channels]

        @tf.custom_gradient
        def normalized(x):
            mean = self._of_groups(over_positions(x)) / self._count
            self._centred = x - tf.reshape(mean, self._per_channel)
            variance = self._of_groups(over_positions(tf.square(self._centred))) / self._count
            self._rsqrt = tf.math.rsqrt(variance + layer.epsilon)
            outputs = self._centred * tf.reshape(self._rsqrt * gamma, self._per_channel)

            def backward(b):
                s1, s2 = self._position_sums(b)
                offset = self._rsqrt * self._of_groups(gamma * s1) / self._count
                slope = self._rsqrt**3 * self._of_groups(gamma * s2) / self._count
                factors = (self._rsqrt * gamma, slope, offset)
                by_b, by_centred, offset = (tf.reshape(f, self._per_channel) for f in factors)
                return b * by_b - self._centred * by_centred - offset

            return outputs + beta, backward

        return normalized(inputs)

    def parameter_gradients(self, b):
        """The gradients of each row by gamma and beta, [rows, channels] each."""
        s1, s2 = self._position_sums(b)
        return self._rsqrt * s2, s1

    def _position_sums(self, b):
        # Asked for twice, by the backward pass and for the norms.
        if b.ref() not in self._sums:
            self._sums[b.ref()] = over_positions(b), over_positions(b * self._centred)
        return self._sums[b.ref()]

    def _of_groups(self, x):
        """The sum over the channels of a group, for each of its channels: [rows, channels]."""
        channels = x.shape[-1]
        grouped = tf.reshape(x, [-1, self._groups, channels // self._groups])
        total = tf.reduce_sum(grouped, axis=2, keepdims=True)
        repeated = tf.broadcast_to(total, [size(grouped, 0), *grouped.shape[1:]])
        return tf.reshape(repeated, [-1, channels])
