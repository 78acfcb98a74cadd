"""A multi-layer perceptron of one hidden layer or more."""

from tensorflow import keras

from tfdpnorm.models.blocks import dense_layers
from tfdpnorm.models.normalization import Normalizer
from tfdpnorm.models.registry import register


@register("mlp")
def mlp(
    norm="none",
    num_classes=10,
    input_shape=(784,),
    hidden_units=(1000,),
    activation="relu",
    norm_placement="hidden",
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
        norm_placement: One of `tfdpnorm.models.PLACEMENTS`: "hidden" normalises after each
            trainable layer but the logits, "all" after the logits too, "mod" after all but the
            last two.
        groups: For norm="group".
        statistics: For norm="public_batch".
        statistics_gradient: For norm="public_batch".

    Returns:
        A functional Keras model.
    """
    normalize = Normalizer(
        norm,
        norm_placement,
        last_hidden=f"dense{len(hidden_units)}",
        groups=groups,
        statistics=statistics,
        statistics_gradient=statistics_gradient,
    )
    inputs = keras.Input(input_shape)
    outputs = dense_layers(inputs, hidden_units, num_classes, normalize, activation)
    return keras.Model(inputs, outputs, name=f"mlp_{norm}")
