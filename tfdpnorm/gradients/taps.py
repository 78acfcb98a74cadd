"""Taps on the layers of a model during one forward pass, and who reads its variables."""

import contextlib
import functools

import tensorflow as tf

from tfdpnorm.gradients.refusals import refusal_of_engine
from tfdpnorm.gradients.rules.broadcast import BroadcastOutputRule
from tfdpnorm.gradients.rules.fallback import FallbackRule
from tfdpnorm.gradients.rules.registry import WrapperRule, rule_for
from tfdpnorm.keras_compat.exchange import exchanged_method
from tfdpnorm.keras_compat.graphs import (
    as_written,
    current_graph,
    only_infers_shapes,
    operation_count,
    read_past,
    users_code,
)
from tfdpnorm.keras_compat.layers import is_quantized, is_rematerialized
from tfdpnorm.keras_compat.models import is_stock, own_weights, sublayers, weight_owners
from tfdpnorm.keras_compat.variables import WatchOfReads, raw, weights


class Reads:
    """Checks that variables are read by the layers that own them and by nothing else.

    What another layer, the model or the loss makes of a variable passes through no z: its part of
    the gradient would be missing, and nothing would show it. `owners` are pairs (variable, layers
    that own it).
    """

    def __init__(self, owners):
        # By handle: under a mixed precision policy the variable of a layer is in a wrapper.
        self._owners = {id(variable.handle): (variable, layers) for variable, layers in owners}
        self._watches = []

    @contextlib.contextmanager
    def by(self, reader):
        """Context in which `reader` runs: a layer, or None for all that is not tapped."""
        watch = WatchOfReads()
        if self._watches:
            self._watches[-1].stop()
        self._watches.append(watch)
        watch.start()
        try:
            yield
        finally:
            self._watches.pop().stop()
            if self._watches:
                self._watches[-1].start()
        for read in watch.variables:
            variable, layers = self._owners.get(id(read.handle), (None, [reader]))
            if reader not in layers:
                owning, reading = [x.name for x in layers], getattr(reader, "name", "other code")
                raise refusal_of_engine(
                    f"Variable {variable.name!r} is read by {reading!r}, and only the layers that "
                    f"own it may read it, {owning}",
                    "Let that layer hold the variable itself, as in `self.table = "
                    'embedding.embeddings`, or use engine="per_example".',
                )

    def check_returned(self, tap):
        """Rejects a tapped call if others read what it computes from weights before its z's.

        They may find it in an attribute of the layer. So does the backward pass of a
        `tf.GradientTape` within the model or the loss: what comes of it depends on the weights in
        another way than by the z's. Checked in graphs only.
        """
        owned = [v for v, layers in self._owners.values() if tap.layer in layers]
        returned = tf.nest.flatten(tap.returned, expand_composites=True)
        may_pass = [*tap.watched, *filter(tf.is_tensor, returned)]
        found = read_past(*tap.operations, owned, may_pass, cut=tap.rule.runs_own_call)
        if found:
            raise refusal_of_engine(
                f"Layer {tap.layer.name!r} exposes a tensor computed from its weights other than "
                f"through its return value ({found[0].name!r}), through an attribute, or to a "
                "tf.GradientTape in the model or the loss. Its gradient would be lost",
                'Return the tensor from call(), or use engine="per_example".',
            )


class Tap:
    """One call of one layer.

    Each example has `rows_per_example` consecutive rows in the z's that the rule `watched`, a list.
    `operations` are `operation_count` before and after the call, and `returned` is the structure of
    tensors that it gave.
    """

    def __init__(self, layer, rule, rows_per_example):
        self.layer = layer
        self.rule = rule
        self.rows_per_example = rows_per_example
        self.remembered = None
        self.watched = []
        self.operations = self.returned = None


