"""The clipped gradient sum by the training step of tensorflow-privacy's `DPModel`."""

import functools

import tensorflow as tf

from tfdpnorm.gradients.clipping import ClippedSum, Clipping, accumulation_dtype
from tfdpnorm.gradients.engines.per_example import check_connected
from tfdpnorm.gradients.map_rows import refused_unless_vectorized


def tfp_model(loss_fn, rows, variables, clipping):
    """The clipped sum, from `DPModel.train_step` with the noise multiplier 0.

    `DPModel` is used for its clipped mean only; noise and denominator are this library's, and a
    non-finite gradient is zeroed before it is clipped (left to itself, it spoils the whole mean).

    Args:
        loss_fn: As in `tfdpnorm.gradients.per_example`, as are the other arguments.
        rows: Tuple `(x, y, sample_weight, mask)` of [rows, ...].
        variables: The variables to differentiate by; trainable ones only, since `DPModel` watches
            no others.
        clipping: `tfdpnorm.gradients.Clipping` that `is_plain`, or a number C.

    Returns:
        A `ClippedSum`.

    Raises:
        ValueError: for a variable that is not trainable, and for an operation that TensorFlow
            cannot vectorise over rows (the loop of a masked LSTM or GRU).
    """
    clipping = Clipping.of(clipping)
    untrained = [v.name for v in variables if not v.trainable]
    if untrained:
        raise ValueError(
            f'Expected trainable variables with engine="tfp_model", got {untrained} (the gradient '
            "through public statistics needs them although scale or center is off). Use "
            'engine="per_example".'
        )
    *row, mask = rows
    loss_scale = float(clipping.loss_scale)
    factors = [weight / loss_scale for weight in clipping.weights_of(variables)]
    step = _step_class()(loss_fn, variables, float(clipping.l2_norm_clip), loss_scale, factors)
    # The whole row is the model's "input", so that loss_fn sees it unchanged.
    with refused_unless_vectorized("tfp_model"):
        step.train_step(((*row, mask), mask))
    count = tf.shape(mask)[0]

    def total(mean):
        # An empty batch has no mean; its sum is zero.
        return tf.where(count > 0, mean, tf.zeros_like(mean)) * tf.cast(count, mean.dtype)

    *means, nonfinite = step.optimizer.gradients
    gradients = [
        total(tf.cast(g, accumulation_dtype(v))) for g, v in zip(means, variables, strict=True)
    ]
    losses, predictions = step.compiled_loss.outputs
    nonfinite = tf.cast(tf.round(total(nonfinite)), tf.int32)
    return ClippedSum(gradients, losses, predictions, nonfinite)


class _Keep:
    """Stands in for what `DPModel` expects of a compiled model, and keeps what it is given."""

    gradients = None
    outputs = None

    def apply_gradients(self, pairs):
        self.gradients = [gradient for gradient, _ in pairs]

    def update_state(self, *_):
        pass

    def __call__(self, y, outputs, **_):
        self.outputs = outputs


@functools.cache
def _step_class():
    # Imported on use: it takes seconds, and only these engines need it.
    from tensorflow_privacy.privacy.keras_models.dp_keras_model import DPModel

    class Step(DPModel):
        """`DPModel` around a loss: inputs are whole rows, outputs (losses, predictions)."""

        def __init__(self, loss_fn, variables, l2_norm_clip, loss_scale, factors):
            super().__init__(l2_norm_clip=l2_norm_clip, noise_multiplier=0.0, use_xla=False)
            self._loss_fn = loss_fn
            # Keras tracks variables in lists; hidden in a function they stay the caller's.
            self._get_variables = lambda: variables
            self._loss_scale = loss_scale
            self._factors = tuple(factors)
            self._clipping_loss = self._masked_loss
            self.optimizer = self.compiled_loss = self.compiled_metrics = _Keep()

        @property
        def trainable_variables(self):
            # One more, without a gradient: the place in which non-finite rows are counted.
            return [*self._get_variables(), tf.constant(0.0)]

        def call(self, row, training=None):
            x, y, sample_weight, _ = row
            return self._loss_fn(x, y, sample_weight)

        def _masked_loss(self, mask, outputs, sample_weight=None):
            losses, _ = outputs
            self._inside = mask > 0  # of the row whose gradient is processed next
            return tf.reduce_sum(tf.where(mask > 0, losses, tf.zeros_like(losses))) * tf.cast(
                self._loss_scale, losses.dtype
            )

        def _process_per_example_grads(self, grads):
            *grads, _ = grads
            check_connected(grads, self._get_variables())
            grads = [tf.convert_to_tensor(g) * f for g, f in zip(grads, self._factors, strict=True)]
            squared_norm = tf.add_n(
                [tf.cast(tf.reduce_sum(tf.square(g)), tf.float32) for g in grads]
            )
            finite = tf.math.is_finite(squared_norm)
            grads = [tf.where(finite, g, tf.zeros_like(g)) for g in grads]
            clipped = super()._process_per_example_grads(grads)
            counted = tf.reduce_any(self._inside) & ~finite
            return [*clipped, tf.cast(counted, tf.float32)]

    return Step
