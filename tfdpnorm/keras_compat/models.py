"""What a Keras 2 model tells about itself, and how it runs several updates in one execution."""

import contextlib

import tensorflow as tf

from tfdpnorm.keras_compat.walk import sublayers


def is_functional(model):
    """Whether a model's layers and outputs are known without a call: functional or sequential."""
    return bool(getattr(model, "_is_graph_network", False))


def computes_in_half(model):
    """Whether a layer inside `model` computes in float16."""
    return any(layer.compute_dtype == "float16" for layer in sublayers(model))


def build_metrics(model, predictions, targets):
    """Makes the variables of a compiled model's metrics, if that was not done yet.

    A training step that makes variables in its trace is traced twice. Nothing is done for several
    outputs: how Keras matches them with their targets, it alone knows.

    Args:
        model: Compiled Keras model.
        predictions: What it gives: a structure of tensors or specs.
        targets: What they are compared with, likewise.
    """
    several = tf.nest.is_nested(predictions) or tf.nest.is_nested(targets)
    if not (several or model.compiled_metrics.built):
        model.compiled_metrics.build(predictions, targets)


def steps_per_execution(model):
    """The number of updates in one execution of a compiled model's training function."""
    return int(model._steps_per_execution or 1)


@contextlib.contextmanager
def fewer_steps(model, count):
    """Context in which an execution of the training function makes `count` updates."""
    asked = steps_per_execution(model)
    if count == asked:
        yield
        return
    # A variable that the training function reads at every call.
    model._steps_per_execution.assign(count)
    try:
        yield
    finally:
        model._steps_per_execution.assign(asked)
