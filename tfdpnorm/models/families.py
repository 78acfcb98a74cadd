"""The network families: a default shape, the smallest image, and a table of layers for each.

Options that several families share are described in `tfdpnorm.models.build`.
"""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.arguments import choice, integer, refusal
from tfdpnorm.keras_compat.layers import not_equal
from tfdpnorm.layers import RandomPatchFeatures, WeightStandardizedConv2D, alpha_of_rate
from tfdpnorm.models.blocks import (
    SinusoidalPositions,
    convolution,
    dense_layers,
    logits_at_length_1,
)
from tfdpnorm.models.mish import fused_mish
from tfdpnorm.models.registry import check_image_shape, family

# --- dense layers ---


@family("mlp", (784,), last_hidden=lambda hidden_units, **_: f"dense{len(hidden_units)}")
def mlp(
    x,
    normalize,
    num_classes,
    hidden_units=(1000,),
    activation="relu",
    dropout="none",
    dropout_rate=0.5,
):
    """Dense layers of `hidden_units`, each normalised and activated, then the logits.

    795,010 parameters with the defaults, the network of Ermis and Cemgil (2017), Section 5.

    Args:
        dropout: Noise that multiplies the inputs of each layer in training (their equation 7):
            "none"; "binary", 0 with probability p and else 1 / (1 - p); "gaussian", N(1, p / (1 -
            p)).
        dropout_rate: p, see `tfdpnorm.layers.alpha_of_rate`.
    """
    kinds = {"binary": keras.layers.Dropout, "gaussian": keras.layers.GaussianDropout}
    choice("dropout", dropout, ("none", *kinds))
    alpha_of_rate(dropout_rate)  # which refuses what is none

    def dropped(x, name):
        return kinds[dropout](dropout_rate, name=f"{name}_dropout")(x)

    with_dropout = {} if dropout == "none" else {"dropped": dropped}
    return dense_layers(x, hidden_units, num_classes, normalize, activation, **with_dropout)


@family("lenet_300_100", (28, 28, 1), last_hidden="dense2")
def lenet_300_100(x, normalize, num_classes, activation="relu"):
    """LeNet-300-100: dense layers of 300 and 100 units, each normalised and activated, the logits.

    266,610 parameters with norm="none" and ten classes. Davody et al. (2020), Tables 1 and 2; LeCun
    et al. (1998).
    """
    return dense_layers(x, (300, 100), num_classes, normalize, activation)


# --- convolutions and dense layers ---


@family("lenet5", (28, 28, 1), smallest=12, last_hidden="dense2")
def lenet5(
    x,
    normalize,
    num_classes,
    activation="relu",
    pooling="max",
    kernel_initializer="glorot_uniform",
):
    """LeNet-5: convolutions of 6 and 16 channels (5x5), dense layers of 120, 84, `num_classes`.

    The first convolution pads, so that a 28x28 image gives 28x28 positions; each convolution is
    followed by 2x2 `pooling`, "max" or "average". Normalisation comes between a layer and its
    activation. `kernel_initializer` is for all kernels. The scale of kernels that a normalisation
    follows does not change the outputs; the same noise turns larger ones less. 61,706 parameters
    with norm="none" and ten classes.

    Reference:
        Davody et al. (2020), Table 1; LeCun et al. (1998).
    """
    choice("pooling", pooling, ("max", "average"))
    pool = keras.layers.MaxPooling2D if pooling == "max" else keras.layers.AveragePooling2D
    shared = {"activation": activation, "kernel_initializer": kernel_initializer}
    for name, filters, padding in (("conv1", 6, "same"), ("conv2", 16, "valid")):
        x = convolution(x, filters, 5, name, normalize, padding=padding, **shared)
        x = pool(2, name=f"{name}_pool")(x)
    return dense_layers(x, (120, 84), num_classes, normalize, **shared)


