"""Metrics of the training itself."""

import numpy as np
from tensorflow import keras


class Latest(keras.metrics.Metric):
    """Shows a number that is set from outside, such as the epsilon spent so far.

    Attributes:
        latest: The variable that holds it.
    """

    def __init__(self, name):
        super().__init__(name=name, dtype="float32")
        self.latest = self.add_weight(name="latest", initializer="zeros")

    def show(self, number):
        """Sets the number, rounded up where float32 has to round."""
        rounded = np.float32(number)
        self.latest.assign(
            rounded if rounded >= number else np.nextafter(rounded, np.float32("inf"))
        )

    def update_state(self, *args, **kwargs):
        """Does nothing: the number is assigned."""

    def reset_state(self):
        """Does nothing: the number goes on through epochs."""

    def result(self):
        return self.latest + 0.0


class UpdateMetrics:
    """What `fit` shows of every update.

    One of them is a sum over private examples without noise. A Keras model takes a metric that is
    its attribute for a layer, whose variables are weights and part of checkpoints; so this is no
    object that Keras or TensorFlow looks into.

    Attributes:
        nonfinite: Number of gradients that were not finite; **not private**.
        epsilon: `Latest`.
    """

    def __init__(self):
        self.nonfinite = keras.metrics.Sum(name="nonfinite_gradients")
        self.epsilon = Latest(name="epsilon")

    @property
    def all(self):
        """All of them, a list."""
        return [self.nonfinite, self.epsilon]
