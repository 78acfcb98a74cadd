"""A copy of a model whose layers draw their weights at every call."""

import random

from tensorflow import keras

from tfdpnorm.keras_compat.exchange import (
    cloned,
    copy_state,
    fresh_copy,
    models_within,
    set_trainable_alone,
)
from tfdpnorm.keras_compat.models import is_made_of_layers
from tfdpnorm.layers.own_generator import checked_seed
from tfdpnorm.layers.weight_noise import (
    NORMALIZATIONS,
    WeightNoise,
    checked_stddev,
    drawn_weights,
)


def with_weight_noise(model, stddev, seed=None):
    """Returns a copy of a model in which every layer that has trainable weights draws them.

    Each such layer, frozen or not, also in nested models, is wrapped in a `WeightNoise` of the same
    name, so that `get_layer(name)` finds the wrapper. A layer that is called twice in one pass
    draws twice. Normalisation layers stay as they are: gamma and beta are learnt, not drawn.
    (Davody et al. draw the weights of a network and normalise after each trainable layer; we read
    "weights" as those of the layers that normalisation follows.)

    Args:
        model: A functional or sequential Keras model, built. The copy has its weights, but is not
            compiled.
        stddev: As in `WeightNoise`; 0 returns the model itself.
        seed: None, or an int as in `WeightNoise`, from which each layer gets one of its own.

    Returns:
        A Keras model.

    Raises:
        ValueError: for subclassed models, models that are not built, that have `WeightNoise`
            already, or in which layers share weights, and as `WeightNoise` does.

    Reference:
        Davody et al. (2020), Section 2.
    """
    stddev, seed = checked_stddev(stddev), checked_seed(seed)
    if not stddev:
        return model
    for part in models_within(model):
        _check_model(part)
    seeds = None if seed is None else random.Random(seed)

    def wrapped(layer):
        if isinstance(layer, NORMALIZATIONS) or not drawn_weights(layer):
            return None
        own_seed = None if seeds is None else seeds.getrandbits(63)
        return WeightNoise(fresh_copy(layer), stddev, own_seed, name=layer.name)

    noisy, exchanged = cloned(model, wrapped)
    if len(noisy.weights) != len(model.weights):
        raise ValueError(
            f"Expected layers with weights of their own in model {model.name!r}, got layers that "
            "share some, which a copy would not. Wrap the layers by hand."
        )
    for layer, wrapper in exchanged:
        copy_state(layer, wrapper.layer)
        set_trainable_alone(wrapper, layer.trainable)
    return noisy


def _check_model(model):
    if not isinstance(model, keras.Model) or not is_made_of_layers(model):
        raise ValueError(
            "Expected a functional or sequential model, got "
            f"{type(model).__name__} {getattr(model, 'name', '')!r}. Wrap the layers of another "
            "kind of model in WeightNoise where it makes them."
        )
    if not model.built:
        raise ValueError(
            f"Expected a built model, got {model.name!r}, which has no weights yet. Call "
            "model.build(input_shape) first."
        )
