"""Normalisation by moments of public rows: the layers, and calls of models that hold them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.arguments import choice, positive, refusal
from tfdpnorm.choices import STATISTICS, STATISTICS_GRADIENTS
from tfdpnorm.dtypes import at_least_float32
from tfdpnorm.keras_compat.devices_and_precision import no_autocast
from tfdpnorm.keras_compat.layers import one_call_inside
from tfdpnorm.keras_compat.models import sublayers
from tfdpnorm.layers.public_statistics import RecordedMoments, current_pass

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class PublicMomentsLayer(keras.layers.Layer):
    """Normalises by the per-channel moments that `statistics` names; stores the public moments.

    See `PublicBatchNormalization` for what `statistics` means and where the moments come from.

    Args:
        axis: The channel axis, any but 0 (the batch).
        statistics: One of "public", "blend", "example", "lot".
        **kwargs: As for every Keras layer, such as `name`.
    """

    # Whether `pull_back` differentiates what the layer does with its moments: "full" or "stop".
    statistics_gradient = "stop"

    def __init__(self, axis: int = -1, statistics: str = "public", **kwargs: Any) -> None:
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
    def moments_variables(self) -> list[tf.Variable]:
        """The variables that `store_moments` writes, a list; empty before the layer is built."""
        if not self.built:
            return []
        return [self.public_mean, self.public_variance, self.public_rows]

    @property
    def _moments_dtype(self):
        return at_least_float32(self.compute_dtype).name

    def store_moments(self, mean: tf.Tensor, variance: tf.Tensor, rows: int) -> None:
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
            f"{type(self).__name__} was trained outside of a private model. Expected: private = "
            "tfdpnorm.make_private(model, plan, public_batch=...); private.fit(...). An ordinary "
            "fit does not update its statistics."
        )

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple | tf.TensorShape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "axis": self.axis, "statistics": self.statistics}


def called_with_public_moments(model: keras.Model, x: Any, training: bool | None) -> Any:
    """Returns `model(x, training=training)`, with each layer that has public moments called once.

    Such a layer inside TimeDistributed has its moments over all steps, as the rule that trains it
    has. Keras would run it step after step where the number of rows is known, or for a layer that
    is not its own, and once more for the mask.
    """
    with contextlib.ExitStack() as stack:
        for layer in sublayers(model):
            if isinstance(layer, keras.layers.TimeDistributed):
                if any(isinstance(inner, PublicMomentsLayer) for inner in sublayers(layer)):
                    stack.enter_context(one_call_inside(layer))
        return model(x, training=training)


@keras.utils.register_keras_serializable(package="tfdpnorm")
class PublicBatchNormalization(PublicMomentsLayer):
    """Batch normalisation with the moments of a public batch.

    y = gamma (z - mean) / sqrt(variance + epsilon) + beta, per channel. A private model
    (`tfdpnorm.make_private`) runs M public rows through the network with the private rows;
    `statistics` says which rows give `mean` and `variance` for private row i:

    * `"public"`: the public rows alone, at every layer. Inference needs no public rows: the
      moments are stored in the layer, which can be folded into a stock `BatchNormalization`.
    * `"blend"`: mean = (M mean_p + mean_i) / (M + 1) and variance = (M variance_p + variance_i) /
      (M + 1) + M (mean_i - mean_p)^2 / (M + 1)^2, where p are the public rows and i is row i
      alone. It bounds the normalised value of a dense layer by sqrt(M).
    * `"example"`: exactly the rows {x_i} and all public rows, run once for each example: the test
      phase of Davody et al. (2020), Algorithm 1. 1 + M times the work; a reference.
    * `"lot"`: all private and public rows of a batch together: the training phase of Davody et al.
      (2020), Algorithm 1, as printed. NOT private.

    `statistics_gradient="full"` includes the gradient through the public moments (see
    `tfdpnorm.layers.pull_back`). `"stop"` treats the moments as constants, which is private as
    well, but loses the invariance to the scale of the weights, and trains badly with noise.

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
        **kwargs: As for every Keras layer, such as `name`.

    Call arguments:
        inputs: [rows, ..., channels, ...], 2-D to 5-D, floating point. Moments are taken in
            float32 where the layer computes in less.
        training: Only used to reject training outside of a private model.

    Raises:
        ValueError: for a value out of its range; and when it is called, for an input without such
            an axis.

    Example::

        model = keras.Sequential(
            [
                keras.Input([4]),
                keras.layers.Dense(8, use_bias=False),
                tfdpnorm.PublicBatchNormalization(),
                keras.layers.Dense(3),
            ]
        )
        private = tfdpnorm.make_private(model, plan, public_batch=public_rows)

    Reference:
        Davody, Adelani, Kleinbauer, Klakow (2020), "On the effect of normalization layers on
        differentially private training of deep neural networks", Algorithm 1.
    """

    def __init__(
        self,
        axis: int = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        statistics: str = "public",
        statistics_gradient: str = "full",
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        **kwargs: Any,
    ) -> None:
        super().__init__(axis, statistics, **kwargs)
        self.epsilon = positive("epsilon", epsilon)
        self.center = bool(center)
        self.scale = bool(scale)
        self.statistics_gradient = choice(
            "statistics_gradient", statistics_gradient, STATISTICS_GRADIENTS
        )
        self.beta_initializer = keras.initializers.get(beta_initializer)
        self.gamma_initializer = keras.initializers.get(gamma_initializer)

    def build(self, input_shape: Sequence[int | None]) -> None:
        channels = self._set_axes(input_shape)
        gamma = self.gamma_initializer if self.scale else "ones"
        beta = self.beta_initializer if self.center else "zeros"
        self.gamma = self._add_vector("gamma", gamma, self.scale, (channels,))
        self.beta = self._add_vector("beta", beta, self.center, (channels,))
        self._add_moments(channels)
        super().build(input_shape)

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        values, mean, variance = self._values_and_moments(inputs, training)
        gamma, beta = (tf.convert_to_tensor(v) for v in (self.gamma, self.beta))
        factor = self._broadcast(gamma) * tf.math.rsqrt(variance + self.epsilon)
        outputs = (values - mean) * factor + self._broadcast(beta)
        return tf.cast(outputs, self.compute_dtype)

    def normalized(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """The layer without gamma and beta: (inputs - mean) / sqrt(variance + epsilon)."""
        values, mean, variance = self._values_and_moments(inputs, training)
        return (values - mean) * tf.math.rsqrt(variance + self.epsilon)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "epsilon": self.epsilon,
            "center": self.center,
            "scale": self.scale,
            "statistics_gradient": self.statistics_gradient,
            "beta_initializer": keras.initializers.serialize(self.beta_initializer),
            "gamma_initializer": keras.initializers.serialize(self.gamma_initializer),
        }


@keras.utils.register_keras_serializable(package="tfdpnorm")
class PublicCentering(PublicMomentsLayer):
    """Subtracts the public rows' mean from each channel: y = x - mean, for a layer W before
    `PublicBatchNormalization`.

    The network computes the same as without it: normalisation subtracts W mean anyway, so that the
    mean can be held constant without an error in the gradient. What changes is each example's
    gradient with respect to W as the clip sees it, b x^T: without centring much of it lies along
    the mean. The pull-back through the public statistics removes that part again, but only after it
    has used up a share of the clipping norm.

    Use it only on the input of a layer that is linear (its bias does not matter) and directly
    followed by `PublicBatchNormalization` with the same `statistics`. Exact before dense
    layers and convolutions without padding. A padded convolution then pads with the mean instead of
    with 0: another function at the border, whose gradient by way of that mean is left out.

    Privacy:
        As `PublicBatchNormalization` with the same `statistics`; "blend" centres by the public
        rows alone.

    Args:
        axis: The channel axis, any but 0 (the batch).
        statistics: Whose moments normalise, one of `tfdpnorm.choices.STATISTICS`.

    Call arguments:
        inputs: [rows, ..., channels, ...], 2-D to 5-D, floating point.
        training: Only used to reject training outside of a private model.

    Raises:
        ValueError: as `PublicBatchNormalization`.

    Example::

        model = keras.Sequential(
            [
                keras.Input([4]),
                tfdpnorm.PublicCentering(),
                keras.layers.Dense(8),
                tfdpnorm.PublicBatchNormalization(),
                keras.layers.Dense(3),
            ]
        )
        private = tfdpnorm.make_private(model, plan, public_batch=public_rows)
    """

    def build(self, input_shape: Sequence[int | None]) -> None:
        self._add_moments(self._set_axes(input_shape))
        super().build(input_shape)

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        values, mean, _ = self._values_and_moments(inputs, training, blends=False)
        return tf.cast(values - tf.stop_gradient(mean), self.compute_dtype)
