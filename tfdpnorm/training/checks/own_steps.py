"""Models with training methods of their own, which private training would not call."""

from tensorflow import keras

# What a private model does in the place of the model that it wraps.
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


def check_no_own_steps(model):
    """Refuses a model whose class, or which itself, replaces what Keras does in training.

    A private model trains by per-example gradients: a `train_step` that computes one gradient of a
    batch cannot be called, and to train without it would be another training than its author wrote.
    Models inside of the model may have such methods: Keras does not call them either.

    Args:
        model: A Keras model.

    Raises:
        ValueError: naming the methods.
    """
    own = [
        name
        for name in _METHODS
        if name in vars(model) or getattr(type(model), name) is not getattr(keras.Model, name)
    ]
    if own:
        listed = ", ".join(f"{name}()" for name in own)
        raise ValueError(
            f"Expected a model that Keras' own methods train, got {type(model).__name__} "
            f"{model.name!r} with methods of its own, {listed}, which private training would not "
            "call: it needs the gradient of each example. Make a model without them, such as "
            "keras.Model(model.inputs, model.outputs), whose call() returns all that the loss "
            "reads, and put what they compute into a loss that gives one value for each example."
        )
