"""The optimizer of an experiment."""

import math

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


def expected_norm_of_noise(plan, parameters):
    """The expected L2 norm of the noise in one gradient, z C sqrt(parameters) / L."""
    return (
        plan.noise_multiplier * plan.l2_norm_clip * math.sqrt(parameters) / plan.expected_batch_size
    )
