"""The registry of gradient rules by layer type."""

_RULES = {}


class Rule:
    """What book-keeping needs to know of a type of layer.

    A rule is asked twice: in the forward pass, to run the layer so that it shows the tensors z at
    which the layer's weights enter (`forward`), and after the backward pass, to say from
    b = dloss/dz what the gradient of each weight is made of (`contributions`).
    """

    def applies(self, layer):
        """Whether the rule covers `layer` as it is configured."""
        del layer
        return True

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        """Runs `layer` and returns its output and what to remember for `contributions`.

        Args:
            layer: The layer.
            call: Its own call method.
            watch: Function that marks a tensor z as one to be differentiated by, and returns it.
                Every way from the layer's weights to the loss must lead through such a z.
            inputs: Input of the layer, and whatever else it is called with.
            *args: Likewise.
            **kwargs: Likewise.

        Returns:
            Pair (output, remembered).
        """
        raise NotImplementedError

    def contributions(self, layer, remembered, gradients):
        """Says what one call of the layer contributes to the per-example gradients.

        Args:
            layer: The layer.
            remembered: What `forward` returned.
            gradients: dloss/dz for the z's that it watched, in order, [rows, ...] each.

        Returns:
            List of pairs (variable, contribution), contributions being `Instantiated` or
            `OuterSum`. Several calls of one layer are merged by the engine.
        """
        raise NotImplementedError


def register_rule(*layer_types):
    """Decorator that registers a `Rule` class for layer types.

    A rule holds for exactly these types: a subclass may override `call`, and is registered itself
    or not covered.

    Args:
        *layer_types: Keras layer classes.
    """

    def add(rule):
        for layer_type in layer_types:
            _RULES[layer_type] = rule()
        return rule

    return add


def rule_for(layer):
    """Returns the `Rule` for `layer`, or None if there is none for its type or configuration."""
    rule = _RULES.get(type(layer))
    return rule if rule is not None and rule.applies(layer) else None
