"""Taps on the layers of a model during one forward pass."""

import contextlib

import tensorflow as tf

from tfdpnorm.gradients.rules import rule_for
from tfdpnorm.layers.walk import sublayers


class Tap:
    """One call of one layer: its rule, what the rule remembered, and the z's that it watched."""

    def __init__(self, layer, rule):
        self.layer = layer
        self.rule = rule
        self.remembered = None
        self.watched = []


class Taps:
    """The calls of the layers that own given variables, in call order.

    Args:
        model: The Keras model that holds the layers, at any depth.
        variables: The variables whose gradients are wanted.

    Raises:
        ValueError: naming layers that own a variable and have no rule, and variables that no
            layer of the model owns or two own.
    """

    def __init__(self, model, variables):
        self.calls = []
        wanted = {variable.ref() for variable in variables}
        owners, self._rules = {}, {}
        for layer in dict.fromkeys(sublayers(model)):
            owned = [w for w in _own_weights(layer) if w.ref() in wanted]
            if not owned:
                continue
            rule = rule_for(layer)
            if rule is None:
                raise ValueError(
                    f"Expected layers with a gradient rule, got {type(layer).__name__} "
                    f"{layer.name!r}. Register one (tfdpnorm.gradients.register_rule), or use "
                    'engine="per_example".'
                )
            self._rules[layer] = rule
            for variable in owned:
                owners.setdefault(variable.ref(), []).append(layer)
        for variable in variables:
            found = owners.get(variable.ref(), [])
            if len(found) != 1:
                names = [layer.name for layer in found] or "no layer"
                raise ValueError(
                    f"Expected one layer to own variable {variable.name!r}, got {names}. Use "
                    'engine="per_example" for such a model.'
                )

    @contextlib.contextmanager
    def attached(self, tape):
        """Context in which calls of the layers are recorded and their z's watched by `tape`."""
        for layer, rule in self._rules.items():
            # On the instance: functional, nested and subclassed models all call it there.
            object.__setattr__(layer, "call", self._tapped(layer, rule, layer.call, tape))
        try:
            yield self
        finally:
            for layer in self._rules:
                object.__delattr__(layer, "call")

    def _tapped(self, layer, rule, call, tape):
        def tapped(inputs, *args, **kwargs):
            tap = Tap(layer, rule)

            def watch(z):
                tape.watch(z)
                tap.watched.append(z)
                return z

            outputs, tap.remembered = rule.forward(layer, call, watch, inputs, *args, **kwargs)
            self.calls.append(tap)
            return outputs

        # Keras converts `call` by AutoGraph where it is the user's; rules are plain graph code.
        return tf.autograph.experimental.do_not_convert(tapped)


def _own_weights(layer):
    """The weights that a layer holds itself, not through layers inside it."""
    inner = {w.ref() for sub in sublayers(layer) for w in sub.weights}
    return [w for w in layer.weights if w.ref() not in inner]
