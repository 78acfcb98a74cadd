"""Wrappers, and what Keras asks of them.

Private parts of Keras 2: `_always_use_reshape` of TimeDistributed; and of any layer `_autocast`
(whether it casts its inputs), `_call_spec` (which arguments its call takes) and `_initial_weights`
(those given as `weights=[...]`). No public way makes a wrapper take exactly the call arguments of
the layer inside it.
"""

import contextlib
import inspect

import tensorflow as tf

from tfdpnorm.keras_compat.exchange import exchanged, exchanged_method


def all_steps_at_once(time_distributed):
    """Context in which TimeDistributed runs its layer once, on [rows * steps, ...].

    Where the number of rows is known, Keras may loop over the steps instead.
    """
    return exchanged(time_distributed, _always_use_reshape=True)


@contextlib.contextmanager
def one_call_inside(time_distributed):
    """Context in which each call of a TimeDistributed is one call of the layer inside it.

    A model inside it would be called once more for its mask. As Keras does where the number of rows
    is known, the mask is that of the input.
    """

    def compute_mask(inputs, mask=None):
        del inputs
        return mask

    with (
        all_steps_at_once(time_distributed),
        exchanged_method(time_distributed, "compute_mask", compute_mask),
    ):
        yield


def call_like(wrapper, layer):
    """Makes a wrapper take the arguments of `layer`, which casts its inputs itself, or does not."""
    wrapper._autocast = False
    wrapper._call_spec = layer._call_spec


def set_initial_weights(layer):
    """Gives a built `layer` the weights that were passed to its constructor, if any were.

    Keras does so at the layer's first call, and only if that call builds it.
    """
    initial = getattr(layer, "_initial_weights", None)
    if initial is not None:
        with tf.init_scope():
            layer.set_weights(initial)
        layer._initial_weights = None


def positional_names(layer):
    """Returns the names of a layer's call arguments in the order in which `layer(...)` takes them.

    Some layers order the arguments of `__call__` otherwise than those of `call`.
    """
    for method in (layer.__call__, layer.call):
        kinds = [(p.name, p.kind) for p in inspect.signature(method).parameters.values()]
        if inspect.Parameter.VAR_POSITIONAL not in dict(kinds).values():
            return [name for name, kind in kinds if kind == inspect.Parameter.POSITIONAL_OR_KEYWORD]
    return []
