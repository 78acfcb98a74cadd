"""Public-batch normalisation folded into stock Keras layers."""

import numpy as np
from tensorflow import keras

from tfdpnorm.keras_compat.walk import sublayers
from tfdpnorm.layers import PublicBatchNormalization, PublicCentering, PublicMomentsLayer

# A fused BatchNormalization takes no epsilon below 1e-5; the variance makes up for it.
_EPSILON = 1e-3


def fold_public_statistics(model):
    """Returns a stock Keras model that predicts as `model` does, without public rows.

    Each `PublicBatchNormalization` becomes a frozen `BatchNormalization` whose moving statistics
    are the stored public moments, and each `PublicCentering` one that takes the stored mean away.
    Take a model after private training: `private.servable()`.

    Args:
        model: A Sequential or functional Keras model whose `PublicBatchNormalization` layers are
            in the statistics mode "public".

    Returns:
        A new model with its own copy of the weights.

    Raises:
        ValueError: for another statistics mode, a subclassed model, or layers that hold no moments
            yet.
    """
    _check(model)
    folded = keras.models.clone_model(model, clone_function=_stock)
    for old, new in zip(model.layers, folded.layers, strict=True):
        new.set_weights(_stock_weights(old))
    return folded


def _check(model):
    if not (isinstance(model, keras.Sequential) or getattr(model, "_is_graph_network", False)):
        raise ValueError(
            "Expected a Sequential or functional model, whose layers can be exchanged, got the "
            f"subclassed {type(model).__name__}. Use its saved form as it is: it needs no public "
            "rows either."
        )
    for layer in sublayers(model):
        if not isinstance(layer, PublicMomentsLayer):
            continue
        if layer.statistics != "public":
            raise ValueError(
                f'Expected statistics="public" in layer {layer.name!r}, got {layer.statistics!r}: '
                "its moments depend on each example and are no constants."
            )
        if not layer.built or layer.public_rows.numpy() == 0:
            raise ValueError(
                f"Expected layer {layer.name!r} to hold public moments, got none. Fold after "
                "private training, or call private.refresh_public_statistics() first."
            )


def _stock(layer):
    if isinstance(layer, PublicBatchNormalization):
        return _frozen(layer, epsilon=layer.epsilon, center=layer.center, scale=layer.scale)
    if isinstance(layer, PublicCentering):
        return _frozen(layer, epsilon=_EPSILON, center=False, scale=False)
    if isinstance(layer, keras.Model):
        return fold_public_statistics(layer)
    if any(isinstance(inner, PublicMomentsLayer) for inner in sublayers(layer)):
        # ScaleNorm's sum of paths, for one, is no stock layer of one input.
        raise ValueError(
            f"Expected public-batch normalisation only as layers of the model, got {layer.name!r} "
            f"({type(layer).__name__}), which holds it inside and has no single stock layer to "
            "become. Save the model as it is: it needs no public rows either."
        )
    return layer.__class__.from_config(layer.get_config())


def _frozen(layer, **options):
    return keras.layers.BatchNormalization(
        axis=layer.axis,
        trainable=False,
        name=layer.name,
        dtype=layer.dtype_policy,
        **options,
    )


def _stock_weights(layer):
    if isinstance(layer, PublicCentering):
        mean = layer.public_mean.numpy()
        return [mean, np.full_like(mean, 1.0 - _EPSILON)]
    if not isinstance(layer, PublicBatchNormalization):
        if isinstance(layer, keras.Model):
            return fold_public_statistics(layer).get_weights()
        return layer.get_weights()
    weights = [layer.gamma] if layer.scale else []
    weights += [layer.beta] if layer.center else []
    return [w.numpy() for w in (*weights, layer.public_mean, layer.public_variance)]
