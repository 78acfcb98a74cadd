"""Attributes of a wrapped model, under the names of Keras."""


class WrappedAttributes:
    """Answers for the wrapped model; to be derived from before `keras.Model`.

    Attributes:
        model: The wrapped Keras model.
        inputs: As in Keras, as are `outputs`, `input`, `output`, `input_shape` and `output_shape`.
            Keras sets the first two of any model, here to None: what it sets is left out.
    """

    @property
    def inputs(self):
        """As in Keras."""
        return self.model.inputs

    @inputs.setter
    def inputs(self, value):
        del value

    @property
    def outputs(self):
        """As in Keras."""
        return self.model.outputs

    @outputs.setter
    def outputs(self, value):
        del value

    @property
    def input(self):
        """As in Keras."""
        return self.model.input

    @property
    def output(self):
        """As in Keras."""
        return self.model.output

    @property
    def input_shape(self):
        """As in Keras."""
        return self.model.input_shape

    @property
    def output_shape(self):
        """As in Keras."""
        return self.model.output_shape

    def get_layer(self, name=None, index=None):
        """Returns a layer of the wrapped model; as in Keras."""
        return self.model.get_layer(name, index)

    def summary(self, *args, **kwargs):
        """Prints the wrapped model's summary."""
        return self.model.summary(*args, **kwargs)