class Taps:
    """The calls of the layers that own given variables, in call order.

    Several layers may own one variable, each of them reading it through z's of its own. Variables
    that no layer of the model owns, and layers that no rule covers, are rejected.

    Args:
        rows_per_example: How many consecutive rows of the model's input belong to each example.
        broadcast: Collection of layers with a `BroadcastOutputRule`.
        examples: How many examples their outputs are broadcast to, a number or a scalar tensor.
    """

    def __init__(self, model, variables, rows_per_example=1, broadcast=(), examples=None):
        self.calls = []
        self._rows_per_example = rows_per_example
        self._broadcast, self._examples = broadcast, examples
        variables = raw(list(variables))
        wanted = {variable.ref() for variable in variables}
        owners, self._rules = {}, {}
        for layer in (model, *sublayers(model)):
            if is_rematerialized(layer) and any(w.ref() in wanted for w in weights(layer)):
                raise refusal_of_engine(
                    f"{type(layer).__name__} {layer.name!r} was made in a RematScope, which runs "
                    "it a second time in the backward pass",
                    'Make the layer outside of the scope, or use engine="per_example".',
                )
        for layer in weight_owners(model):
            owned = [w for w in own_weights(layer) if w.ref() in wanted]
            if not owned:
                continue
            # Keras runs it by another method than `call`.
            if is_quantized(layer):
                raise refusal_of_engine(
                    f"Expected trained layers that are not quantised, got {type(layer).__name__} "
                    f"{layer.name!r} with {layer.quantization_mode!r}",
                    'Freeze it (layer.trainable = False), or use engine="per_example".',
                )
            self._rules[layer] = rule_for(layer) or _fallback(layer)
            for variable in owned:
                owners.setdefault(variable.ref(), []).append(layer)
        for variable in variables:
            if variable.ref() not in owners:
                raise refusal_of_engine(f"No layer owns variable {variable.name!r}")
        self._reads = Reads([(v, owners[v.ref()]) for v in variables])
        self._wrappers = {
            layer: rule
            for layer, rule in ((layer, rule_for(layer)) for layer in sublayers(model))
            if isinstance(rule, WrapperRule)
        }

    @contextlib.contextmanager
    def attached(self, tape):
        """Context in which calls of the layers are recorded and their z's watched by `tape`.

        Variables that others read than the layers that own them are rejected, and tensors that a
        layer computes from one and others read other than as its output.
        """
        with contextlib.ExitStack() as stack:

            def hook(layer, name, function):
                # Keras converts `call` by AutoGraph where it is the user's; rules need none.
                stack.enter_context(exchanged_method(layer, name, as_written(function)))

            for layer, rule in self._rules.items():
                call = layer.call if is_stock(layer) else users_code(layer.call)
                hook(layer, "call", self._tapped(layer, rule, call, tape))
            for layer, rule in self._wrappers.items():
                run = functools.partial(_output, rule, layer, layer.call)
                hook(layer, "call", self._on_inner_rows(layer, rule, run))
                # It may run the layers inside once more.
                hook(layer, "compute_mask", self._on_inner_rows(layer, rule, layer.compute_mask))
            with self._reads.by(None):
                yield self
            for tap in self.calls:
                self._reads.check_returned(tap)

    def _tapped(self, layer, rule, call, tape):
        outside = current_graph()

        def tapped(inputs, *args, **kwargs):
            graph = current_graph()
            if graph is not outside:
                if only_infers_shapes(graph):
                    return call(inputs, *args, **kwargs)
                raise refusal_of_engine(
                    f"Layer {layer.name!r} is called inside a loop, a condition or a function of "
                    "TensorFlow, where its gradients cannot be tracked"
                )
            of_call = rule
            if layer in self._broadcast:
                of_call = BroadcastOutputRule(self._examples * self._rows_per_example)
            tap = Tap(layer, of_call, self._rows_per_example)

            def watch(z):
                tape.watch(z)
                tap.watched.append(z)
                return z

            first = operation_count()
            with self._reads.by(layer):
                if rule.runs_own_call:  # it may watch what the call itself computes from weights
                    tape.watch([v for v in own_weights(layer) if v.trainable])
                outputs, tap.remembered = tap.rule.forward(
                    layer, call, watch, inputs, *args, **kwargs
                )
            tap.operations, tap.returned = (first, operation_count()), outputs
            self.calls.append(tap)
            return outputs

        return tapped

    def _on_inner_rows(self, layer, rule, method):
        """`method` of a wrapper, with the layers inside it on as many rows as its rule says."""

        @functools.wraps(method)
        def wrapped(inputs, *args, **kwargs):
            outside = self._rows_per_example
            self._rows_per_example = outside * rule.rows_per_row(layer, inputs)
            try:
                return method(inputs, *args, **kwargs)
            finally:
                self._rows_per_example = outside

        return wrapped


def _output(rule, layer, call, inputs, *args, **kwargs):
    return rule.forward(layer, call, None, inputs, *args, **kwargs)[0]


def _fallback(layer):
    rule = FallbackRule()
    if not rule.applies(layer):
        raise refusal_of_engine(
            f"Expected layers with a gradient rule, got {type(layer).__name__} {layer.name!r}, "
            "which owns weights and also holds a PublicBatchNormalization",
            'Give the weights to layers of their own, or use engine="per_example".',
        )
    if getattr(layer, "time_major", False):
        raise refusal_of_engine(
            f"Expected examples on the first axis of layer {layer.name!r}, which has no gradient "
            "rule, got time_major=True",
            'Use time_major=False, or engine="per_example".',
        )
    return rule
