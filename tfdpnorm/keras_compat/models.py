"""What a Keras model knows of its own structure.

Private parts of Keras 2: `_is_graph_network`, and `_nested_inputs` of functional models; the public
`model.inputs` has lost the structure (a dict, say) in which a model takes its inputs.
"""

from tensorflow import keras


def is_functional(model):
    """Whether `model` is a graph of layers with known inputs and outputs.

    Functional models are, and Sequential ones once they are built.
    """
    return getattr(model, "_is_graph_network", False)


def is_made_of_layers(model):
    """Whether `model` is a Sequential or functional model, so that its layers are all it does."""
    return isinstance(model, keras.Sequential) or is_functional(model)


def symbolic_inputs(model):
    """Returns the structure of Keras tensors that `model` takes; None if it is not functional."""
    return getattr(model, "_nested_inputs", None)