@family("tf_tutorial", (32, 32, 3), smallest=8, last_hidden="dense2")
def tf_tutorial(x, normalize, num_classes, part="whole"):
    """Two 5x5 convolutions of 64 channels, each with 2x2 max-pooling; dense 384, 384, the logits.

    The network of TensorFlow's tutorial on CIFAR-10. Larger images are cropped to their middle
    24x24 pixels, so that the dense layers, which are the head, see 6x6x64 = 2,304 features. ReLU
    after each normalisation. 1,144,138 parameters with norm="none" and ten classes.

    Reference:
        Abadi et al. (2016), Section 5.3; Davody et al. (2020), Table 6.
    """
    if part != "head":
        height, width = (min(size, 24) for size in x.shape[1:3])
        if (height, width) != tuple(x.shape[1:3]):
            x = keras.layers.CenterCrop(height, width, name="crop")(x)
        for name in ("conv1", "conv2"):
            x = convolution(x, 64, 5, name, normalize)
            x = keras.layers.MaxPooling2D(name=f"{name}_pool")(x)
        x = keras.layers.Flatten(name="flatten")(x)
    return x if part == "features" else dense_layers(x, (384, 384), num_classes, normalize)


@family("vgg", (32, 32, 3), smallest=8, last_hidden="dense1")
def vgg(x, normalize, num_classes, width=64, part="whole"):
    """Eight 3x3 convolutions (two of 64 channels, two of 128, four of 256), two dense layers.

    Max-pooling of 2x2 ends each of the three stages; the mean over positions, a dense layer of 512
    and the logits follow, of which the dense layers are the head. ReLU after each normalisation.
    The first stage has `width` channels. 2,462,282 parameters with norm="none" and ten classes. We
    use it for the light-weight VGG of the paper's Table 6 as well, which the paper does not
    describe.

    Reference:
        Davody et al. (2020), Tables 1, 3 and 6; Simonyan and Zisserman (2014).
    """
    if part != "head":
        x = _stages(x, normalize, (2, width), (2, 2 * width), (4, 4 * width))
        x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    return x if part == "features" else dense_layers(x, (512,), num_classes, normalize)


@family("small_cnn", (32, 32, 3), smallest=8, last_hidden="embedding")
def small_cnn(x, normalize, num_classes, width=16, units=16, part="whole"):
    """Four 3x3 convolutions, a linear layer of a few features at length 1, and the logits.

    Two convolutions of `width` channels, two of twice as many, each with ReLU; each pair ends in
    2x2 max-pooling. No normalisation follows the linear layer of `units`. Few features that lie
    close together in each class are what a linear classifier under strong noise needs: the logits
    are the head.

    Reference:
        Tramer and Boneh (2021), "Differentially private learning needs better features (or much
        more data)", for linear classifiers on features of public images.
    """
    if part != "head":
        x = _stages(x, normalize, (2, width), (2, 2 * width))
        x = keras.layers.Flatten(name="flatten")(x)
        x = keras.layers.Dense(units, name="embedding")(x)
        x = keras.layers.UnitNormalization(name="embedding_length1")(x)
    return x if part == "features" else logits_at_length_1(x, num_classes, normalize)


def _stages(x, normalize, *sizes):
    """Stages of 3x3 convolutions, each (how many, channels), with 2x2 max-pooling at its end."""
    for stage, (depth, channels) in enumerate(sizes, start=1):
        for index in range(1, depth + 1):
            x = convolution(x, channels, 3, f"stage{stage}_conv{index}", normalize)
        x = keras.layers.MaxPooling2D(name=f"stage{stage}_pool")(x)
    return x


@family("random_features", (28, 28, 1), last_hidden="features")
def random_features(x, normalize, num_classes, filters=64, pool=2, size=5, width=0.4, strides=1):
    """Random features of patches, averaged over squares, at length 1; then the logits.

    Only the logits are trained, from 0 and without a bias: under strong noise there is less to
    learn than in a network, and no gradient is longer than sqrt(2). Squares are of `pool` pixels a
    side; `filters`, `size`, `width` and `strides` are those of `RandomPatchFeatures`.

    Reference:
        Tramer and Boneh (2021), "Differentially private learning needs better features (or much
        more data)", for linear classifiers on fixed features.
    """
    check_image_shape(x.shape[1:], pool * strides)
    x = RandomPatchFeatures(filters, size, width, strides, name="features")(x)
    x = normalize(keras.layers.AveragePooling2D(pool, name="average")(x), "features")
    return logits_at_length_1(keras.layers.Flatten(name="flatten")(x), num_classes, normalize)


# --- residual networks ---


