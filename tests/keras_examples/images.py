"""Networks for images that users bring, small, and those of `keras.applications` as they are."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tests.keras_examples.case import CLASSES, Case, P, ids, spec

layers = keras.layers
WIDTH = 4


def application(build, size):
    """A network of `keras.applications` whose batch normalisation is frozen."""

    def frozen():
        model = build(
            weights=None,
            input_shape=(size, size, 3),
            classes=CLASSES,
            classifier_activation=None,
        )
        for layer in model.layers:
            if isinstance(layer, layers.BatchNormalization):
                layer.trainable = False
        return model

    return Case(frozen, spec(size, size, 3), ids())


def fine_tuned():
    """A trained head on a network that is not trained."""
    base = keras.applications.MobileNetV2(
        weights=None, include_top=False, input_shape=(32, 32, 3), alpha=0.35
    )
    base.trainable = False
    inputs = keras.Input((32, 32, 3))
    x = base(keras.applications.mobilenet_v2.preprocess_input(inputs), training=False)
    x = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(inputs, layers.Dense(CLASSES)(x))


def mlp_mixer():
    """P patches: the layers that mix them have [rows, channels, P] for their input."""
    inputs = keras.Input((8, P // 2, 1))
    x = layers.Reshape((P, WIDTH))(layers.Conv2D(WIDTH, 2, strides=2)(inputs))
    for _ in range(2):
        y = layers.Permute((2, 1))(layers.LayerNormalization()(x))
        y = layers.Dense(P)(layers.Dense(6, "gelu")(y))
        x += layers.Permute((2, 1))(y)
        x += layers.Dense(WIDTH)(layers.Dense(6, "gelu")(layers.LayerNormalization()(x)))
    return keras.Model(inputs, layers.Dense(CLASSES)(layers.GlobalAveragePooling1D()(x)))


def conv_mixer():
    inputs = keras.Input((P, P, 3))
    x = layers.Conv2D(WIDTH, 2, strides=2, activation="gelu")(inputs)
    for _ in range(2):
        y = layers.GroupNormalization(2)(layers.DepthwiseConv2D(3, padding="same")(x))
        x = layers.Add()([tf.nn.gelu(y), x])
        x = tf.nn.gelu(layers.GroupNormalization(2)(layers.Conv2D(WIDTH, 1)(x)))
    return keras.Model(inputs, layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(x)))


class WindowAttention(layers.Layer):
    """Attention within windows [..., steps, D], with a learned bias for each distance.

    Rows of `x` are windows if `merged`: [rows * windows, steps, D]; else it is [rows, windows,
    steps, D].
    """

    def __init__(self, window, heads, **options):
        super().__init__(**options)
        self.heads = heads
        places = np.stack(np.meshgrid(range(window), range(window), indexing="ij")).reshape(2, -1)
        apart = places[:, :, None] - places[:, None] + window - 1
        self.distances = (apart[0] * (2 * window - 1) + apart[1]).astype(np.int32)
        self.together, self.out = layers.Dense(3 * WIDTH), layers.Dense(WIDTH)

    def build(self, shape):
        count = int(self.distances.max()) + 1
        self.bias = self.add_weight(
            name="bias", shape=(count, self.heads), initializer="random_normal"
        )

    def call(self, x):
        queries, keys, values = tf.split(self.together(x), 3, -1)
        shape = [*x.shape[:-1], self.heads, WIDTH // self.heads]
        shape[0] = -1
        queries, keys, values = (tf.reshape(y, shape) for y in (queries, keys, values))
        scores = tf.einsum("...ihd,...jhd->...hij", queries, keys)
        scores += tf.transpose(tf.gather(self.bias, self.distances), [2, 0, 1])
        found = tf.einsum("...hij,...jhd->...ihd", tf.nn.softmax(scores), values)
        return self.out(tf.reshape(found, [-1, *x.shape[1:]]))


def windows(merged):
    """Four windows of 4 x 4, shifted the second time, as in a Swin transformer."""
    inputs = keras.Input((8, 8, 1))
    x = layers.Conv2D(WIDTH, 1)(inputs)
    for shift in (0, 2):
        y = tf.roll(layers.LayerNormalization()(x), [-shift, -shift], [1, 2])
        y = tf.transpose(tf.reshape(y, [-1, 2, 4, 2, 4, WIDTH]), [0, 1, 3, 2, 4, 5])
        y = tf.reshape(y, [-1, 16, WIDTH] if merged else [-1, 4, 16, WIDTH])
        y = tf.reshape(WindowAttention(4, 2)(y), [-1, 2, 2, 4, 4, WIDTH])
        y = tf.reshape(tf.transpose(y, [0, 1, 3, 2, 4, 5]), [-1, 8, 8, WIDTH])
        x += tf.roll(y, [shift, shift], [1, 2])
    parts = [x[:, ::2, ::2], x[:, 1::2, ::2], x[:, ::2, 1::2], x[:, 1::2, 1::2]]
    x = layers.Dense(6)(tf.concat(parts, -1))
    return keras.Model(inputs, layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(x)))


def autoencoder():
    inputs = keras.Input((P, P, 1))
    x = layers.Conv2D(3, 3, strides=2, padding="same", activation="relu")(inputs)
    x = layers.Dense(5)(layers.Flatten()(x))
    x = layers.Reshape((P // 2, P // 2, 3))(layers.Dense(3 * (P // 2) ** 2)(x))
    x = layers.Conv2DTranspose(1, 3, strides=2, padding="same", activation="sigmoid")(x)
    return keras.Model(inputs, x)


def siamese():
    """Two images, one network, and whether they show the same."""
    inputs = [keras.Input((P, P, 1)), keras.Input((P, P, 1))]
    embed = keras.Sequential([layers.Conv2D(3, 3), layers.Flatten(), layers.Dense(4)])
    one, other = (tf.math.l2_normalize(embed(x), 1) for x in inputs)
    distance = tf.sqrt(tf.reduce_sum((one - other) ** 2, 1, keepdims=True) + 1e-7)
    return keras.Model(inputs, layers.Dense(1, "sigmoid")(distance))


def _contrastive(y, predictions):
    near, far = predictions[:, 0] ** 2, tf.maximum(1 - predictions[:, 0], 0) ** 2
    return (1 - y) * near + y * far


def pyramid():
    """Dilated convolutions side by side, and the mean of the image, resized."""
    inputs = keras.Input((P, P, 3))
    x = layers.Conv2D(WIDTH, 3, padding="same")(inputs)
    found = [layers.Conv2D(3, 3, padding="same", dilation_rate=d)(x) for d in (1, 2, 3)]
    mean = layers.Conv2D(3, 1)(layers.AveragePooling2D(P)(x))
    found.append(layers.UpSampling2D(P, interpolation="bilinear")(mean))
    return keras.Model(inputs, layers.Conv2D(CLASSES, 1)(layers.Concatenate()(found)))


def detector():
    inputs = keras.Input((P, P, 3))
    x = tf.nn.leaky_relu(layers.Conv2D(6, 3, padding="same")(inputs))
    return keras.Model(inputs, layers.Conv2D(5, 1)(x))


def _detection(y, p):
    there = tf.nn.sigmoid_cross_entropy_with_logits(y[..., :1], p[..., :1])
    return tf.reduce_sum(there + y[..., :1] * tf.abs(y[..., 1:] - p[..., 1:]), [1, 2, 3])


_applications = keras.applications
_IMAGE = spec(P, P, 3)
IMAGES = {
    "mobilenet_v2": application(_applications.MobileNetV2, 32),
    "resnet50": application(_applications.ResNet50, 32),
    "efficientnet_b0": application(_applications.EfficientNetB0, 32),
    "densenet121": application(_applications.DenseNet121, 32),
    "convnext_tiny": application(_applications.ConvNeXtTiny, 32),
    "fine_tuned_head": Case(fine_tuned, spec(32, 32, 3), ids()),
    "mlp_mixer": Case(mlp_mixer, spec(8, P // 2, 1), ids()),
    "conv_mixer": Case(conv_mixer, _IMAGE, ids()),
    "window_attention": Case(lambda: windows(False), spec(8, 8, 1), ids()),
    "autoencoder": Case(autoencoder, spec(P, P, 1), spec(P, P, 1), "binary_crossentropy"),
    "siamese": Case(siamese, (spec(P, P, 1), spec(P, P, 1)), spec(), _contrastive),
    "dilated_pyramid": Case(pyramid, _IMAGE, ids(P, P)),
    "detector": Case(detector, _IMAGE, spec(P, P, 5), _detection),
}
# By name: the case, and words of what stops its proof.
IMAGES_REFUSED = {
    "window_attention_on_merged_rows": (
        Case(lambda: windows(True), spec(8, 8, 1), ids()),
        "for 8 examples: it reads no example",
    ),
}
