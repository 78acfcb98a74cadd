"""LeNet-5 with a choice of normalisation after each trainable layer."""

from tensorflow import keras

from tfdpnorm.arguments import choice
from tfdpnorm.models.blocks import check_image_shape, convolution, dense_layers
from tfdpnorm.models.normalization import Normalizer
from tfdpnorm.models.registry import register


@register("lenet5")
def lenet5(
    norm="none",
    num_classes=10,
    input_shape=(28, 28, 1),
    activation="relu",
    pooling="max",
    kernel_initializer="glorot_uniform",
    norm_placement="hidden",
    groups=32,
    statistics="public",
    statistics_gradient="full",
):
    """LeNet-5: convolutions of 6 and 16 channels (5x5), dense layers of 120, 84, `num_classes`.

    The first convolution pads, so that a 28x28 image gives 28x28 positions; each convolution is
    followed by 2x2 pooling. Normalisation comes between a layer and its activation. 61,706
    parameters with norm="none" and ten classes.

    Args:
        norm: One of `tfdpnorm.models.NORMS`.
        num_classes: Number of logits.
        input_shape: (height, width, channels); height and width at least 12.
        activation: Name of a Keras activation.
        pooling: "max" or "average".
        kernel_initializer: Name of a Keras initializer, for all kernels. The scale of kernels that
            a normalisation follows does not change the outputs; the same noise turns larger ones
            less.
        norm_placement: One of `tfdpnorm.models.PLACEMENTS`: "hidden" normalises after each
            trainable layer but the logits, "all" after the logits too, "mod" after all but the
            last two.
        groups: For norm="group".
        statistics: For norm="public_batch".
        statistics_gradient: For norm="public_batch".

    Returns:
        A functional Keras model.

    Reference:
        Davody et al. (2020), Table 1; LeCun et al. (1998).
    """
    normalize = Normalizer(
        norm,
        norm_placement,
        last_hidden="dense2",
        groups=groups,
        statistics=statistics,
        statistics_gradient=statistics_gradient,
    )
    check_image_shape(input_shape, smallest=12)
    choice("pooling", pooling, ("max", "average"))
    pool = keras.layers.MaxPooling2D if pooling == "max" else keras.layers.AveragePooling2D

    inputs = keras.Input(input_shape)
    x = inputs
    for name, filters, padding in (("conv1", 6, "same"), ("conv2", 16, "valid")):
        x = convolution(
            x,
            filters,
            5,
            name,
            normalize,
            activation,
            padding,
            kernel_initializer=kernel_initializer,
        )
        x = pool(name=f"{name}_pool")(x)
    outputs = dense_layers(x, (120, 84), num_classes, normalize, activation, kernel_initializer)
    return keras.Model(inputs, outputs, name=f"lenet5_{norm}")
