"""The interface of gradient rules, and their registry by layer type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorflow import keras

from tfdpnorm.keras_compat.exchange import exchanged
from tfdpnorm.keras_compat.layers import has_low_rank_update

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    import tensorflow as tf


_RULES = {}


class Rule:
    """The gradient rule of a type of layer, for book-keeping.

    The engine calls a rule twice: in the forward pass, to run the layer and to show the tensors z
    at which its weights enter (`forward`), and after the backward pass, to say from b = dloss/dz
    what the gradient of each weight is made of (`contributions`).
    """

    # Whether `forward` runs the layer's own call, in which `tf.stop_gradient` means what it says. A
    # rule may stop gradients that it computes by itself.
    runs_own_call = False

    def applies(self, layer: keras.layers.Layer) -> bool:
        """Whether the rule covers `layer` as it is configured."""
        del layer
        return True

    def forward(
        self,
        layer: keras.layers.Layer,
        call: Callable,
        watch: Callable[[tf.Tensor], tf.Tensor],
        inputs: Any,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[Any, Any]:
        """Runs `layer` and returns its output and what to remember for `contributions`.

        Args:
            layer: The layer.
            call: Its own call method.
            watch: Function that registers a tensor z to differentiate with respect to, and returns
                it. Every path from the layer's weights to the loss must lead through such a z.
            inputs: Input of the layer.
            *args: The layer's other arguments.
            **kwargs: The layer's keyword arguments.

        Returns:
            Pair (output, remembered).
        """
        raise NotImplementedError

    def contributions(
        self, layer: keras.layers.Layer, remembered: Any, gradients: Sequence[tf.Tensor]
    ) -> list[tuple[tf.Variable, Any]]:
        """Says what one call of the layer contributes to the per-example gradients.

        Args:
            layer: The layer.
            remembered: What `forward` returned.
            gradients: dloss/dz for the z's that it watched, in order, [rows, ...] each.

        Returns:
            List of pairs (variable, contribution), contributions being `Instantiated` or
            `OuterSum`. The engine merges several calls of one layer.
        """
        raise NotImplementedError


def register_rule(*layer_types: type) -> Callable[[type[Rule]], type[Rule]]:
    """Decorator that registers a `Rule` class for layer types.

    A rule holds for exactly these types: a subclass may override `call`, and needs a rule of its
    own. Of several rules for a type, the one registered last that applies is taken.

    Args:
        *layer_types: Keras layer classes.

    Returns:
        A decorator that returns the class unchanged.

    Example:
        A layer that scales and shifts each feature, at each of its positions::

            import tensorflow as tf
            from tensorflow import keras

            from tfdpnorm.gradients import Instantiated, Rule, register_rule


            class Affine(keras.layers.Layer):
                def build(self, input_shape):
                    shape = input_shape[-1:]
                    self.scale = self.add_weight(name="scale", shape=shape, initializer="ones")
                    self.shift = self.add_weight(name="shift", shape=shape, initializer="zeros")

                def call(self, inputs):  # [rows, positions, features]
                    return inputs * self.scale + self.shift


            @register_rule(Affine)
            class AffineRule(Rule):
                def forward(self, layer, call, watch, inputs):
                    return watch(call(inputs)), inputs

                def contributions(self, layer, inputs, gradients):
                    (b,) = gradients
                    return [
                        (layer.scale, Instantiated(tf.reduce_sum(inputs * b, axis=1))),
                        (layer.shift, Instantiated(tf.reduce_sum(b, axis=1))),
                    ]

        A weight that is multiplied as a matrix takes `OuterSum(inputs, b, layer.kernel.shape)`,
        which does not make one matrix for each row where that would cost more.
    """

    def add(rule):
        for layer_type in layer_types:
            _RULES.setdefault(layer_type, []).insert(0, rule())
        return rule

    return add


def rule_for(layer):
    """Returns the `Rule` for `layer`, or None if there is none for its type or configuration.

    There is none for weights with a low-rank update: they are others than those that rules know.
    """
    if has_low_rank_update(layer):
        return None
    return next((rule for rule in _RULES.get(type(layer), []) if rule.applies(layer)), None)


class BeforeActivationRule(Rule):
    """For layers that give activation(z): watches z, and remembers the inputs."""

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        activation = layer.activation
        with exchanged(layer, activation=keras.activations.linear):
            z = call(inputs, *args, **kwargs)
        return activation(watch(z)), inputs


class WrapperRule(Rule):
    """A layer without weights that gives the layers inside it several rows for each of its own.

    Only such a rule says which rows belong to one example. Shapes cannot say it: with a single
    example, any number of rows could be that example's.
    """

    def rows_per_row(self, layer, inputs):
        """How many consecutive rows the layers inside get for each row of `inputs`."""
        raise NotImplementedError

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        return call(inputs, *args, **kwargs), None

    def contributions(self, layer, remembered, gradients):
        return []
