"""Taps on the layers of a model during one forward pass."""

import contextlib
import warnings

import tensorflow as tf

from tfdpnorm.gradients.rules import rule_for
from tfdpnorm.gradients.rules.fallback import FallbackRule
from tfdpnorm.layers.walk import own_weights, weight_owners


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
        ValueError: naming variables that no layer of the model owns or two own, and layers that
            can be had by no rule at all.
    """

    def __init__(self, model, variables):
        self.calls = []
        wanted = {variable.ref() for variable in variables}
        owners, self._rules = {}, {}
        for layer in weight_owners(model):
            owned = [w for w in own_weights(layer) if w.ref() in wanted]
            if not owned:
                continue
            self._rules[layer] = rule_for(layer) or _fallback(layer)
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


_announced = set()


def _fallback(layer):
    rule = FallbackRule()
    if not rule.applies(layer):
        raise ValueError(
            f"Expected layers with a gradient rule, got {type(layer).__name__} {layer.name!r}, "
            "which owns weights and holds a PublicBatchNormalization besides. Give the weights to "
            'layers of their own, or use engine="per_example".'
        )
    if type(layer) not in _announced:
        _announced.add(type(layer))
        warnings.warn(
            f"There is no gradient rule for {type(layer).__name__} (layer {layer.name!r}): one "
            "gradient per row is held for each of its weights. A rule can be added with "
            "tfdpnorm.gradients.register_rule.",
            stacklevel=2,
        )
    return rule
