"""What a model keeps for being compiled: the counts of its metrics, the slots of its optimizer."""

import contextlib

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.optimizers import optimizer_variables
from tfdpnorm.keras_compat.walk import modules_inside, sublayers


@contextlib.contextmanager
def compiled_state_at_zero(model):
    """While this lasts, metrics and optimizers of a model, and of models in it, hold zeros.

    Keras writes them to files, whatever `include_optimizer` says: what a metric last counted, and
    the moments of gradients. After it they are as before.
    """
    variables = {id(v): v for v in _kept(model)}.values()
    before = [tf.identity(v) for v in variables]
    for variable in variables:
        variable.assign(tf.zeros_like(variable))
    try:
        yield
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)


def _kept(model):
    models = [x for x in (model, *sublayers(model)) if isinstance(x, keras.Model)]
    metrics = [x for x in modules_inside(model) if isinstance(x, keras.metrics.Metric)]
    for each in models:
        metrics += each.metrics
        optimizer = getattr(each, "optimizer", None)
        if optimizer is not None:
            yield from optimizer_variables(optimizer)
    for metric in metrics:
        yield from metric.variables
