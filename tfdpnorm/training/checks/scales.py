"""Warnings of inputs and targets on a scale on which training fails silently."""

import warnings

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.errors import PrivacyWarning, level_of_caller
from tfdpnorm.keras_compat.inputs import rows_by_input
from tfdpnorm.keras_compat.models import graph_inputs, sublayers, tensors_before
from tfdpnorm.layers import ScaleToBounds

_OF_IMAGES = (
    "pixels from 0 to 255 train badly. Write x.astype('float32') / 255, for test images as well, "
    "or, without public rows, begin the model with keras.layers.Rescaling(1 / 255)."
)
_OF_TABLES = (
    "they train badly. Begin the model with tfdpnorm.layers.ScaleToBounds(low, high): public "
    "constants for each column."
)
# What is scaled to 0..1, or to mean 0 and variance 1, has a root mean square of about 1.
_LARGE = 10.0
_SCALINGS = (keras.layers.Rescaling, keras.layers.Normalization, ScaleToBounds)
_SOME = 256
# Targets of such a size are far from what a fresh model gives, about 1.
_LARGE_TARGETS = 100.0


def warn_of_unscaled_images(model, x):
    """Warns of images of whole numbers, such as 0 to 255, for a model of floats that scales none.

    It looks at shapes and dtypes alone, which are public: no value of an example decides.
    """
    whole = [a.dtype for a in _unscaled(model, x, rank=4) if np.dtype(a.dtype).kind in "iu"]
    if whole:
        warnings.warn(
            f"The images are whole numbers ({whole[0]}), and no layer scales them: {_OF_IMAGES}",
            PrivacyWarning,
            stacklevel=level_of_caller(),
        )


def warn_of_large_inputs(model, x):
    """Warns of floats that are much larger than 1, for a model that scales none.

    The warning depends on private data, without noise, as that of `warn_of_other_scale`. Only
    arrays [N, ...] are looked at: what is read when drawn would have to be read for it.
    """
    for rank, name, remedy in ((4, "images", _OF_IMAGES), (2, "columns of x", _OF_TABLES)):
        arrays = [a[:_SOME] for a in _unscaled(model, x, rank) if isinstance(a, np.ndarray)]
        if any(a.dtype.kind == "f" and _root_mean_square(a) > _LARGE for a in arrays):
            warnings.warn(
                f"The {name} are large numbers (root mean square above {_LARGE:g}), and no layer "
                f"scales them: {remedy} This message depends on the private data; keep it with "
                "them.",
                PrivacyWarning,
                stacklevel=level_of_caller(),
            )


def warn_of_large_targets(y):
    """Warns of float targets most of which are large, as raw prices: a model hardly gets there.

    As `warn_of_large_inputs`, it depends on private data, and looks at arrays [N, ...] alone.
    """
    arrays = [a[:_SOME] for a in tf.nest.flatten(y) if isinstance(a, np.ndarray)]
    if any(a.dtype.kind == "f" and np.median(np.abs(a)) > _LARGE_TARGETS for a in arrays):
        warnings.warn(
            f"Most targets are above {_LARGE_TARGETS:g} in size. Clipped gradients move outputs by "
            "little, and may never bring them there. Scale targets to a size of about 1 by public "
            "constants, such as (y - 50_000) / 10_000, and scale predictions back. This message "
            "depends on the private data; keep it with them.",
            PrivacyWarning,
            stacklevel=level_of_caller(),
        )


def _unscaled(model, x, rank):
    """The arrays of `x` that a model takes as floats of that rank; none if it scales any.

    Those that an embedding takes are ids.
    """
    layers = list(sublayers(model))
    if any(isinstance(layer, _SCALINGS) for layer in layers):
        return []
    embeddings = [layer for layer in layers if isinstance(layer, keras.layers.Embedding)]
    ids = {id(tensor) for layer in embeddings for tensor in tensors_before(layer)}
    return [
        array
        for tensor, array in zip(graph_inputs(model), rows_by_input(model, x), strict=False)
        if len(tensor.shape) == rank
        and tf.as_dtype(tensor.dtype).is_floating
        and id(tensor) not in ids
    ]


def _root_mean_square(array):
    return np.sqrt(np.mean(np.square(array, dtype=np.float64)))


# Two sets of the same kind differ by less than this factor, pixels in 0..255 and 0..1 by more.
_FACTOR = 20.0
# More than this part of standardised numbers is negative.
_PART = 0.1


def warn_of_other_scale(public, private):
    """Warns if public rows [M, ...] seem to be in other units than the private ones [N, ...].

    The warning depends on private data, without noise. It is for those who hold the data, shows no
    number of them, and changes nothing that is released. Public rows on another scale normalise
    every example by moments that do not fit, and training would fail silently.
    """
    public, private = np.asarray(public), np.asarray(private)
    if private.dtype.kind != "f" or public.dtype.kind != "f":
        return  # ids have no scale
    sizes = [_root_mean_square(t) for t in (public, private)]
    larger, smaller = max(sizes), min(sizes)
    if larger > _FACTOR * smaller:
        word = "larger" if sizes[0] == larger else "smaller"
        warnings.warn(
            f"The public rows are more than {_FACTOR:g} times {word} than the private ones (root "
            "mean square), as with 0..255 compared with 0..1: bring both to one scale. This "
            "message depends on the private data; keep it with them.",
            PrivacyWarning,
            stacklevel=level_of_caller(),
        )
    parts = [np.mean(t < 0) for t in (public, private)]
    if private.ndim == 4 and min(parts) == 0 and max(parts) > _PART:
        words = ("private", "public") if parts[0] == 0 else ("public", "private")
        warnings.warn(
            "Many pixels of the {} images are negative, and none of the {} ones, as with -1..1 "
            "compared with 0..1: bring both to one range, synthetic ones by "
            "tfdpnorm.data.SyntheticRows(value_range=(-1, 1)). This message depends on the "
            "private data; keep it with them.".format(*words),
            PrivacyWarning,
            stacklevel=level_of_caller(),
        )
