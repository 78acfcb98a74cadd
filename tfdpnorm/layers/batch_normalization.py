"""Private batch normalisation: with frozen statistics, or with noisy statistics."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.arguments import decay, positive, within
from tfdpnorm.dtypes import at_least_float32
from tfdpnorm.keras_compat.devices_and_precision import no_autocast
from tfdpnorm.keras_compat.graphs import current_graph, only_infers_shapes
from tfdpnorm.keras_compat.layers import axes_of

if TYPE_CHECKING:
    from collections.abc import Sequence


@keras.utils.register_keras_serializable(package="tfdpnorm")
class FrozenBatchNormalization(keras.layers.BatchNormalization):
    """Keras' batch normalisation in inference mode, in training too.

    y = gamma (z - moving_mean) / sqrt(moving_variance + epsilon) + beta, per channel. The moving
    averages are constants, such as those of a pre-trained model; gamma and beta are learnt, unless
    the layer is frozen altogether (`trainable = False`).

    Privacy:
        Per-example: no statistics are computed, and only the optimizer writes variables. The
        averages are released as they are: they must not come from private data.

    Args:
        **settings: Arguments of `keras.layers.BatchNormalization`.

    Call arguments:
        inputs: [rows, ..., channels, ...], of the channels of `axis`.
        training: Ignored.

    Raises:
        ValueError: as `keras.layers.BatchNormalization`.

    Example::

        outputs = tfdpnorm.FrozenBatchNormalization()(x, training=True)  # by moving averages

    Reference:
        Ioffe, Szegedy (2015), "Batch normalization", Algorithm 2, step 11.
    """

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        del training
        return super().call(inputs, training=False)

    def normalized(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """The layer without gamma and beta, in float32 where it computes in less."""
        del training
        axes = [axis % inputs.shape.rank for axis in axes_of(self)]
        shape = [size if i in axes else 1 for i, size in enumerate(inputs.shape)]
        mean, variance = (
            tf.reshape(tf.convert_to_tensor(v), shape)
            for v in (self.moving_mean, self.moving_variance)
        )
        return (tf.cast(inputs, mean.dtype) - mean) * tf.math.rsqrt(variance + self.epsilon)


# Outside of these, squares of truncated activations leave the range that float32 averages well.
_CLIP_RANGE = (1e-6, 1e6)


@keras.utils.register_keras_serializable(package="tfdpnorm")
class NoisedBatchNormalization(keras.layers.Layer):
    """Batch normalisation whose running averages are released with noise.

    y = gamma (z - mean) / sqrt(variance + epsilon) + beta per channel, where z are the inputs,
    truncated to [-C', C'], mean = m1 and variance = max(m2 - m1^2, 0), and m1 and m2 are *running*
    averages of z and of z^2. Both training and inference normalise by the running averages, never
    by moments of the batch. A private model (`tfdpnorm.make_private`) moves them once after each
    update,

        m <- momentum m + (1 - momentum) (sum of the batch's rows + noise) / L

    with L the *expected* batch size, and keeps them in the range that truncation allows. What a row
    adds are its own means over positions, [channels]. Nothing moves the averages in an ordinary
    `fit`, nor those of a frozen layer (`trainable = False`). This is the alternative that Davody et
    al. (2020) compare with their public statistics; gradients treat the averages as constants.

    How far one row moves what is noised: per channel a row adds a = mean z, |a| <= C', and
    b = mean z^2, 0 <= b <= C'^2, *whatever the other rows are*. So adding or removing it moves
    sum a / L by at most sqrt(channels) C' / L in l2 and sum b / L by sqrt(channels) C'^2 / L, in
    batches of any size. The paper's S_mu = C' / L is the first one per channel. Its
    S_var = C'^2 (3 / L - 3 / L^2 + 1 / L^3) is for the variance itself as the query,
    V = sum b / L - m^2 with m = sum a / L: a row x moves V by x^2 / L - 2 m x / L - x^2 / L^2, at
    most C'^2 (3 / L - 3 / L^2) while |m| <= (L - 1) C' / L, that is in batches of at most L rows. A
    Poisson-sampled batch may have more; then it takes m clipped to C' and C'^2 (3 / L - 1 / L^2).
    Noising sum b instead, and subtracting m1^2 from what was released, costs less than either:
    the variance's error is then, to first order, noise on sum b and 2 |m| times that on sum a, at
    most sqrt(1 + 4) = 2.24 < 3 times C'^2 / L in units of the noise multiplier, and averaging over
    updates comes before the only step that is not linear.

    Privacy:
        Per-example: row i of the output depends on row i, the weights and the running averages
        only. No call writes a variable.

    Args:
        activation_clip: C', the bound on the absolute value of the inputs. Inputs beyond it
            have no gradient. The noise on the averages is proportional to it.
        momentum: The share of the running averages that an update keeps, 0 <= momentum < 1.
            Averaging reduces the noise: its variance shrinks by (1 - momentum) / (1 + momentum).
        epsilon: Added to the variance, > 0, so that the divisor is at least its root.
        center: Whether there is a beta.
        scale: Whether there is a gamma.
        **kwargs: As for every Keras layer, such as `name`.

    Call arguments:
        inputs: [rows, ..., channels], floating point, at least 2-D.
        training: Ignored.
        mask: None, or [rows, ...]: false for positions that the row's means leave out.

    Reference:
        Davody, Adelani, Kleinbauer, Klakow (2020), "On the effect of normalization layers on
        differentially private training of deep neural networks", Section 3.
    """

    axis = -1

    def __init__(
        self,
        activation_clip: float = 2.0,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.activation_clip = within(
            "activation_clip",
            activation_clip,
            *_CLIP_RANGE,
            remedy="Choose about twice the standard deviation of the normalised activations.",
        )
        self.momentum = decay(
            "momentum",
            momentum,
            remedy="It is the share of the running averages that an update keeps.",
        )
        self.epsilon = positive("epsilon", epsilon, remedy="With noise, a variance may be 0.")
        self.center = bool(center)
        self.scale = bool(scale)
        self.gamma = self.beta = None
        self.supports_masking = True

    def build(self, input_shape: Sequence[int | None]) -> None:
        if len(input_shape) < 2 or input_shape[-1] is None:
            raise ValueError(
                f"Expected an input [rows, ..., channels] with a known number of channels, got "
                f"shape {tuple(input_shape)} in layer {self.name!r}."
            )

        def weight(name, initial, trainable):
            return self.add_weight(
                name=name,
                shape=(input_shape[-1],),
                dtype=self._moments_dtype,
                initializer=keras.initializers.Constant(initial),
                trainable=trainable,
                **no_autocast(self.add_weight),
            )

        if self.scale:
            self.gamma = weight("gamma", 1.0, True)
        if self.center:
            self.beta = weight("beta", 0.0, True)
        self.running_mean = weight("running_mean", 0.0, False)
        second_moment = min(1.0, self.moment_bounds[1])
        self.running_second_moment = weight("running_second_moment", second_moment, False)
        super().build(input_shape)

    @property
    def moment_bounds(self) -> tuple[float, float]:
        """(C', C'^2): bounds on the absolute value of a row's two moments, in each channel."""
        return self.activation_clip, self.activation_clip**2

    def row_moments(
        self, inputs: tf.Tensor, mask: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Each row's mean of the truncated inputs and of their squares.

        Args:
            inputs: [rows, ..., channels].
            mask: bool [rows, steps], False for steps that do not count; or None.

        Returns:
            Pair of [rows, channels], within `moment_bounds` whatever the inputs hold: a moment that
            is NaN, or of no position, counts as 0.
        """
        values = self._truncated(inputs)
        axes = list(range(1, values.shape.rank - 1))
        weights = None
        if mask is not None:
            shape = tf.concat([tf.shape(values)[:-1], [1]], 0)
            missing = [1] * (values.shape.rank - mask.shape.rank)
            weights = tf.reshape(mask, tf.concat([tf.shape(mask), missing], 0))
            weights = tf.broadcast_to(tf.cast(weights, values.dtype), shape)

        def mean(x, least, most):
            if weights is None:
                found = tf.reduce_mean(x, axes)
            else:
                total = tf.reduce_sum(weights, axes)
                found = tf.math.divide_no_nan(
                    tf.reduce_sum(tf.math.multiply_no_nan(x, weights), axes), total
                )
            # The bound holds for the mean in float32, too.
            found = tf.clip_by_value(found, least, most)
            return tf.where(tf.math.is_nan(found), tf.zeros_like(found), found)

        first, second = self.moment_bounds
        return mean(values, -first, first), mean(tf.square(values), 0.0, second)

    def update_averages(self, mean: tf.Tensor, second_moment: tf.Tensor) -> None:
        """Moves the running averages.

        Args:
            mean: [channels], the released mean of a batch.
            second_moment: [channels], the released mean of squares. **Both must be noised
                already**: they are released with the weights.
        """
        first, second = self.moment_bounds
        for average, value, least, most in (
            (self.running_mean, mean, -first, first),
            (self.running_second_moment, second_moment, 0.0, second),
        ):
            value = tf.cast(value, average.dtype)
            moved = self.momentum * average + (1.0 - self.momentum) * value
            average.assign(tf.clip_by_value(moved, least, most))

    def call(
        self, inputs: tf.Tensor, training: bool | None = None, mask: tf.Tensor | None = None
    ) -> tf.Tensor:
        del training  # the same in both
        recorder = _current_recorder()
        if recorder is not None:
            recorder.record(self, inputs, mask)
        outputs = self.normalized(inputs)
        if self.gamma is not None:
            outputs *= tf.convert_to_tensor(self.gamma)
        if self.beta is not None:
            outputs += tf.convert_to_tensor(self.beta)
        return tf.cast(outputs, self.compute_dtype)

    def normalized(self, inputs: tf.Tensor) -> tf.Tensor:
        """The layer without gamma and beta, [rows, ..., channels], float32 at least."""
        mean = tf.convert_to_tensor(self.running_mean)
        second_moment = tf.convert_to_tensor(self.running_second_moment)
        variance = tf.maximum(second_moment - tf.square(mean), 0.0)
        return (self._truncated(inputs) - mean) * tf.math.rsqrt(variance + self.epsilon)

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> tuple | tf.TensorShape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "activation_clip": self.activation_clip,
            "momentum": self.momentum,
            "epsilon": self.epsilon,
            "center": self.center,
            "scale": self.scale,
        }

    @property
    def _moments_dtype(self):
        return at_least_float32(self.compute_dtype).name

    def _truncated(self, inputs):
        values = tf.cast(inputs, self._moments_dtype)
        return tf.clip_by_value(values, -self.activation_clip, self.activation_clip)


class _RecordedRowMoments(NamedTuple):
    """The `row_moments` of one call of one layer, [rows, channels] each. **Not private.**"""

    layer: Any
    mean: tf.Tensor
    second_moment: tf.Tensor


class _Recorder:
    """The current recording."""

    def __init__(self):
        self.moments = []
        self._graph = current_graph()

    def record(self, layer, inputs, mask):
        graph = current_graph()
        if graph is not self._graph:
            if only_infers_shapes(graph):
                return
            raise ValueError(
                f"NoisedBatchNormalization {layer.name!r} is called inside a loop, a condition or "
                "a function of TensorFlow, which its statistics cannot leave. Use "
                "GroupNormalization or LayerNormalization there."
            )
        self.moments.append(_RecordedRowMoments(layer, *layer.row_moments(inputs, mask)))


_active = threading.local()


def _current_recorder():
    return getattr(_active, "recorder", None)


@contextlib.contextmanager
def record_row_moments():
    """Context of ONE forward pass: yields a list that collects `_RecordedRowMoments`, by call."""
    before, _active.recorder = _current_recorder(), _Recorder()
    try:
        yield _active.recorder.moments
    finally:
        _active.recorder = before