@family("resnet18", (32, 32, 3), smallest=8, last_hidden="stage4_block2_conv2")
def resnet18(x, normalize, num_classes, width=64):
    """ResNet-18: a 3x3 convolution, four stages of two residual blocks, the mean, the logits.

    The first convolution has stride 1 and no pooling after it, as is usual for images of 32x32. A
    stage has two blocks of two 3x3 convolutions and twice the channels of the stage before, whose
    positions it halves each way. Convolution, normalisation, ReLU, convolution, normalisation,
    addition, ReLU: a block's skip path is its input, or where the shape changes a 1x1 convolution
    of it with a normalisation of its own. norm_placement="mod" leaves out the normalisation after
    the last 3x3 convolution. 11,173,962 trainable parameters with norm="batch" and ten classes.

    Reference:
        He et al. (2016); Davody et al. (2020), Tables 1 and 3.
    """

    def block(x, filters, strides, name):
        path = convolution(x, filters, 3, f"{name}_conv1", normalize, strides=strides)
        path = convolution(path, filters, 3, f"{name}_conv2", normalize, activation=None)
        if path.shape != x.shape:
            x = convolution(
                x, filters, 1, f"{name}_projection", normalize, activation=None, strides=strides
            )
        x = keras.layers.Add(name=f"{name}_add")([path, x])
        return keras.layers.Activation("relu", name=f"{name}_activation")(x)

    x = convolution(x, width, 3, "conv1", normalize)
    return _residual_stages(x, block, width, (2, 2, 2, 2), num_classes, normalize)


@family("resnet50", (160, 160, 3), smallest=32)
def resnet50(x, normalize, num_classes, scale_norm=False, width=64):
    """ResNet-50: a 7x7 convolution, pooling, four stages of bottleneck blocks, a mean, logits.

    A bottleneck is convolutions 1x1, 3x3 and 1x1, the last with four times the channels. The 3x3
    convolution of a stage's first block halves the positions from the second stage on; there the
    skip path is a normalised 1x1 convolution. Convolutions have no bias and are normalised; ReLU
    follows but for a block's last, where it comes after the addition, and after `ScaleNorm`.
    23,528,522 parameters with norm="group" and ten classes, 30,208 more with `scale_norm`;
    25,557,032 with a thousand classes.

    Reference:
        He et al. (2016), stride in the 3x3 convolution as in Goyal et al. (2017); Klause et al.
        (2022), Appendix D.
    """

    def normalized(x, filters, size, name, strides=1, activation="relu"):
        x = keras.layers.Conv2D(
            filters,
            size,
            strides=strides,
            padding="same",
            use_bias=normalize.norm == "none",
            kernel_initializer="he_normal",
            name=name,
        )(normalize.prepared(x, name))
        x = normalize(x, name)
        return keras.layers.Activation(activation, name=f"{name}_{activation}")(x)

    def block(x, filters, strides, name):
        path = normalized(x, filters, 1, f"{name}_conv1")
        path = normalized(path, filters, 3, f"{name}_conv2", strides)
        path = normalized(path, 4 * filters, 1, f"{name}_conv3", activation="linear")
        if path.shape != x.shape:
            x = normalized(x, 4 * filters, 1, f"{name}_projection", strides, activation="linear")
        x = normalize.added(path, x, name, scale_norm)
        return keras.layers.Activation("relu", name=f"{name}_relu")(x)

    x = normalized(x, width, 7, "conv1", strides=2)
    x = keras.layers.MaxPooling2D(3, strides=2, padding="same", name="conv1_pool")(x)
    return _residual_stages(x, block, width, (3, 4, 6, 3), num_classes, normalize)


def _residual_stages(x, block, width, blocks, num_classes, normalize):
    """Stages of so many blocks, each of twice the channels, then the mean and the logits."""
    for stage, count in enumerate(blocks, start=1):
        for index in range(1, count + 1):
            strides = 2 if stage > 1 and index == 1 else 1
            x = block(x, width * 2 ** (stage - 1), strides, f"stage{stage}_block{index}")
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    return dense_layers(x, (), num_classes, normalize)


