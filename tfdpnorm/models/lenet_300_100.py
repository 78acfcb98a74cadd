"""LeNet-300-100, the fully connected network of LeCun et al. (1998)."""

from tensorflow import keras

from tfdpnorm.models.blocks import dense_layers
from tfdpnorm.models.normalization import Normalizer
from tfdpnorm.models.registry import register


@register("lenet_300_100")
def lenet_300_100(
    norm="none",
    num_classes=10,
    input_shape=(28, 28, 1),
    activation="relu",
    norm_placement="hidden",
    groups=32,
    statistics="public",
    statistics_gradient="full",
):
    """Dense layers of 300 and 100 units, each normalised and activated, then the logits.

    266,610 parameters with norm="none" and ten classes.

    Args:
        norm: One of `tfdpnorm.models.NORMS`.
        num_classes: Number of logits.
        input_shape: Shape of one example; more than one dimension is flattened.
        activation: Name of a Keras activation.
        norm_placement: One of `tfdpnorm.models.PLACEMENTS`: "hidden" normalises after each
            trainable layer but the logits, "all" after the logits too, "mod" after all but the
            last two.
        groups: For norm="group".
        statistics: For norm="public_batch".
        statistics_gradient: For norm="public_batch".

    Returns:
        A functional Keras model.

    Reference:
        Davody et al. (2020), Tables 1 and 2; LeCun et al. (1998).
    """
    normalize = Normalizer(
        norm,
        norm_placement,
        last_hidden="dense2",
        groups=groups,
        statistics=statistics,
        statistics_gradient=statistics_gradient,
    )
    inputs = keras.Input(input_shape)
    outputs = dense_layers(inputs, (300, 100), num_classes, normalize, activation)
    return keras.Model(inputs, outputs, name=f"lenet_300_100_{norm}")
