"""The part of an imported model that is trained: frozen layers, features, and a new last layer."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING

from tensorflow import keras

from tfdpnorm import arguments
from tfdpnorm.keras_compat.exchange import cloned, set_trainable_alone
from tfdpnorm.keras_compat.models import (
    cut_in_two,
    is_functional,
    own_weights,
    sublayers,
    weight_owners,
)
from tfdpnorm.models.normalization import normalization_layer

if TYPE_CHECKING:
    from collections.abc import Sequence


def freeze(model: keras.Model, trainable: str | Sequence[str]) -> list[str]:
    """Freezes all layers of a model but some, which are trained.

    Frozen layers keep their weights, and frozen batch normalisation normalises by its moving
    averages. Layers without weights, such as Dropout, stay as they are.

    Args:
        model: A Keras model, built; it is changed.
        trainable: "all"; "head", the last layer that has weights; "last:N", the last N of those;
            or a list of names of layers, or shell-style patterns of them, such as ["block7*"].

    Returns:
        The names of the layers that are trained, in order.

    Raises:
        ValueError: for anything else, for names that no layer has, and for more layers than there
            are.
    """
    owners = weight_owners(model)
    chosen = {id(layer) for layer in _chosen(owners, checked_trainable(trainable))}
    for part in (model, *sublayers(model)):
        set_trainable_alone(part, True)
    for layer in owners:
        if id(layer) not in chosen:
            layer.trainable = False
    return [layer.name for layer in owners if id(layer) in chosen]


def checked_trainable(trainable):
    """Returns `trainable` as a list of patterns, or as the number of last layers; None for all.

    Raises ValueError for values that `freeze` does not support.
    """
    if trainable == "all":
        return None
    if trainable == "head":
        return 1
    if isinstance(trainable, str) and trainable.startswith("last:"):
        number = trainable.removeprefix("last:")
        if number.isdecimal() and int(number) > 0:
            return int(number)
    elif isinstance(trainable, (list, tuple)) and all(isinstance(x, str) for x in trainable):
        if trainable:
            return list(trainable)
    raise arguments.refusal(
        "trainable", 'to be "all", "head", "last:N" or a list of names of layers', trainable
    )


def check_last(number, there):
    """Rejects "last:N" of `number` N if fewer layers, `there`, have weights."""
    if number > there:
        raise ValueError(
            f"Expected trainable to be last:{there} or less, got last:{number}: no more layers "
            'have weights. For all of them, pass "all".'
        )


def _chosen(owners, trainable):
    if trainable is None:
        return owners
    if isinstance(trainable, int):
        check_last(trainable, len(owners))
        return owners[-trainable:]
    for pattern in trainable:
        if not any(fnmatch.fnmatchcase(layer.name, pattern) for layer in owners):
            raise ValueError(
                f"Expected names of layers that have weights in trainable, got {pattern!r}. They "
                f"are {', '.join(layer.name for layer in owners)}."
            )
    return [x for x in owners if any(fnmatch.fnmatchcase(x.name, each) for each in trainable)]


def counts(model):
    """Returns how many layers of a model with weights are trained, and how many there are."""
    owners = weight_owners(model)
    return sum(bool(layer.trainable_weights) for layer in owners), len(owners)


_ACTIVATIONS = (keras.layers.Activation, keras.layers.Softmax, keras.layers.ReLU)


def trunk_of(model):
    """Returns the part of an image model that gives features [rows, F], without its classifier.

    The classifier is the last dense layer, with an activation or Dropout after it, if the model
    ends with these; the model itself is returned if there is nothing to leave out. Features with
    height and width are averaged over both. Weights are shared. The model is Sequential or
    functional, with one input and one output, and built; ValueError for others.
    """
    if not is_functional(model) or len(model.inputs) != 1 or len(model.outputs) != 1:
        raise ValueError(
            "Expected a Sequential or functional model with one input and one output, got "
            f"{type(model).__name__} {model.name!r}. Build and train a model of your own around it "
            "with make_private(..., convert=...)."
        )
    classifier = classifier_of(model)
    features = model.outputs[0] if classifier is None else classifier.input
    pooled = features
    if len(features.shape) == 4:
        pooled = keras.layers.GlobalAveragePooling2D(name="features_pooling")(features)
    elif len(features.shape) != 2:
        raise ValueError(
            "Expected features [rows, F] or [rows, height, width, channels], got shape "
            f"{tuple(features.shape)} of model {model.name!r}."
        )
    if pooled is model.outputs[0]:
        return model
    return keras.Model(model.inputs[0], pooled, name=f"{model.name}_trunk")


def classifier_of(model):
    """Returns the last dense layer of a model if it ends with that; None otherwise.

    An activation or Dropout may come after the layer.
    """
    layers = list(model.layers)
    while len(layers) > 1 and isinstance(layers[-1], (*_ACTIVATIONS, keras.layers.Dropout)):
        layers.pop()
    return layers[-1] if isinstance(layers[-1], keras.layers.Dense) else None


def frozen_part(trunk, trained):
    """Freezes all of a trunk but its last layers, and parts it where nothing before is trained.

    What is before the cut is run once for each image, in inference mode: Dropout drops nothing. Of
    the layers with weights of the trunk, a model from inputs to features [rows, F], the last
    `trained` are trained; ValueError if there are fewer.

    Returns:
        Pair of models, (what is frozen, what comes after it). The first is None if what is trained
        begins at the input, the second if all is frozen. The second has weights of its own.
    """
    if trained == 0:
        trunk.trainable = False
        return trunk, None
    freeze(trunk, f"last:{trained}")
    cut = cut_in_two(trunk, lambda layer: layer.trainable and own_weights(layer))
    if cut is None:
        return None, trunk
    below, above = cut
    return below, cloned(above, lambda layer: None)[0]


def head_layers(num_classes, norm, features, statistics="public", statistics_gradient="full"):
    """Returns the new layers after F `features`: normalisation, if any, and the logits from 0.

    `norm` is one of `tfdpnorm.models`; the statistics are for "public_batch".
    """
    before = normalization_layer(
        norm,
        features,
        statistics=statistics,
        statistics_gradient=statistics_gradient,
        name="features_norm",
    )
    logits = keras.layers.Dense(num_classes, kernel_initializer="zeros", name="logits")
    return [*([] if before is None else [before]), logits]


def whole_model(trunk, layers, pixels, image_shape, views=1):
    """Returns the model from images in [0, 1] of a shape (height, width, channels) to logits.

    `trunk`, frozen or not, gives features, or what the first of the further layers takes. With 2
    `views`, the features of each image and of its mirror image are averaged.
    """
    inputs = keras.Input(image_shape, name="image")
    x = pixels(inputs)
    features = trunk(x)
    if views == 2:
        features = keras.layers.Average(name="views")([features, trunk(x[:, :, ::-1])])
    for layer in layers:
        features = layer(features)
    return keras.Model(inputs, features, name=f"{trunk.name}_finetuned")