@family("resnet9", (32, 32, 3), smallest=16)
def resnet9(x, normalize, num_classes, scale_norm=False, order="conv_norm_act", width=64):
    """ResNet-9: two residual blocks of two convolutions between four plain ones.

    conv 64; conv 128 and pool; residual [128, 128]; conv 256 and pool; conv 256 and pool; residual
    [256, 256]; max-pooled to 2x2 from whatever size; dense. Convolutions are 3x3 without bias, each
    followed by the normalisation and Mish: `order` is "conv_norm_act" as in the authors' code, or
    "conv_act_norm" as in the paper's text. `width` is the channels of the first; those of the
    others are in proportion. Odd sizes lose a row or column when they are halved. `scale_norm` says
    whether `ScaleNorm` follows each residual addition. 2,447,946 parameters with norm="group" and
    ten classes, 768 more with `scale_norm`.

    Reference:
        Klause et al. (2022), Figure 1 and Appendix C.
    """
    choice("order", order, ("conv_norm_act", "conv_act_norm"))
    integer("width", width, at_least=1, wrong_type=ValueError)

    def activated(x, name):
        return keras.layers.Activation(fused_mish, name=f"{name}_mish")(x)

    def block(x, filters, name, pool=False):
        # Without any normalisation a bias is needed to shift what Mish sees.
        use_bias = normalize.norm == "none"
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
        return normalize.added(path, x, name, scale_norm)

    x = block(x, width, "conv1")
    x = block(x, 2 * width, "conv2", pool=True)
    x = residual(x, 2 * width, "residual1")
    x = block(x, 4 * width, "conv3", pool=True)
    x = block(x, 4 * width, "conv4", pool=True)
    x = residual(x, 4 * width, "residual2")
    # Halves that share their middle row or column where their number is odd.
    sizes, strides = [-(-n // 2) for n in x.shape[1:3]], [n // 2 for n in x.shape[1:3]]
    if max(sizes) > 1:  # pooling over single pixels has a wrong second derivative in TensorFlow
        x = keras.layers.MaxPooling2D(sizes, strides, name="pool_to_2x2")(x)
    return dense_layers(x, (), num_classes, normalize)


@family(
    "wide_resnet",
    (32, 32, 3),
    groups=16,
    called=lambda depth, width, **_: f"wrn_{depth}_{width}",
)
def wide_resnet(x, normalize, num_classes, scale_norm=False, depth=16, width=4):
    """A wide residual network, WRN-depth-width: three groups of (depth - 4) / 6 blocks.

    Blocks are pre-activated: normalisation, ReLU, weight-standardised 3x3 convolution with a gain
    and a bias, twice; the skip path of a group's first block is a plain 1x1 convolution of the
    block's input. The groups have 16, 32 and 64 times `width` channels. `depth` is 6 n + 4, with n
    blocks per group: 10, 16, 22, 28, 34, 40, ...

    Reference:
        Zagoruyko and Komodakis (2016); De et al. (2022), Section 3; Klause et al. (2022), Table 2.
    """
    integer("width", width, at_least=1, wrong_type=ValueError)
    blocks, rest = divmod(integer("depth", depth, at_least=10, wrong_type=ValueError) - 4, 6)
    if rest:
        raise refusal("depth", "to be 4 and a multiple of 6, such as 16, 28 or 40", depth)

    def activated(x, name):
        return keras.layers.Activation("relu", name=f"{name}_relu")(normalize(x, name))

    def standardized(x, filters, name, strides=1):
        return WeightStandardizedConv2D(
            filters,
            3,
            strides=strides,
            padding="same",
            kernel_initializer="lecun_normal",
            name=name,
        )(x)

    x = standardized(x, 16, "stem")
    for group in (1, 2, 3):
        filters = 16 * width * 2 ** (group - 1)
        for block in range(1, blocks + 1):
            name = f"group{group}_block{block}"
            strides = 2 if group > 1 and block == 1 else 1
            skip = x
            if block == 1:
                skip = keras.layers.Conv2D(
                    filters, 1, strides=strides, use_bias=False, name=f"{name}_skip"
                )(x)
            # The second convolution is followed by an addition, not by a normalisation.
            path = normalize.prepared(activated(x, f"{name}_1"), f"{name}_conv1")
            path = standardized(path, filters, f"{name}_conv1", strides)
            path = standardized(activated(path, f"{name}_2"), filters, f"{name}_conv2")
            x = normalize.added(path, skip, name, scale_norm)
    x = keras.layers.GlobalAveragePooling2D(name="pool")(activated(x, "last"))
    return dense_layers(x, (), num_classes, normalize)


@family("wrn_16_4", (32, 32, 3), groups=16)
def wrn_16_4(x, normalize, num_classes, scale_norm=False):
    """WRN-16-4: three groups of two pre-activation blocks, 64, 128 and 256 channels wide.

    2,752,506 parameters with norm="group" and ten classes, 1,792 more with `scale_norm`.
    """
    return wide_resnet(x, normalize, num_classes, scale_norm)


# --- words ---


@family("bilstm", (64,), dtype="int32", last_hidden="bilstm")
def bilstm(
    x,
    normalize,
    num_classes,
    vocabulary_size=10_000,
    embedding_dim=100,
    units=64,
    mask_zero=True,
    normalize_embedding=False,
):
    """Word embedding, bidirectional LSTM, one dense layer ("BiLSTM-DL").

    The paper gives no sizes; these are ours. The normalisation, "none" or "layer" in the paper,
    follows the LSTM's last outputs; the paper does not say whether one follows the embedding, too.
    Inputs are int32 token ids [rows, words]; 0 is padding, which is skipped with `mask_zero`. With
    `normalize_embedding`, "layer" normalises each word vector on its own, "batch" over the words
    that are not padding, "public_batch" over all positions; Keras' layer of "group" does not
    support a masked embedding.

    Reference:
        Davody et al. (2020), Tables 4 and 7.
    """
    if normalize_embedding and normalize.norm == "group" and mask_zero:
        raise ValueError(
            'Expected normalize_embedding=False with norm="group" and mask_zero=True, got True. '
            'Use norm="layer", or mask_zero=False.'
        )
    x = keras.layers.Embedding(
        vocabulary_size, embedding_dim, mask_zero=mask_zero, name="embedding"
    )(x)
    if normalize_embedding:
        x = normalize(x, "embedding", each_position=True)
    x = keras.layers.Bidirectional(keras.layers.LSTM(units), name="bilstm")(x)
    return dense_layers(normalize(x, "bilstm"), (), num_classes, normalize)


@family("transformer", (64,), dtype="int32")
def transformer(
    x,
    normalize,
    num_classes,
    vocabulary_size=1_000,
    width=128,
    heads=4,
    hidden_units=512,
    mask_zero=True,
):
    """Word embedding, one pre-norm transformer block, the mean over words, one dense layer.

    The block is x + attention(norm(x)), then x + dense(gelu(dense(norm(x)))), with a dense layer of
    `hidden_units`. Word vectors, of an even `width` that `heads` divides, start at unit variance,
    the size of the fixed positions that are added to them. Inputs are int32 token ids [rows,
    words]; 0 is padding, which `mask_zero` leaves out of attention and mean. The norm "layer" takes
    its moments over the units of each word, as in transformers, "group" over all words, padding
    included. 326,788 parameters with the defaults and four classes.

    Reference:
        Vaswani et al. (2017); Xiong et al. (2020), Figure 1b, for the place of the normalisation.
    """
    if width % 2 or width % heads:
        raise ValueError(
            f"Expected an even width that is a multiple of heads, got width={width} and "
            f"heads={heads}. Choose width=128 and heads=4, for instance."
        )
    # Masks are passed by hand: Keras' GroupNormalization cannot take those of an Embedding.
    words = not_equal(x, 0) if mask_zero else None
    pairs = words[:, tf.newaxis, :] if mask_zero else None
    initializer = keras.initializers.RandomNormal(stddev=1.0)
    x = keras.layers.Embedding(
        vocabulary_size, width, embeddings_initializer=initializer, name="embedding"
    )(x)
    x = SinusoidalPositions(name="positions")(x)
    path = normalize(x, "attention", each_position=True)
    path = keras.layers.MultiHeadAttention(heads, width // heads, name="attention")(
        path, path, attention_mask=pairs
    )
    x = keras.layers.Add(name="attention_add")([x, path])
    path = normalize(x, "dense", each_position=True)
    path = keras.layers.Dense(hidden_units, activation="gelu", name="dense1")(path)
    path = keras.layers.Dense(width, name="dense2")(path)
    x = keras.layers.Add(name="dense_add")([x, path])
    x = keras.layers.GlobalAveragePooling1D(name="pool")(x, mask=words)
    return dense_layers(x, (), num_classes, normalize)
