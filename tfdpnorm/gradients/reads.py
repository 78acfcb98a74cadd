"""By whom the variables of a model are read during one forward pass."""

import contextlib

import tensorflow as tf

from tfdpnorm.gradients.refusals import refusal_of_engine
from tfdpnorm.keras_compat.graphs import read_past


class Reads:
    """Checks that variables are read by the layers that own them and by nothing else.

    What another layer, the model or the loss makes of a variable passes through no z: its part of
    the gradient would be missing, and nothing would show it.

    Args:
        owners: List of pairs (variable, layers that own it).
    """

    def __init__(self, owners):
        # By handle: under a mixed precision policy the variable of a layer is in a wrapper.
        self._owners = {id(variable.handle): (variable, layers) for variable, layers in owners}
        self._tapes = []

    @contextlib.contextmanager
    def by(self, reader):
        """Context in which `reader` runs: a layer, or None for all that is not tapped."""
        outside = self._tapes[-1].stop_recording() if self._tapes else contextlib.nullcontext()
        with outside, tf.GradientTape() as tape:
            self._tapes.append(tape)
            try:
                yield
            finally:
                self._tapes.pop()
        for read in tape.watched_variables():
            variable, layers = self._owners.get(id(read.handle), (None, [reader]))
            if reader not in layers:
                owning, reading = [x.name for x in layers], getattr(reader, "name", "other code")
                raise refusal_of_engine(
                    f"Expected variable {variable.name!r} to be read by the layers that own it, "
                    f"{owning}, and nothing else, got a read by {reading!r}",
                    "Let that layer hold the variable itself, as in `self.table = "
                    'embedding.embeddings`, or use engine="per_example".',
                )

    def check_returned(self, tap):
        """Refuses a call if others read what it computes from weights before its z's.

        They may find it in an attribute of the layer. So does the backward pass of a
        `tf.GradientTape` within the model or the loss: what comes of it depends on the weights in
        another way than by the z's. Checked in graphs only.

        Args:
            tap: The `Tap` of the call.
        """
        owned = [v for v, layers in self._owners.values() if tap.layer in layers]
        returned = tf.nest.flatten(tap.returned, expand_composites=True)
        may_pass = [*tap.watched, *filter(tf.is_tensor, returned)]
        found = read_past(*tap.operations, owned, may_pass, cut=tap.rule.runs_own_call)
        if found:
            raise refusal_of_engine(
                f"Expected what layer {tap.layer.name!r} computes from its weights to be read as "
                f"what its call returns, got a read of {found[0].name!r}, as of an attribute, "
                "or by a tf.GradientTape within the model or the loss",
                'Return it, or use engine="per_example".',
            )
