"""Attributes of a wrapped model, under the names of Keras."""


def _of_the_model(name, setter=None):
    return property(lambda self: getattr(self.model, name), setter, doc="That of the model.")


def _left_out(self, value):
    """Keras sets the inputs and outputs of any model, here to None."""


class WrappedAttributes:
    """Answers for the wrapped model, `model`; to be derived from before `keras.Model`."""

    inputs = _of_the_model("inputs", _left_out)
    outputs = _of_the_model("outputs", _left_out)
    input = _of_the_model("input")
    output = _of_the_model("output")
    input_shape = _of_the_model("input_shape")
    output_shape = _of_the_model("output_shape")

    def get_layer(self, name=None, index=None):
        """Returns a layer of the wrapped model; as in Keras."""
        return self.model.get_layer(name, index)

    def summary(self, *args, **kwargs):
        """Prints the wrapped model's summary."""
        return self.model.summary(*args, **kwargs)
