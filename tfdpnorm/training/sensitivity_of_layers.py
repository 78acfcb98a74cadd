"""The sensitivity of gradients that are clipped layer by layer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfdpnorm import arguments
from tfdpnorm.keras_compat.models import layer_numbers

if TYPE_CHECKING:
    from tensorflow import keras


def total_l2_norm_clip(model: keras.Model, clip_of_each_layer: float) -> float:
    """Returns C sqrt(K): how long the gradient of all K layers is if each is clipped to C.

    It is the `l2_norm_clip` of a plan for `Clipping(grouping="per_layer")`, which divides it
    among the layers again, and what the noise has to be in proportion to. A layer with its kernel,
    its bias and its noise is one; K = 2 for a network with one hidden layer. If each variable were
    clipped by itself, K would be the number of variables.

    Args:
        model: A built Keras model.
        clip_of_each_layer: C > 0.

    Returns:
        C sqrt(K), a float.

    Raises:
        ValueError: for a C that is not positive, and a model without trainable variables.

    Reference:
        McMahan et al. (2018), "Learning differentially private recurrent language models". Ermis
        and Cemgil (2017) clip each layer at C and count a sensitivity of 2 C.
    """
    clip = arguments.positive("clip_of_each_layer", clip_of_each_layer)
    layers = len(set(layer_numbers(model, model.trainable_variables)))
    if not layers:
        raise ValueError(
            f"Expected a built model with trainable variables, got {model.name!r} without any. "
            "Call model.build(input_shape) first."
        )
    return clip * math.sqrt(layers)
