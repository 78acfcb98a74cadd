"""The optimizer of an experiment."""

from tensorflow import keras


def make_optimizer(spec, updates):
    """Returns the Keras optimizer that an `ExperimentSpec` describes, for `updates` updates."""
    rate = spec.learning_rate
    if spec.learning_rate_schedule == "cosine":
        rate = keras.optimizers.schedules.CosineDecay(rate, updates)
    elif spec.learning_rate_schedule == "linear":
        rate = keras.optimizers.schedules.PolynomialDecay(rate, updates, end_learning_rate=0.0)
    options = {"learning_rate": rate}
    if spec.optimizer == "sgd":
        options["momentum"] = spec.momentum
    return keras.optimizers.get(
        {"class_name": spec.optimizer, "config": options}
    )

