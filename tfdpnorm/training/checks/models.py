"""Models that cannot be trained here: own training steps, layers without a graph."""

from tensorflow import keras

from tfdpnorm.keras_compat.models import is_functional, sublayers

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
