"""What a Keras model knows of its own structure.

Private parts of Keras 2: `_is_graph_network`, and `_nested_inputs` of functional models; the public
`model.inputs` has lost the structure (a dict, say) in which a model takes its inputs;
`_build_input_shape` of models that `build(shape)` was called on. And the names of the modules that
define the layers of Keras.
"""

import tensorflow as tf
from tensorflow import keras


def is_functional(model):
    """Whether `model` is a graph of layers with known inputs and outputs.

    Functional models are, and Sequential ones once they are built.
    """
    return getattr(model, "_is_graph_network", False)


def is_made_of_layers(model):
    """Whether `model` is a Sequential or functional model, so that its layers are all it does."""
    return isinstance(model, keras.Sequential) or is_functional(model)


def is_stock(layer):
    """Whether a layer or model is one of Keras' own, and runs no function of somebody else's.

    The layers that wrap functions and operations in a functional model are not.
    """
    path = type(layer).__module__.split(".")
    wraps_functions = path[-1] in ("lambda_layer", "tf_op_layer")
    return path[0] == keras.Model.__module__.split(".")[0] and not wraps_functions


def symbolic_inputs(model):
    """Returns the structure of Keras tensors that `model` takes; None if it is not functional."""
    return getattr(model, "_nested_inputs", None)


def specs_of_build(model):
    """Returns the structure of `tf.TensorSpec` of what `build(shape)` called a model on, or None.

    Keras calls it on floats, whatever it is going to be trained on.
    """
    shape = getattr(model, "_build_input_shape", None)
    if shape is None:
        return None
    if isinstance(shape, dict):
        return {name: _float_spec(each) for name, each in shape.items()}
    if isinstance(shape, (list, tuple)) and any(isinstance(n, (list, tuple)) for n in shape):
        return type(shape)(_float_spec(each) for each in shape)
    return _float_spec(shape)


def _float_spec(shape):
    return tf.TensorSpec(shape, keras.backend.floatx())
