"""The optimizer of an experiment."""

import tensorflow as tf
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


@keras.utils.register_keras_serializable("trainers")
class PowerDecay(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate eta_0 / t^gamma, in rounds t = 1, 2, ... of some updates each.

    Args:
        initial: eta_0.
        power: gamma >= 0.
        round_length: Updates of a round, >= 1; need not be whole.
    """

    def __init__(self, initial, power, round_length):
        super().__init__()
        self.initial, self.power, self.round_length = initial, power, round_length

    def __call__(self, step):
        """Returns the rate of the update after `step` others."""
        rounds = 1.0 + tf.floor(tf.cast(step, tf.float32) / self.round_length)
        return self.initial * rounds**-self.power

    def get_config(self):
        """Returns the arguments."""
        return dict(initial=self.initial, power=self.power, round_length=self.round_length)


def make_optimizer(spec, updates, num_examples=None):
    """Returns the Keras optimizer that a spec describes.

    Args:
        spec: Spec of a run.
        updates: How many updates the run makes.
        num_examples: N, which must be public, for a rate that falls by epochs, and for a prior.
    """
    rate = float(spec.learning_rate)
    if spec.learning_rate_schedule == "cosine":
        rate = keras.optimizers.schedules.CosineDecay(rate, updates)
    elif spec.learning_rate_schedule == "linear":
        rate = keras.optimizers.schedules.PolynomialDecay(rate, updates, end_learning_rate=0.0)
    elif spec.learning_rate_schedule == "power":
        epoch = 1 if spec.learning_rate_round == "update" else num_examples
        epoch /= 1 if spec.learning_rate_round == "update" else spec.examples_per_update
        rate = PowerDecay(rate, spec.learning_rate_power, epoch)
    options = {"learning_rate": rate}
    if getattr(spec, "prior_stddev", None) is not None:
        # The gradient of -log N(w; 0, s^2) / N, added behind the noise: it depends on no example.
        options["weight_decay"] = 1 / (spec.prior_stddev**2 * num_examples)
    if spec.optimizer == "sgd":
        options["momentum"] = spec.momentum
    return _CLASSES[spec.optimizer](**options)
