"""Warnings of inputs on a scale on which training fails silently."""

import warnings

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.errors import PrivacyWarning, level_of_caller
from tfdpnorm.keras_compat.models import sublayers, symbolic_inputs

_REMEDY = (
    "Write x.astype('float32') / 255, for test images as well, or begin the model with "
    "keras.layers.Rescaling(1 / 255)."
)
# Images that are scaled to 0..1, or to mean 0 and variance 1, have a root mean square of about 1.
_LARGE = 10.0
_SOME = 256


def warn_of_unscaled_images(model, x):
    """Warns of images of whole numbers, such as 0 to 255, for a model of floats that scales none.

    It looks at shapes and dtypes alone, which are public: no value of an example decides.

    Args:
        model: A Keras model.
        x: Structure of arrays [N, ...].
    """
    whole = [a.dtype for a in _unscaled_images(model, x) if np.dtype(a.dtype).kind in "iu"]
    if whole:
        warnings.warn(
            f"The images are whole numbers ({whole[0]}), and no layer scales them: pixels from 0 "
            f"to 255 train badly. {_REMEDY}",
            PrivacyWarning,
            stacklevel=level_of_caller(),
        )


def warn_of_large_images(model, inputs):
    """Warns of images of floats that seem to lie in 0 to 255, for a model that scales none.

    The warning depends on private data, without noise, as that of `warn_of_other_scale`.

    Args:
        model: A Keras model.
        inputs: The `InputArrays` or `UnreadInputs` of the private rows.
    """
    if all(np.dtype(a.dtype).kind != "f" for a in _unscaled_images(model, inputs.x)):
        return
    images = [np.asarray(a[:_SOME]) for a in _unscaled_images(model, inputs.some())]
    if any(a.dtype.kind == "f" and _root_mean_square(a) > _LARGE for a in images):
        warnings.warn(
            f"The images are large numbers (root mean square above {_LARGE:g}), and no layer "
            f"scales them: pixels from 0 to 255 train badly. {_REMEDY} This message depends on the "
            "private data; keep it with them.",
            PrivacyWarning,
            stacklevel=level_of_caller(),
        )


def _unscaled_images(model, x):
    """The arrays of `x` that a model takes as images of floats, a list; empty if it scales any."""
    inputs = tf.nest.flatten(symbolic_inputs(model))
    scales = (keras.layers.Rescaling, keras.layers.Normalization)
    if isinstance(x, dict) or any(isinstance(layer, scales) for layer in sublayers(model)):
        return []
    return [
        array
        for spec, array in zip(inputs, tf.nest.flatten(x), strict=False)
        if getattr(spec, "shape", None) is not None
        and len(spec.shape) == 4
        and tf.as_dtype(spec.dtype).is_floating
    ]


def _root_mean_square(array):
    return np.sqrt(np.mean(np.square(array, dtype=np.float64)))


# Two sets of the same kind differ by less than this factor, pixels in 0..255 and 0..1 by more.
_FACTOR = 20.0


def warn_of_other_scale(public, private):
    """Warns if public rows seem to be in other units than the private ones.

    The warning depends on private data, without noise. It is for those who hold the data, shows no
    number of them, and changes nothing that is released. Public rows on another scale normalise
    every example by moments that do not fit, and training would fail silently.

    Args:
        public: Array or tensor [M, ...].
        private: Array [N, ...].
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
