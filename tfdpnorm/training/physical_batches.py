"""Functions of one physical batch, which are verified as they are trained.

In a step that is traced, such a function is traced by itself. Its graph is verified, and the step
calls that same graph: nothing that Python does differently the next time can come between the proof
and the training.
"""

import tensorflow as tf

from tfdpnorm.errors import PrivacyError
from tfdpnorm.gradients.refusals import refusal_of_engine
from tfdpnorm.independence.book_keeping import prove_traced
from tfdpnorm.independence.outputs import prove_outputs, prove_state
from tfdpnorm.keras_compat.graphs import as_written, traced


class PhysicalBatches:
    """Makes the functions of a physical batch that a step calls for each of a batch.

    Before a function is used, `judge` is called with its `tfdpnorm.independence.Proof` and the
    number of rows P. It raises what stops the step, and returns whether the step runs unverified.
    If P is not known, nothing is proved: it gets None twice.
    """

    def __init__(self, judge):
        self._judge = judge
        self._broadcast = {}  # what eager steps know, which call no trace

    # AutoGraph would convert the proof, too, in a function of the user's.
    @as_written
    def clipped_sum(self, function, lot, public, variables, *, can_be_proved, reads_rows=False):
        """Returns the function of `(x, y, sample_weight, mask)` that computes a clipped sum.

        Args:
            function: From `(rows, **options)` to a `tfdpnorm.gradients.ClippedSum`, where rows are
                `(x, y, sample_weight, mask)`, and the options those of
                `tfdpnorm.gradients.book_keeping` if the engine can be proved, otherwise none.
            lot: `tfdpnorm.data.Lot` of [K, P, ...].
            public: Tensors of the graph so far that `function` may read: they depend on no example.
            variables: Those with respect to which it differentiates.
            can_be_proved: Whether the engine can be. Otherwise only its state is looked at.
            reads_rows: Whether all layers are known to read rows of examples, and no proof is
                demanded: then an eager call needs no trace.
        """
        specs, count = _specs(lot)
        eagerly = tf.executing_eagerly()
        if count is None:
            self._judge(None, None)
            return lambda *rows: function(rows)
        if not can_be_proved:
            if eagerly:
                return lambda *rows: function(rows)
            computed = traced(lambda *rows: function(rows), specs)
            self._judge(prove_state(computed.graph, count, public), count)
            return computed
        key = (*tf.nest.flatten(specs), *(v.ref() for v in variables))
        if eagerly and reads_rows:
            return lambda *rows: function(rows)
        if not eagerly or key not in self._broadcast:
            computed, self._broadcast[key] = self._proved(function, lot, public)
        broadcast = self._broadcast[key]
        return (lambda *rows: function(rows, broadcast=broadcast)) if eagerly else computed

    def _proved(self, function, lot, public):
        specs, count = _specs(lot)

        def trace(broadcast, observe):
            options = {"broadcast": broadcast, "observe": observe}
            return traced(lambda *rows: function(rows, **options), specs)

        proof, computed, broadcast = prove_traced(trace, count, public)
        if self._judge(proof, count):
            # One row more: two sizes without a common divisor. A first axis of something else that
            # has as many entries as there are rows is then detected.
            more = tf.nest.map_structure(
                lambda s: tf.TensorSpec([count + 1, *s.shape[1:]], s.dtype), specs
            )
            try:
                traced(lambda *rows: function(rows, broadcast=broadcast), more)
            except Exception as error:  # whatever code of the user's raises
                raise refusal_of_engine(
                    f"Expected a model that is verified, or that runs on {count + 1} rows as on "
                    f"{count}, so that no other axis is mistaken for that of the examples, got: "
                    f"{str(error).rstrip('.')}",
                    'Use engine="per_example", which runs each example by itself.',
                    kind=PrivacyError,
                ) from error
        return computed, broadcast

    @as_written
    def of_rows(self, function, lot, public):
        """Returns `function`, from `(x, y, sample_weight, mask)` to a list of [P, ...], verified.

        `lot` and `public` as in `clipped_sum`.
        """
        specs, count = _specs(lot)
        if tf.executing_eagerly() or count is None:
            return function
        computed = traced(function, specs)
        self._judge(prove_outputs(computed.graph, count, public), count)
        return computed


def _specs(lot):
    """The specs of a physical batch, and P; None for P if a shape is not known."""
    specs = tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape[1:], t.dtype), tuple(lot))
    known = all(spec.shape.is_fully_defined() for spec in tf.nest.flatten(specs))
    return specs, specs[-1].shape[0] if known else None
