"""The public statistics of one forward pass: how they are recorded, used and differentiated.

A network with layers that have public moments (`PublicMomentsLayer`, which computes them: see
`tfdpnorm.layers.public_batch_normalization`) is run as two streams. The *public* stream runs
the public rows alone and records each layer's moments; the *private* stream runs the private
rows and normalises them with the recorded moments. No private row is ever in the public stream, so
a row of the private stream depends on no other private row.

    statistics = PublicStatistics()
    with record_pass(statistics):
        model(public_batch, training=True)
    with use_pass(statistics):
        predictions = model(x, training=True)
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import tensorflow as tf

from tfdpnorm.keras_compat.variables import raw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from tensorflow import keras


class RecordedMoments(NamedTuple):
    """Moments that one call of one layer computed in the public stream, from so many `rows`.

    Mean and variance are [channels], float32 (float64 in a float64 layer); the variance is biased
    (divided by the number of values).
    """

    layer: Any
    mean: tf.Tensor
    variance: tf.Tensor
    rows: tf.Tensor


class PublicStatistics:
    """The moments of every `PublicBatchNormalization` call of one public pass, in call order."""

    def __init__(self) -> None:
        self.moments: list[RecordedMoments] = []

    def of_layer(self, layer: keras.layers.Layer) -> list[RecordedMoments]:
        """Returns the list of `RecordedMoments` of `layer`, one for each of its calls."""
        return [moments for moments in self.moments if moments.layer is layer]

    def store(self) -> None:
        """Writes the moments into the layers' own weights, for inference without public rows.

        Raises:
            ValueError: if a layer was called more than once: it has one pair of weights.
        """
        for moments in self.moments:
            if len(self.of_layer(moments.layer)) > 1:
                raise ValueError(
                    f"Expected one call of layer {moments.layer.name!r} in a forward pass, got "
                    f"{len(self.of_layer(moments.layer))}. Give each place in the network its own "
                    "PublicBatchNormalization: they do not share moments. A layer in a loop over "
                    "steps is called once per step."
                )
            moments.layer.store_moments(moments.mean, moments.variance, moments.rows)


class Pass:
    """The role of the layers in the current forward pass.

    Attributes:
        kind: "record" (moments of all rows, and keep them), "use" (recorded moments), or
            "joint" (moments of all rows, kept nowhere).
        statistics: The `PublicStatistics` written or read; None in a joint pass.
        row_weights: [rows], weights of the rows in moments of all rows; None for equal weights.
    """

    def __init__(self, kind, statistics=None, row_weights=None):
        self.kind = kind
        self.statistics = statistics
        self.row_weights = row_weights
        self._calls = {}

    def next_moments(self, layer):
        """Returns the recorded moments for this call of `layer` (its first, its second, ...)."""
        recorded = self.statistics.of_layer(layer)
        call = self._calls.get(id(layer), 0)
        if call >= len(recorded):
            raise ValueError(
                f"Expected layer {layer.name!r} to have been called at least {call + 1} time(s) in "
                f"the public pass, got {len(recorded)}. The public rows must take the same path "
                "through the network as the private rows."
            )
        self._calls[id(layer)] = call + 1
        return recorded[call]


_active = threading.local()


def current_pass():
    """Returns the innermost `Pass` of this thread, or None."""
    stack = getattr(_active, "stack", ())
    return stack[-1] if stack else None


@contextlib.contextmanager
def _entered(forward_pass):
    if not hasattr(_active, "stack"):
        _active.stack = []
    _active.stack.append(forward_pass)
    try:
        yield forward_pass
    finally:
        _active.stack.pop()


def record_pass(
    statistics: PublicStatistics, row_weights: tf.Tensor | None = None
) -> AbstractContextManager[None]:
    """Context of ONE forward pass whose rows are all public: record moments in `statistics`.

    Args:
        statistics: `PublicStatistics` that the moments are written to.
        row_weights: [rows], what each row counts in the moments; None for 1.

    Returns:
        A context manager.
    """
    return _entered(Pass("record", statistics, row_weights))


def use_pass(statistics: PublicStatistics) -> AbstractContextManager[None]:
    """Context of ONE forward pass of private rows, normalised with recorded `statistics`.

    Args:
        statistics: `PublicStatistics` of the public pass.

    Returns:
        A context manager.
    """
    return _entered(Pass("use", statistics))


def joint_pass(row_weights: tf.Tensor | None = None) -> AbstractContextManager[None]:
    """Context of ONE forward pass whose rows, private and public, share their moments.

    Private only if at most one private row is among them (mode `example`); with several (mode
    `lot`) one row moves the gradients of all the others.

    Args:
        row_weights: [rows], what each row counts in the moments; None for 1.

    Returns:
        A context manager.
    """
    return _entered(Pass("joint", row_weights=row_weights))


def pull_back(
    tape: tf.GradientTape,
    statistics: PublicStatistics,
    gradient_of: Callable[[tf.Variable], tf.Tensor],
    variables: Sequence[tf.Variable],
) -> list[tf.Tensor]:
    """The part of a gradient that reaches `variables` through the public statistics.

    With y = gamma (z - mu) / sqrt(v + eps) + beta, the loss depends on a layer's public moments by

        dl/dmu = -gamma / sqrt(v + eps) * dl/dbeta       dl/dv = -gamma / (2 (v + eps)) * dl/dgamma

    so that sums over examples of the right-hand gradients, *already clipped and noisy*, give the
    sums of the left-hand ones, and one vector-Jacobian product of the public pass gives the missing
    term. Everything else in it is public: the result is post-processing of released numbers.

    Args:
        tape: `tf.GradientTape` under which the public pass was recorded.
        statistics: `PublicStatistics` of that pass.
        gradient_of: Function from a variable (a layer's gamma or beta) to its released gradient.
        variables: The trainable variables to pull back to.

    Returns:
        List of tensors (zeros where no statistic depends on a variable), like `variables`.

    Raises:
        ValueError: if a layer was called twice in the pass: one sum does not give both parts.
    """
    targets, cotangents = [], []
    for moments in statistics.moments:
        layer = moments.layer
        if layer.statistics_gradient != "full":
            continue
        if len(statistics.of_layer(layer)) > 1:
            raise ValueError(
                f"Expected one call of layer {layer.name!r} in a forward pass, got "
                f"{len(statistics.of_layer(layer))}: only the sum of the gradients of all calls is "
                "known, not the gradient of each call. Give each place in the network its own "
                'PublicBatchNormalization, or use statistics_gradient="stop".'
            )
        gamma = tf.cast(layer.gamma, moments.mean.dtype)
        inverse_variance = 1.0 / (tf.stop_gradient(moments.variance) + layer.epsilon)
        beta_gradient = tf.cast(gradient_of(raw(layer.beta)), moments.mean.dtype)
        gamma_gradient = tf.cast(gradient_of(raw(layer.gamma)), moments.mean.dtype)
        targets += [moments.mean, moments.variance]
        cotangents += [
            -gamma * tf.sqrt(inverse_variance) * beta_gradient,
            -0.5 * gamma * inverse_variance * gamma_gradient,
        ]
    if not targets:
        return [tf.zeros_like(variable) for variable in variables]
    return tape.gradient(
        targets,
        raw(list(variables)),
        output_gradients=cotangents,
        unconnected_gradients=tf.UnconnectedGradients.ZERO,
    )
