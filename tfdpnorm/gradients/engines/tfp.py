"""The clipped gradient sum by tensorflow-privacy: its vectorised optimizer, and its `DPModel`.

Both adapters take the clipped sum alone, at noise multiplier 0: noise and denominator are this
library's.
"""

import functools

import tensorflow as tf

from tfdpnorm.gradients.clipping import ClippedSum, Clipping, accumulation_dtype
from tfdpnorm.gradients.engines.per_example import check_connected, per_example
from tfdpnorm.gradients.map_rows import refused_unless_vectorized

# --- the optimizer classes ---

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
    """Rejects optimizers without a class in tensorflow-privacy; returns the name of the class."""
    base = type(optimizer).__name__
    if base not in _BASES:
        raise ValueError(
            f"Expected one of the optimizers {_BASES} with engine='tfp_vectorized', got {base!r}. "
            "Use engine='per_example', which takes any optimizer."
        )
    return base


def tfp_vectorized(base, loss_fn, rows, variables, clipping):
    """The clipped sum, clipped and summed inside tensorflow-privacy's optimizer.

    The optimizer is used for its clipped sum only, at noise multiplier 0: its noise repeats under a
    global seed, it divides by the actual batch size, an empty batch gives NaN, and one non-finite
    gradient spoils the whole sum. Noise and denominator are this library's, and non-finite rows are
    taken out of the Jacobian before the optimizer sees it.

    Time and memory grow with the square of the rows: the optimizer differentiates the whole batch.
    That is also why 0 * inf in one row makes NaN of every row's gradient; such a batch is left to
    `per_example`, which keeps rows apart.

    `base` is the name of the Keras optimizer class, and a `Clipping` has to be `is_plain`; the
    other arguments are those of `per_example`. Operations that TensorFlow cannot vectorise over
    rows are rejected.
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

    def rows_apart():
        total = per_example(loss_fn, rows, variables, clipping)
        return total.gradients, total.nonfinite

    gradients, nonfinite = tf.cond(tape.all_finite, lambda: (gradients, tape.nonfinite), rows_apart)
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


# --- the training step of DPModel ---


def tfp_model(loss_fn, rows, variables, clipping):
    """The clipped sum, from `DPModel.train_step` with the noise multiplier 0.

    `DPModel` is used for its clipped mean only; noise and denominator are this library's, and a
    non-finite gradient is zeroed before it is clipped (left to itself, it spoils the whole mean).

    The arguments are those of `per_example`, but a `Clipping` has to be `is_plain` and variables
    trainable, since `DPModel` watches no others. Operations that TensorFlow cannot vectorise over
    rows (the loop of a masked LSTM or GRU) are rejected.
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
