"""The statistics of a batch that `NoisedBatchNormalization` layers learn, released with noise."""

import math

import tensorflow as tf

from tfdpnorm.keras_compat.models import sublayers
from tfdpnorm.keras_compat.variables import raw
from tfdpnorm.layers import NoisedBatchNormalization
from tfdpnorm.layers.batch_normalization import record_row_moments

DEFAULT_BUDGET_SHARE = 0.2
QUERIES_PER_LAYER = 2


def noised_layers(model):
    """Returns the `NoisedBatchNormalization` layers inside `model` that are not frozen."""
    found = [x for x in sublayers(model) if isinstance(x, NoisedBatchNormalization)]
    return [layer for layer in found if layer.trainable]


class NoisedStatistics:
    """Sums of a batch's row moments, noised in one draw with the sum of its clipped gradients.

    For each layer of K channels a row adds two vectors, a = mean z and b = mean z^2 over its
    positions, whose coordinates are bounded by C' and C'^2 whatever the row holds (see
    `NoisedBatchNormalization`). With n = 2 x layers queries and their share s of the budget, what
    a row adds to the release is the joint vector

        sqrt(1 - s) g,   C sqrt(s / (n K)) a / C',   C sqrt(s / (n K)) b / C'^2   for each layer

    where g is its clipped gradient, ||g|| <= C. Its squared norm is at most C^2 ((1 - s) + n s / n)
    = C^2: noise of standard deviation z C in every coordinate is the Gaussian mechanism with noise
    multiplier z, and adding or removing a row costs what the plan says. In each part's own units
    that is noise of z_g = z / sqrt(1 - s) and z_s = z sqrt(n / s), see `PrivacyPlan`. The
    factors are undone after the noise.

    Rows that are padding, or have a sample weight of 0 (at every step), add nothing. Sums are
    divided by the *expected* batch size: where many weights are 0, averages lean to 0.

    The layers are fixed here. Those that are frozen later take part, but keep their running
    averages.
    """

    def __init__(self, model, plan):
        self.layers = noised_layers(model)
        self._model = model
        self._plan = plan
        self._all = _all_layers(model)

    def joined(self, clipped, measured, weights, lot, row_moments, replicas):
        """Joins the statistics of a `Lot` [K, P, ...] with its clipped gradients.

        Returns a triple like the first three arguments, two running averages per layer longer. A
        row moves its first list, as one vector, by at most `plan.l2_norm_clip`.

        Args:
            clipped: List of tensors, the clipped sum with respect to `measured`.
            measured: List of variables.
            weights: None, or what each part of the sum has been multiplied by.
            row_moments: The method of that name as a function of the parts of a physical batch.
        """
        if _all_layers(self._model) != self._all:
            raise ValueError(
                f"Expected the {len(self._all)} NoisedBatchNormalization layer(s) that the model "
                f"had in make_private(), got {len(_all_layers(self._model))}. Make the layers in "
                "the model's constructor, or call the model on a batch before make_private()."
            )
        if not self.layers:
            return clipped, measured, weights
        of_gradient = math.sqrt(1 - self._plan.statistics_budget_share)
        # The factor of each sum: a row then adds at most C sqrt(s / n) to it.
        clip = self._plan.l2_norm_clip
        clip = 1.0 if math.isinf(clip) else clip  # without noise there are no units to share
        share = self._plan.statistics_budget_share / self._plan.statistics_queries
        factors = [
            clip * math.sqrt(share / layer.running_mean.shape[0]) / bound
            for layer in self.layers
            for bound in layer.moment_bounds
        ]
        sums = self._lot_sums(lot, row_moments, replicas)
        weights = weights or [1.0] * len(measured)
        return (
            [*(g * of_gradient for g in clipped), *map(tf.multiply, sums, factors)],
            [*measured, *self._averages()],
            [*(w * of_gradient for w in weights), *factors],
        )

    def update_averages(self, released):
        """Moves the running averages of the layers that are not frozen by now.

        What was planned for the others is noised all the same, and left unused: the plan, which
        the ledger accounts for, stays that of `make_private`. `released` is the noisy list that
        `joined` gave, with its factors undone.
        """
        count = QUERIES_PER_LAYER * len(self.layers)
        sums = iter(released[len(released) - count :])
        lot_size = self._plan.expected_batch_size
        for layer in self.layers:
            moments = [next(sums) / lot_size for _ in range(QUERIES_PER_LAYER)]
            if layer.trainable:
                layer.update_averages(*moments)

    def _averages(self):
        return [
            raw(average)
            for layer in self.layers
            for average in (layer.running_mean, layer.running_second_moment)
        ]

    def row_moments(self, run, weight, mask, views):
        """Returns for each layer the means and the means of squares of each example, [P, channels].

        An example's moments are the mean over its rows and their views. `run()` runs the model in
        training on the physical batch; `weight` is [P], or [P, ...] of rows of persons or of steps;
        `mask` is [P].
        """
        with record_row_moments() as moments:
            run()
        share = None
        if views.rows_per_person is not None:
            # A mean over rows of persons becomes one over those that have a weight.
            counted = tf.cast(_any_weight(views.repeated(weight)), tf.float32)
            mean = tf.repeat(views.mean(counted), views.rows_per_example)
            share = tf.math.divide_no_nan(counted, mean)[:, tf.newaxis]
        return [
            views.mean(of_rows if share is None else of_rows * share)
            for of_layer in self._in_order(moments, mask, views)
            for of_rows in of_layer
        ]

    def _lot_sums(self, lot, row_moments, replicas):
        """Sums over a batch's rows: for each layer means and means of squares, [channels]."""
        averages = self._averages()
        if lot.mask.shape[1] == 0:
            return [tf.zeros_like(average) for average in averages]
        sums = replicas.added(replicas.of_shares(self._share_sums, row_moments, lot))
        return [tf.cast(s, a.dtype) for s, a in zip(sums, averages, strict=True)]

    def _share_sums(self, row_moments, lot):
        """Those of a share of a batch, a list of float64 tensors."""

        def physical_sums(k):
            x, y, weight, mask = tf.nest.map_structure(lambda t: t[k], tuple(lot))
            counted = tf.cast((mask > 0) & _any_weight(weight), tf.float64)
            return [
                tf.tensordot(counted, tf.cast(of_rows, tf.float64), axes=1)
                for of_rows in row_moments(x, y, weight, mask)
            ]

        if lot.mask.shape[0] == 1:
            return physical_sums(0)

        def body(k, sums):
            return k + 1, [a + b for a, b in zip(sums, physical_sums(k), strict=True)]

        zeros = [tf.zeros(average.shape, tf.float64) for average in self._averages()]
        _, sums = tf.while_loop(
            lambda k, _: k < tf.shape(lot.mask)[0],
            body,
            (tf.constant(0), zeros),
            parallel_iterations=1,  # one physical batch in memory; random layers draw in order
        )
        return sums

    def _in_order(self, moments, mask, views):
        """Yields (mean, second moment) for each layer, [rows x views, channels].

        Raises ValueError for a layer that was not called once, on the batch's rows.
        """
        for layer in self.layers:
            of_layer = [m for m in moments if m.layer is layer]
            if len(of_layer) != 1:
                raise ValueError(
                    f"Expected one call of layer {layer.name!r} in a forward pass, got "
                    f"{len(of_layer)}. Give each place in the network its own "
                    "NoisedBatchNormalization: they do not share running averages."
                )
            found = of_layer[0].mean.shape[0]
            expected = None if mask.shape[0] is None else mask.shape[0] * views.rows_per_example
            if None not in (found, expected) and found != expected:
                raise ValueError(
                    f"Expected layer {layer.name!r} to be called on {expected} rows, one for each "
                    f"example (and view), got {found}. This happens inside a wrapper such as "
                    "TimeDistributed. Use GroupNormalization or LayerNormalization there."
                )
            yield of_layer[0].mean, of_layer[0].second_moment


def _any_weight(weight):
    """Whether a row has a weight other than 0, [P], of weights [P, ...]: of rows or of steps."""
    return tf.reduce_any(weight != 0, list(range(1, weight.shape.rank)))


def _all_layers(model):
    return {id(x) for x in sublayers(model) if isinstance(x, NoisedBatchNormalization)}
