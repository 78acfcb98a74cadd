"""Networks of fixed features that no image has touched, made when they are first asked for.

Scattering of an image, or similarities to patches, projected onto the principal directions that
synthetic images have there, half whitened, at length 1.
"""

import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import files
from tfdpnorm.data import synthetic_rows
from tfdpnorm.layers import ScatteringFeatures
from trainers.runs.least_squares import whitened

FOLDER = "outputs/models"  # where no other is named


class Fixed(NamedTuple):
    """What decides a network, all of it public."""

    shape: tuple  # of an image
    front: Callable  # from a Keras image [rows, *shape] and synthetic ones to features
    kinds: tuple  # of the synthetic images
    directions: int  # onto which features are projected
    count: int = 1_500  # of the synthetic images of each kind


def scattering(image, public):
    """Returns the features of `ScatteringFeatures`."""
    del public
    return ScatteringFeatures(name="scattering")(image)


_SIZE, _FILTERS, _POOL = 6, 512, 9  # of patches, in pixels; of positions
_PATCHES = 30_000
_RIDGE = 1e-3  # of the variance of patches of one pixel's variance 1
_ACTIVE = 0.4  # the share of patches that a filter and its negative respond to


def patches(image, public):
    """Returns roots of similarities to whitened patches of synthetic images, averaged over squares.

    A patch is whitened by the covariance of synthetic patches and brought to length 1. Its inner
    products with 512 of these, and their negatives, count above a threshold. An image and its
    mirror image have the same features, the root of the mean of both. Coates and Ng (2012),
    "Learning feature representations with k-means"; Thiry et al. (2021), "The unreasonable
    effectiveness of patches in deep convolutional kernels methods".
    """
    rng = np.random.default_rng(0)
    rows, down, across = (
        rng.integers(n, size=_PATCHES) for n in np.subtract(public.shape[:3], (0, _SIZE, _SIZE))
    )
    square = np.arange(_SIZE)
    down, across = down[:, None, None] + square[:, None], across[:, None, None] + square
    cut = public[rows[:, None, None], down, across].reshape(_PATCHES, -1).astype(np.float64)
    cut -= cut.mean(axis=1, keepdims=True)
    cut = cut[cut.std(axis=1) > 0.02]  # flat ones are noise when they are scaled
    cut /= cut.std(axis=1, keepdims=True)
    size = cut.shape[1]
    variances, axes = np.linalg.eigh(cut.T @ cut / len(cut))
    kernel = (np.eye(size) - 1 / size) @ (axes / np.sqrt(variances + _RIDGE)) @ axes.T
    white = cut @ kernel
    white /= np.linalg.norm(white, axis=1, keepdims=True)
    filters = white[:_FILTERS].T
    threshold = np.quantile(abs(white[_FILTERS : 2 * _FILTERS] @ filters), 1 - _ACTIVE)

    def convolved(x, weights, bias, side, name, activation=None):
        units = weights.shape[1]
        layer = keras.layers.Conv2D(units, side, activation=activation, name=name)
        x = layer(x)
        layer.set_weights([weights.reshape(side, side, -1, units), np.full(units, bias)])
        return x

    one = keras.Input(image.shape[1:], name="one")
    x = convolved(one, kernel, 0.0, _SIZE, "whitened_patches")
    x = keras.layers.UnitNormalization(name="patches_at_length_1")(x)
    both = np.hstack([filters, -filters])
    x = convolved(x, both, -threshold, 1, "similarities", "relu")
    x = keras.layers.AveragePooling2D(_POOL, name="squares")(x)
    alone = keras.Model(one, x, name="patches")
    if hasattr(keras, "ops"):
        mirrored, root = keras.ops.flip(image, axis=2), keras.ops.sqrt
    else:  # Keras 2 makes layers of TensorFlow's functions.
        mirrored, root = tf.reverse(image, [2]), tf.sqrt
    both = [alone(image), alone(mirrored)]
    return root(keras.layers.Average(name="with_the_mirror_image")(both))


NETWORKS = {
    "scattering_grey": Fixed((28, 28, 1), scattering, ("shapes",), 750),
    "patches_colour": Fixed((32, 32, 3), patches, ("shapes", "fractal"), 2_000),
}


def fixed_features(name, fixed):
    """Returns the Keras model of a `Fixed`, from images in [0, 1] to [rows, directions]."""
    image = keras.Input(fixed.shape, name="image")
    public = np.concatenate(
        [synthetic_rows(fixed.shape, fixed.count, kind=kind) for kind in fixed.kinds]
    )
    features = keras.layers.Flatten(name="flatten")(fixed.front(image, public))
    return whitened(keras.Model(image, features, name=name), public, fixed.directions)


def file_of(name, folder):
    """Returns the path of a network of `NETWORKS` in a folder, where it is made if it is absent."""
    path = files.make_folder(folder, "models_dir") / f"{name}.keras"
    if not path.exists():
        with files.scratch_file(path) as partial:
            fixed_features(name, NETWORKS[name]).save(partial)
            os.replace(partial, path)
    return path
