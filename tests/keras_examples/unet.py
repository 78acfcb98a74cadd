"""Image segmentation with a network of Xception blocks, after Keras' example like U-Net.

Group normalisation stands where the example has batch normalisation, which makes every example
depend on the others.
"""

from tensorflow import keras

from tests.keras_examples.case import CLASSES, P

layers = keras.layers


def _normalized(x):
    return layers.GroupNormalization(2)(x)


def unet():
    """Images [rows, 8, 8, 2] to logits [rows, 8, 8, 3] of each pixel."""
    inputs = keras.Input((P, P, 2))
    x = layers.Conv2D(4, 3, strides=2, padding="same")(inputs)
    x = shortcut = layers.Activation("relu")(_normalized(x))
    for filters in (4, 6):
        for _ in range(2):
            x = layers.Activation("relu")(x)
            x = _normalized(layers.SeparableConv2D(filters, 3, padding="same")(x))
        x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
        projected = layers.Conv2D(filters, 1, strides=2, padding="same")(shortcut)
        x = shortcut = layers.add([x, projected])
    for filters in (6, 4, 4):
        for _ in range(2):
            x = layers.Activation("relu")(x)
            x = _normalized(layers.Conv2DTranspose(filters, 3, padding="same")(x))
        x = layers.UpSampling2D(2)(x)
        projected = layers.Conv2D(filters, 1, padding="same")(layers.UpSampling2D(2)(shortcut))
        x = shortcut = layers.add([x, projected])
    return keras.Model(inputs, layers.Conv2D(CLASSES, 3, padding="same")(x))
