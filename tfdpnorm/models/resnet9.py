"""ResNet-9, with and without scale normalisation."""

from tensorflow import keras

from tfdpnorm.arguments import choice
from tfdpnorm.models.blocks import check_image_shape, dense_layers
from tfdpnorm.models.mish import mish
from tfdpnorm.models.normalization import Normalizer
from tfdpnorm.models.registry import register
from tfdpnorm.models.residual_sums import ResidualSum

ORDERS = ("conv_norm_act", "conv_act_norm")


@register("resnet9")
def resnet9(
    norm="group",
    num_classes=10,
    input_shape=(32, 32, 3),
    scale_norm=False,
    groups=32,
    order="conv_norm_act",
    statistics="public",
    statistics_gradient="full",
):
    """ResNet-9: two residual blocks of two convolutions between four plain ones.

    conv 64; conv 128 and pool; residual [128, 128]; conv 256 and pool; conv 256 and pool; residual
    [256, 256]; max-pooled to 2x2 from whatever size; dense. Convolutions are 3x3 without bias, each
    followed by the normalisation and Mish. 2,447,946 parameters with norm="group" and ten classes,
    768 more with `scale_norm`.

    Args:
        norm: One of `tfdpnorm.models.NORMS`.
        num_classes: Number of logits.
        input_shape: (height, width, channels); height and width at least 16. Odd sizes lose a row
            or column when they are halved.
        scale_norm: Whether `ScaleNorm` follows each residual addition; see `ResidualSum`.
        groups: For group normalisation, -1 for one to each channel; see `normalization_layer`.
        order: "conv_norm_act" as in the authors' code, or "conv_act_norm" as in the paper's text.
        statistics: For norm="public_batch".
        statistics_gradient: For norm="public_batch".

    Returns:
        A functional Keras model.

    Reference:
        Klause et al. (2022), Figure 1 and Appendix C.
    """
    options = dict(groups=groups, statistics=statistics, statistics_gradient=statistics_gradient)
    normalize = Normalizer(norm, **options)
    added = ResidualSum(norm, scale_norm, **options)
    choice("order", order, ORDERS)
    check_image_shape(input_shape, smallest=16)

    def activated(x, name):
        return keras.layers.Activation(mish, name=f"{name}_mish")(x)

    def block(x, filters, name, pool=False):
        # Without any normalisation a bias is needed to shift what Mish sees.
        use_bias = norm == "none"
        if order == "conv_norm_act":  # else Mish comes before what subtracts the mean
            x = normalize.prepared(x, name)
        x = keras.layers.Conv2D(filters, 3, padding="same", use_bias=use_bias, name=name)(x)
        if order == "conv_norm_act":
            x = activated(normalize(x, name), name)
        else:
            x = normalize(activated(x, name), name)
        return keras.layers.MaxPooling2D(name=f"{name}_pool")(x) if pool else x

    def residual(x, filters, name):
        path = block(block(x, filters, f"{name}_conv1"), filters, f"{name}_conv2")
        return added(path, x, name)

    inputs = keras.Input(input_shape)
    x = block(inputs, 64, "conv1")
    x = block(x, 128, "conv2", pool=True)
    x = residual(x, 128, "residual1")
    x = block(x, 256, "conv3", pool=True)
    x = block(x, 256, "conv4", pool=True)
    x = residual(x, 256, "residual2")
    # Halves that share their middle row or column where their number is odd.
    sizes, strides = [-(-n // 2) for n in x.shape[1:3]], [n // 2 for n in x.shape[1:3]]
    if max(sizes) > 1:  # pooling over single pixels has a wrong second derivative in TensorFlow
        x = keras.layers.MaxPooling2D(sizes, strides, name="pool_to_2x2")(x)
    outputs = dense_layers(x, (), num_classes, normalize)
    return keras.Model(inputs, outputs, name=f"resnet9_{norm}")
