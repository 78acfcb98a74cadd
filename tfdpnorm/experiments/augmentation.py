"""The views of an image that an experiment trains on."""

from tensorflow import keras


def make_augmentation(spec, shape):
    """Returns the Keras layer that makes a view of each image, or None for the image itself.

    An image is moved by whole pixels, uniformly up to `spec.random_shift` in each direction and
    mirrored at the border. Where it moves to is no secret: a guarantee rests on each view being of
    one image alone.

    Args:
        spec: `ExperimentSpec`.
        shape: Shape of a row of the training set.

    Raises:
        ValueError: if rows of this shape cannot be moved that far.
    """
    if not spec.random_shift:
        return None
    if len(shape) != 3 or min(shape[:2]) <= spec.random_shift:
        raise ValueError(
            f"Expected images of more than {spec.random_shift} pixels in height and width with "
            f"random_shift={spec.random_shift}, got rows of shape {tuple(shape)}. Leave "
            "random_shift at 0 for texts, for networks of which a part is frozen and for smaller "
            "images."
        )
    # Rounded to whole pixels, by interpolation="nearest", half a pixel more makes them uniform.
    height, width = ((spec.random_shift + 0.5) / side for side in shape[:2])
    return keras.layers.RandomTranslation(
        height,
        width,
        fill_mode="reflect",
        interpolation="nearest",
        seed=spec.seed,
        dtype="float32",
    )
