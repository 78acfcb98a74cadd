"""Networks in two parts: convolutions that are frozen, and dense layers on top."""

from tensorflow import keras

from tfdpnorm.arguments import choice

PARTS = ("whole", "features", "head")


def build_part(part, input_shape, features, head, name):
    """Builds a network, or the part of it before or after its flat features.

    A layer has the same name in the whole network as in its part, so that weights can be copied
    layer by layer; then head(features(x)) is whole(x).

    Args:
        part: "whole"; "features", which ends in float32 [rows, units]; or "head", which takes that.
        input_shape: Shape of one example: an image, or (units,) for "head".
        features: Function from images to [rows, units]; checks the shape of the images.
        head: Function from [rows, units] to logits.
        name: Name of the whole network.

    Returns:
        A functional Keras model.

    Raises:
        ValueError: for an unknown part, or another input_shape than (units,) with "head".
    """
    choice("part", part, PARTS)
    if part == "head" and (len(input_shape) != 1 or input_shape[0] is None):
        raise ValueError(
            f'Expected input_shape=(units,) with part="head", got {tuple(input_shape)}. Give it '
            'the output_shape[1:] of the model with part="features".'
        )
    inputs = keras.Input(input_shape)
    x = inputs if part == "head" else features(inputs)
    if part == "features":
        # Stored and passed on as float32, whatever the policy computes in.
        x = keras.layers.Activation("linear", dtype="float32", name="features")(x)
    else:
        x = head(x)
    return keras.Model(inputs, x, name=name if part == "whole" else f"{name}_{part}")
