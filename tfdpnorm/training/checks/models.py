"""Models that cannot be trained here: own training steps, layers without a graph, used-up runs."""

import os

from tensorflow import keras

from tfdpnorm.keras_compat.models import is_functional, sublayers
from tfdpnorm.privacy import BudgetExhaustedError

# Methods that a private model has in place of those of the model that it wraps.
_METHODS = (
    "train_step",
    "compute_loss",
    "compute_metrics",
    "test_step",
    "predict_step",
    "make_train_function",
    "make_test_function",
    "make_predict_function",
    "compile",
    "fit",
    "evaluate",
    "predict",
)


def own_methods(model):
    """Returns the names of those methods that a model's class, or it itself, replaces."""
    return [
        name
        for name in _METHODS
        if name in vars(model) or getattr(type(model), name) is not getattr(keras.Model, name)
    ]


def check_no_own_steps(model):
    """Rejects a model whose class, or which itself, replaces what Keras does in training.

    A private model trains by per-example gradients: a `train_step` that computes one gradient of a
    batch cannot be called, and to train without it would be another training than its author wrote.
    Models inside of the model may have such methods: Keras does not call them either.
    """
    own = own_methods(model)
    if own:
        listed = ", ".join(f"{name}()" for name in own)
        without = "keras.Model(inputs, model(inputs)) with inputs = keras.Input(...)"
        if is_functional(model):
            without = "keras.Model(model.inputs, model.outputs)"
        raise ValueError(
            f"{type(model).__name__} {model.name!r} overrides {listed}, which private training "
            f"would not call: it needs the gradient of each example. Train a model of its outputs, "
            f"{without}, and put what these methods compute into a loss that gives one value for "
            "each example."
        )


def check_no_dynamic_layers(model):
    """Raises ValueError for layers whose author says that `call` runs eagerly only."""
    for layer in reversed((model, *sublayers(model))):  # what holds a dynamic layer is, too
        if getattr(layer, "dynamic", False):
            raise ValueError(
                f"Expected layers that run in a graph, got {type(layer).__name__} {layer.name!r} "
                "with dynamic=True. If its call() uses only TensorFlow operations, leave "
                "dynamic=True out; otherwise rewrite it with them."
            )


def check_ready(ledger, *, process, is_compiled):
    """Rejects training that could not be accounted for, or that the plan has no room for.

    Raises RuntimeError in another process than `process`, that of `make_private`, and before
    `compile`; BudgetExhaustedError if no planned update is left.
    """
    if os.getpid() != process:
        raise RuntimeError(
            "This process is a fork of the one that called make_private(): both would draw the "
            "same noise, and each would record only its own updates. Call make_private() in the "
            "process that trains."
        )
    state = ledger.state
    if state.remaining_updates < 1:
        ended = "the run was ended, with " if state.is_finished else ""
        lost = f", {state.lost_updates} of them lost by crashes" if state.lost_updates else ""
        raise BudgetExhaustedError(
            f"No updates are left: {ended}{ledger.updates} spent of {ledger.plan.steps} "
            f"planned{lost}. Evaluate or save the model; the cost of a new plan on the same data "
            "adds to the epsilon of this run."
        )
    if not is_compiled:
        raise RuntimeError(
            "The model is not compiled. Call compile(optimizer=..., loss=...) of the private model "
            "before fit(); that of the model inside is not used."
        )
