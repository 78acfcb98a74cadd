"""The optimizer of an experiment."""

from tensorflow import keras

# By class: from a name and options Keras 2 makes one of its legacy optimizers.
_CLASSES = {
    "sgd": keras.optimizers.SGD,
    "adam": keras.optimizers.Adam,
    "nadam": keras.optimizers.Nadam,
    "adamw": keras.optimizers.AdamW,
    "rmsprop": keras.optimizers.RMSprop,
    "adagrad": keras.optimizers.Adagrad,
}


def make_optimizer(spec, updates):
    """Returns the Keras optimizer that a spec describes.

    Args:
        spec: Spec with the part `Optimizer`.
        updates: How many updates the run makes.
    """
    rate = float(spec.learning_rate)
    if spec.learning_rate_schedule == "cosine":
        rate = keras.optimizers.schedules.CosineDecay(rate, updates)
    elif spec.learning_rate_schedule == "linear":
        rate = keras.optimizers.schedules.PolynomialDecay(rate, updates, end_learning_rate=0.0)
    options = {"learning_rate": rate}
    if spec.optimizer == "sgd":
        options["momentum"] = spec.momentum
    return _CLASSES[spec.optimizer](**options)
