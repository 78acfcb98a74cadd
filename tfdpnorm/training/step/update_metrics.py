"""Metrics of the training itself."""

from tensorflow import keras


class Latest(keras.metrics.Metric):
    """Shows a number that is set from outside, such as the epsilon spent so far.

    Attributes:
        latest: The variable that holds it.
    """

    def __init__(self, name):
        super().__init__(name=name, dtype="float32")
        self.latest = self.add_weight(name="latest", initializer="zeros")

    def update_state(self, *args, **kwargs):
        """Does nothing: the number is assigned."""

    def reset_state(self):
        """Does nothing: the number goes on through epochs."""

    def result(self):
        return self.latest + 0.0
