"""Losses that take logits for probabilities, or the other way round."""

from tensorflow import keras

from tfdpnorm.keras_compat.models import layers_of_outputs

_FUNCTIONS = (
    keras.losses.sparse_categorical_crossentropy,
    keras.losses.categorical_crossentropy,
    keras.losses.binary_crossentropy,
)
_CLASSES = (
    keras.losses.SparseCategoricalCrossentropy,
    keras.losses.CategoricalCrossentropy,
    keras.losses.BinaryCrossentropy,
)
_PROBABILITIES = (keras.activations.softmax, keras.activations.sigmoid)


def confused_with_logits(model, loss):
    """Returns a sentence on an output that the loss takes for what it is not, or None.

    Keras computes with either, and hardly learns. Only what is certain is said: of one
    cross-entropy of Keras' own, and of a functional model with one output, whose last layer has an
    activation.
    """
    layers = layers_of_outputs(model)
    if len(layers) != 1 or isinstance(loss, (list, tuple, dict)):
        return None
    (layer,) = layers
    takes, gives = _takes_logits(keras.losses.get(loss)), _gives_logits(layer)
    if takes is None or gives is None or takes == gives:
        return None
    if gives:
        return (
            f"The loss expects probabilities, and {layer.name!r}, the last layer, gives logits: "
            f"pass the loss as keras.losses.{_class_of(loss).__name__}(from_logits=True)."
        )
    return (
        f"The loss expects logits, and {layer.name!r}, the last layer, gives probabilities: remove "
        "its activation, or from_logits=True from the loss."
    )


def _class_of(loss):
    """The class of a cross-entropy that is an object, a function or its name."""
    loss = keras.losses.get(loss)
    return dict(zip(_FUNCTIONS, _CLASSES, strict=True)).get(loss, type(loss))


def _takes_logits(loss):
    """Whether a loss takes logits; None if it is no cross-entropy of Keras' own."""
    if type(loss) in _CLASSES:
        return bool(loss.get_config().get("from_logits", False))
    return False if loss in _FUNCTIONS else None


def _gives_logits(layer):
    """Whether a layer gives logits and no probabilities; None where that cannot be said."""
    if isinstance(layer, keras.layers.Softmax):
        return False
    activation = getattr(layer, "activation", None)
    if activation in _PROBABILITIES:
        return False
    plain = isinstance(layer, (keras.layers.Dense, keras.layers.Conv1D, keras.layers.Conv2D))
    return True if plain and activation is keras.activations.linear else None
