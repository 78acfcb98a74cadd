"""A multi-layer perceptron of one hidden layer or more."""

from tensorflow import keras

from tfdpnorm.models.normalization import check_norm, needs_bias, normalization_layer
from tfdpnorm.models.registry import register


@register("mlp")
def mlp(
    norm="none",
    num_classes=10,
    input_shape=(784,),
    hidden_units=(1000,),
    activation="relu",
    groups=32,
    statistics="public",
    statistics_gradient="full",
):
    """Dense layers of `hidden_units`, each normalised and activated, then the logits.

    795,010 parameters with the defaults, the network of Ermis and Cemgil (2017), Section 5.

    Args:
        norm: One of `tfdpnorm.models.NORMS`.
        num_classes: Number of logits.
        input_shape: Shape of one example; more than one dimension is flattened.
        hidden_units: Units of each hidden layer.
        activation: Name of a Keras activation.
        groups: For norm="group".
        statistics: For norm="public_batch".
        statistics_gradient: For norm="public_batch".

    Returns:
        A functional Keras model.
    """
    check_norm(norm)
    inputs = keras.Input(input_shape)
    x = inputs if len(input_shape) == 1 else keras.layers.Flatten()(inputs)
    for index, units in enumerate(hidden_units, start=1):
        name = f"dense{index}"
        x = keras.layers.Dense(units, use_bias=needs_bias(norm), name=name)(x)
        layer = normalization_layer(
            norm,
            channels=units,
            groups=groups,
            statistics=statistics,
            statistics_gradient=statistics_gradient,
            name=f"{name}_norm",
        )
        x = x if layer is None else layer(x)
        x = keras.layers.Activation(activation, name=f"{name}_activation")(x)
    logits = keras.layers.Dense(num_classes, name="logits")(x)
    outputs = keras.layers.Activation("linear", dtype="float32", name="predictions")(logits)
    return keras.Model(inputs, outputs, name=f"mlp_{norm}")
