"""Public-batch normalisation folded into stock Keras layers."""

from __future__ import annotations

import numpy as np
from tensorflow import keras

from tfdpnorm.keras_compat.exchange import cloned, models_within
from tfdpnorm.keras_compat.models import is_made_of_layers, sublayers
from tfdpnorm.layers import (
    FrozenBatchNormalization,
    PublicBatchNormalization,
    PublicCentering,
    PublicMomentsLayer,
)

# A fused BatchNormalization takes no epsilon below 1e-5; the variance is less by as much.
_EPSILON = 1e-3


def fold_public_statistics(model: keras.Model) -> keras.Model:
    """Returns a stock Keras model that predicts as `model` does, without public rows.

    Each `PublicBatchNormalization` becomes a frozen `BatchNormalization` whose moving statistics
    are the stored public moments, each `PublicCentering` one that subtracts the stored mean, and
    each `FrozenBatchNormalization` one of the same weights.
    Of a private model, the model inside is folded, with its moments up to date. Activations of this
    library, such as Mish in a ResNet-9, stay.

    Args:
        model: A private model, or a Sequential or functional Keras model whose
            `PublicBatchNormalization` layers are in the statistics mode "public".

    Returns:
        A new model with its own copy of the weights.

    Raises:
        ValueError: for another statistics mode, a subclassed model, or layers that hold no moments
            yet.

    Example::

        private = tfdpnorm.make_private(model, plan, public_batch=public_rows)
        private.refresh_public_statistics()  # fit() does it, too
        served = tfdpnorm.fold_public_statistics(private)
        scores = served.predict(x, verbose=0)
    """
    if hasattr(model, "servable"):
        model = model.servable()
    for part in models_within(model):
        if not is_made_of_layers(part):
            raise ValueError(
                "Expected a Sequential or functional model, whose layers can be replaced, got the "
                f"subclassed {type(part).__name__}. Save the model as it is: that needs no public "
                "rows either."
            )
    for layer in sublayers(model):
        if not isinstance(layer, PublicMomentsLayer):
            continue
        if layer.statistics != "public":
            raise ValueError(
                f'Expected statistics="public" in layer {layer.name!r}, got {layer.statistics!r}: '
                "its moments depend on each example and are not constant."
            )
        if not layer.built or layer.public_rows.numpy() == 0:
            raise ValueError(
                f"Layer {layer.name!r} holds no public moments yet. Fold after private training, "
                "or call private.refresh_public_statistics() first."
            )
    folded, exchanged = cloned(model, _stock)
    for layer, stock in exchanged:
        stock.set_weights(_stock_weights(layer))
    return folded


def _stock(layer):
    """The stock layer that replaces `layer`; None where it is one."""
    if isinstance(layer, (FrozenBatchNormalization, PublicBatchNormalization)):
        return _frozen(layer, epsilon=layer.epsilon, center=layer.center, scale=layer.scale)
    if isinstance(layer, PublicCentering):
        return _frozen(layer, epsilon=_EPSILON, center=False, scale=False)
    if any(isinstance(inner, PublicMomentsLayer) for inner in sublayers(layer)):
        # ScaleNorm's sum of paths, for one, is no stock layer of one input.
        raise ValueError(
            f"Expected public-batch normalisation only as layers of the model, got {layer.name!r} "
            f"({type(layer).__name__}), which contains it and does not correspond to a single "
            "stock layer. Save the model as it is: it needs no public rows either."
        )
    return None


def _frozen(layer, **settings):
    return keras.layers.BatchNormalization(
        axis=layer.axis,
        trainable=False,
        name=layer.name,
        dtype=layer.dtype_policy,
        **settings,
    )


def _stock_weights(layer):
    if isinstance(layer, FrozenBatchNormalization):
        return layer.get_weights()
    if isinstance(layer, PublicCentering):
        mean = layer.public_mean.numpy()
        return [mean, np.full_like(mean, 1.0 - _EPSILON)]
    weights = [layer.gamma] if layer.scale else []
    weights += [layer.beta] if layer.center else []
    return [w.numpy() for w in (*weights, layer.public_mean, layer.public_variance)]
