"""tensorflow-privacy by itself, without this library's training step around it."""

import tensorflow as tf
from tensorflow import keras
from tensorflow_privacy.privacy.fast_gradient_clipping import layer_registry
from tensorflow_privacy.privacy.fast_gradient_clipping.registry_functions import (
    einsum_dense,
    layer_normalization,
    multi_head_attention,
)
from tensorflow_privacy.privacy.keras_models.dp_keras_model import DPModel
from tensorflow_privacy.privacy.optimizers.dp_optimizer_keras_vectorized import (
    VectorizedDPKerasSGDOptimizer,
)

from benchmarks.engines import (
    L2_NORM_CLIP,
    LEARNING_RATE,
    NOISE_MULTIPLIER,
    UnsupportedError,
)
from benchmarks.keras_engines import build_model, prepared_step


def prepare(engine, model_name, x, y):
    """Prepares the step of one of the engines "tfp_native_...".

    "tfp_native_optimizer" is `VectorizedDPKerasSGDOptimizer`; "tfp_native_model" `DPModel` as it
    comes, with XLA, and "tfp_native_model_no_xla" without; "tfp_native_fast_clipping" is `DPModel`
    with the registry of layers whose norms it has rules for.
    """
    model = build_model(model_name)
    data = (tf.constant(x), tf.constant(y))
    optimizer = keras.optimizers.SGD(LEARNING_RATE)
    reduction = keras.losses.Reduction.AUTO
    if engine == "tfp_native_optimizer":
        optimizer = VectorizedDPKerasSGDOptimizer(
            L2_NORM_CLIP, NOISE_MULTIPLIER, learning_rate=LEARNING_RATE
        )
        reduction = keras.losses.Reduction.NONE
    else:
        fast = engine == "tfp_native_fast_clipping"
        registry = _registry() if fast else None
        if fast:
            _check_registered(model, registry)
        model = DPModel(
            L2_NORM_CLIP,
            NOISE_MULTIPLIER,
            use_xla=engine == "tfp_native_model",
            layer_registry=registry,
            inputs=model.inputs,
            outputs=model.outputs,
        )
    model.compile(
        optimizer=optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction),
    )
    return prepared_step(model, data)


def _registry():
    """Every rule that tensorflow-privacy has for layers of Keras; two are there by default."""
    registry = layer_registry.make_default_layer_registry()
    for layer, rule in (
        (keras.layers.EinsumDense, einsum_dense.einsum_layer_computation),
        (
            keras.layers.LayerNormalization,
            layer_normalization.layer_normalization_computation,
        ),
        (
            keras.layers.MultiHeadAttention,
            multi_head_attention.multi_head_attention_layer_computation,
        ),
    ):
        registry.insert(layer, rule)
    return registry


def _check_registered(model, registry):
    # DPModel would use its slow path silently.
    missing = {
        type(layer).__name__
        for layer in model.layers
        if layer.trainable_variables and not registry.is_elem(layer)
    }
    if missing:
        raise UnsupportedError(f"no rule for {', '.join(sorted(missing))}")
