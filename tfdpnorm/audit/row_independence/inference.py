"""Which layers a model runs in inference mode, also while it is trained."""

import contextlib

import tensorflow as tf

from tfdpnorm.audit.row_independence.rows import input_specs
from tfdpnorm.audit.row_independence.undisturbed import undisturbed
from tfdpnorm.keras_compat.exchange import exchanged_method
from tfdpnorm.keras_compat.graphs import as_written, only_infers_shapes, traced

_ROWS = 4


def always_in_inference(model, layers):
    """Returns those of some layers that every call of the model runs with `training=False`.

    A trace of the model in training is looked at. It is no proof: Python may do something else in
    the next trace. What trains is proved of its own.

    Args:
        model: A Keras model.
        layers: List of layers inside of it whose `call` takes `training`.

    Returns:
        List of layers; empty if the model cannot be traced, since it does not know its inputs, for
        instance.
    """
    specs = input_specs(model) if model.built and layers else None
    if specs is None:
        return []
    seen = {id(layer): [] for layer in layers}

    def hooked(layer):
        call = layer.call

        def noted(inputs, *args, **kwargs):
            if not only_infers_shapes(tf.compat.v1.get_default_graph()):
                training = args[0] if args else kwargs.get("training")
                seen[id(layer)].append(training is False)
            return call(inputs, *args, **kwargs)

        return exchanged_method(layer, "call", as_written(noted))

    def of_rows(spec):
        return tf.TensorSpec([_ROWS, *spec.shape[1:]], spec.dtype)

    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(undisturbed(model))
            for layer in layers:
                stack.enter_context(hooked(layer))
            specs = tf.nest.map_structure(of_rows, specs)
            traced(lambda x: model(x, training=True), (specs,))
    except Exception:  # whatever code of the user's raises: then nothing is known
        return []
    return [layer for layer in layers if seen[id(layer)] and all(seen[id(layer)])]
