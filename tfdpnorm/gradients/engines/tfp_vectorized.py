"""The clipped gradient sum by tensorflow-privacy's vectorised optimizer classes."""

import functools

import tensorflow as tf

from tfdpnorm.gradients.clipping import ClippedSum, Clipping, accumulation_dtype
from tfdpnorm.gradients.engines.per_example import check_connected, per_example
from tfdpnorm.gradients.map_rows import refused_unless_vectorized

_BASES = ("SGD", "Adam", "Nadam")

# tensorflow-privacy turns an infinite clip into NaN. A finite gradient has a squared norm within
# float32, and so a norm below this.
_NO_CLIP = 1e30


@functools.cache
def _optimizer_class(base):
    # Imported on use: it takes seconds, and only these engines need it.
    from tensorflow_privacy.privacy.optimizers import dp_optimizer_keras_vectorized as vectorized

    return vectorized.make_vectorized_keras_optimizer_class(
        getattr(tf.keras.optimizers.legacy, base)
    )


def check_optimizer(optimizer):
    """Refuses optimizers of which tensorflow-privacy has no vectorised class.

    Args:
        optimizer: A Keras optimizer.

    Returns:
        The name of its class.

    Raises:
        ValueError: naming those that it has.
    """
    base = type(optimizer).__name__
    if base not in _BASES:
        raise ValueError(
            f"Expected one of the optimizers {_BASES} with engine='tfp_vectorized', got {base!r}. "
            "Use engine='per_example', which takes any optimizer."
        )
    return base


def tfp_vectorized(base, loss_fn, rows, variables, clipping, *, rows_mix=False):
    """The clipped sum, clipped and summed inside tensorflow-privacy's optimizer.

    The optimizer is used for its clipped sum only, at noise multiplier 0: its noise repeats under
    a global seed, it divides by the actual batch size, an empty batch gives NaN, and one
    non-finite gradient spoils the whole sum. Noise and denominator are this library's, and
    non-finite rows are taken out of the Jacobian before the optimizer sees it.

    Time and memory grow with the square of the rows. `rows_mix` needs nothing here: the optimizer
    differentiates the whole batch anyway. That is also why 0 * inf in one row makes NaN of every
    row's gradient; such a batch is left to `per_example`, which keeps rows apart.

    Args:
        base: Name of the Keras optimizer class, "SGD", "Adam" or "Nadam".
        loss_fn: As in `tfdpnorm.gradients.per_example`, as are the other arguments.
        rows: Tuple `(x, y, sample_weight, mask)` of [rows, ...].
        variables: The variables to differentiate by.
        clipping: `tfdpnorm.gradients.Clipping` that `is_plain`, or a number C.
        rows_mix: Whether the loss of a row depends on the other rows.

    Returns:
        A `ClippedSum`.

    Raises:
        ValueError: for an operation that TensorFlow cannot vectorise over rows.
    """
    clipping = Clipping.of(clipping)
    loss_scale = clipping.loss_scale
    x, y, sample_weight, mask = rows
    optimizer = _optimizer_class(base)(
        l2_norm_clip=min(float(clipping.l2_norm_clip) * float(loss_scale), _NO_CLIP),
        noise_multiplier=0.0,
        num_microbatches=None,
        learning_rate=1.0,
    )
    tape = _MaskedTape(variables, mask, clipping.weights_of(variables))
    outputs = {}

    def losses():
        outputs["losses"], outputs["predictions"] = loss_fn(x, y, sample_weight)
        return outputs["losses"] * loss_scale

    with refused_unless_vectorized("tfp_vectorized"):
        pairs = optimizer._compute_gradients(losses, variables, tape=tape)
    count = tf.shape(mask)[0]
    # An empty batch has no mean; its sum is zero.
    gradients = [
        tf.where(count > 0, tf.cast(g, accumulation_dtype(v)), 0.0)
        * tf.cast(count, accumulation_dtype(v))
        / tf.cast(loss_scale, accumulation_dtype(v))
        for g, v in pairs
    ]
    nonfinite = tape.nonfinite
    if not rows_mix:

        def rows_apart():
            total = per_example(loss_fn, rows, variables, clipping)
            return total.gradients, total.nonfinite

        gradients, nonfinite = tf.cond(tape.all_finite, lambda: (gradients, nonfinite), rows_apart)
    return ClippedSum(gradients, outputs["losses"], outputs["predictions"], nonfinite)


class _MaskedTape:
    """A `tf.GradientTape` whose Jacobian is zero for padding and for non-finite rows."""

    def __init__(self, variables, mask, weights):
        self._tape = tf.GradientTape(watch_accessed_variables=False, persistent=True)
        self._variables = variables
        self._mask = mask
        self._weights = weights
        self.nonfinite = None
        self.all_finite = None

    def __enter__(self):
        self._tape.__enter__()
        self._tape.watch(self._variables)
        return self

    def __exit__(self, *details):
        self._tape.__exit__(*details)

    def watch(self, variables):
        self._tape.watch(variables)

    def jacobian(self, losses, variables, unconnected_gradients=None):
        del unconnected_gradients
        jacobian = self._tape.jacobian(losses, variables)
        check_connected(jacobian, variables)
        jacobian = [rows * w for rows, w in zip(jacobian, self._weights, strict=True)]
        finite = tf.ones_like(self._mask, tf.bool)
        for rows in jacobian:
            finite &= tf.math.is_finite(
                tf.reduce_sum(tf.square(rows), axis=list(range(1, rows.shape.rank)))
            )
        self.all_finite = tf.reduce_all(finite)
        inside = tf.cast(self._mask, tf.float32) > 0
        self.nonfinite = tf.reduce_sum(tf.cast(inside & ~finite, tf.int32))
        kept = inside & finite
        return [
            tf.where(tf.reshape(kept, [-1] + [1] * (r.shape.rank - 1)), r, tf.zeros_like(r))
            for r in jacobian
        ]
