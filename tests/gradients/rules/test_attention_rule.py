"""Attention layers: multi-head ones by their projections, others by copies of their weights."""

import pytest
import tensorflow as tf
from tensorflow import keras

from tests.gradients.invariants import (
    assert_clipped_to_the_norm,
    assert_graph_equals_eager,
    assert_one_mask_for_norm_and_sum,
    head,
)
from tests.gradients.looped_reference import assert_equals_the_loop
from tfdpnorm.gradients.rules import rule_for
from tfdpnorm.gradients.taps import Taps
from tfdpnorm.keras_compat.devices_and_precision import made_under
from tfdpnorm.keras_compat.models import weight_owners

layers = keras.layers


def self_attention(**kwargs):
    inputs = keras.Input((4, 3))
    x = layers.Dense(3)(inputs)
    return keras.Model(inputs, head(layers.MultiHeadAttention(2, 2, **kwargs)(x, x)))


def causal():
    inputs = keras.Input((4, 3))
    attention = layers.MultiHeadAttention(2, 3, value_dim=2, output_shape=5)
    return keras.Model(inputs, head(attention(inputs, inputs, use_causal_mask=True)))


def cross_attention():
    query, value, key = keras.Input((4, 3)), keras.Input((5, 2)), keras.Input((5, 6))
    x = layers.MultiHeadAttention(2, 2, value_dim=4)(query, value, key)
    return keras.Model([query, value, key], head(x))


def two_attention_axes():
    inputs = keras.Input((3, 2, 4))
    x = layers.MultiHeadAttention(2, 2, attention_axes=(1, 2), use_bias=False)(inputs, inputs)
    return keras.Model(inputs, head(x))


def masks():
    tokens = keras.Input((5,), dtype="int32")
    mask = keras.Input((5, 5), dtype="int32")
    x = layers.Embedding(20, 3, mask_zero=True)(tokens)
    x = layers.MultiHeadAttention(2, 2)(x, x, attention_mask=mask)
    return keras.Model([tokens, mask], head(layers.LayerNormalization()(x)))


def with_scores():
    inputs = keras.Input((4, 3))
    x, scores = layers.MultiHeadAttention(2, 2)(inputs, inputs, return_attention_scores=True)
    return keras.Model(inputs, head(layers.Concatenate()([layers.Flatten()(x), head(scores)])))


def called_twice():
    inputs = keras.Input((4, 3))
    attention = layers.MultiHeadAttention(2, 2)
    x = attention(inputs, inputs)
    return keras.Model(inputs, head(attention(x, inputs)))


MULTI_HEAD = [
    self_attention,
    causal,
    cross_attention,
    two_attention_axes,
    masks,
    with_scores,
    called_twice,
]


@pytest.mark.parametrize("build", MULTI_HEAD)
def test_multi_head_attention_equals_the_loop(build):
    keras.utils.set_random_seed(3)
    assert_equals_the_loop(build(), counts=(1, 3))


def test_multi_head_attention_is_tapped_at_its_four_projections():
    model = self_attention()
    owners = [layer for layer in weight_owners(model) if isinstance(layer, layers.EinsumDense)]
    assert {x.name for x in owners} == {"query", "key", "value", "attention_output"}
    assert all(rule_for(layer) is not None for layer in owners)
    with tf.GradientTape() as tape:
        with Taps(model, model.trainable_variables).attached(tape) as taps:
            model(tf.ones([2, 4, 3]))
    tapped = [tap.layer.name for tap in taps.calls if tap.layer in owners]
    assert tapped == ["query", "key", "value", "attention_output"]


def attention(layer, with_key, **kwargs):
    query, value = keras.Input((4, 3)), keras.Input((5, 3))
    inputs = [query, value]
    if with_key:
        inputs.append(keras.Input((5, 3)))
    x = layer([layers.Dense(3)(x) for x in inputs], **kwargs)
    return keras.Model(inputs, head(x))


@pytest.mark.parametrize(
    "layer",
    [
        lambda: layers.Attention(use_scale=True),
        lambda: layers.Attention(score_mode="concat"),
        lambda: layers.Attention(use_scale=True, score_mode="concat"),
        lambda: layers.AdditiveAttention(),
    ],
)
@pytest.mark.parametrize("with_key", [False, True])
def test_attention_equals_the_loop(layer, with_key):
    keras.utils.set_random_seed(3)
    layer = layer()
    model = attention(layer, with_key)
    assert rule_for(layer) is not None
    weights = layer.weights
    assert_equals_the_loop(model)
    assert [a is b for a, b in zip(layer.weights, weights, strict=True)] == [True] * len(weights)
    assert layer.scale is None or any(layer.scale is weight for weight in weights)


def test_attention_that_is_causal_and_gives_its_scores():
    keras.utils.set_random_seed(3)
    inputs = keras.Input((4, 3))
    layer = layers.AdditiveAttention()
    x, scores = layer([inputs, inputs], use_causal_mask=True, return_attention_scores=True)
    again = layer([x, inputs])
    assert_equals_the_loop(keras.Model(inputs, head(layers.Concatenate()([again, scores]))))


@pytest.mark.slow_cases("<lambda>0")
@pytest.mark.parametrize(
    "layer", [lambda: layers.AdditiveAttention(), lambda: layers.Attention(use_scale=True)]
)
def test_attention_in_a_graph_with_an_unknown_number_of_rows(layer):
    assert_graph_equals_eager(attention(layer(), False))


@pytest.mark.parametrize(
    "build",
    [
        lambda: self_attention(dropout=0.5),
        lambda: attention(layers.Attention(use_scale=True, dropout=0.5), False),
    ],
)
def test_dropout_has_one_mask_for_the_norm_and_the_sum(build):
    assert_one_mask_for_norm_and_sum(build(), seeds=range(3))


@pytest.mark.parametrize(
    "build", [self_attention, lambda: attention(layers.AdditiveAttention(), False)]
)
def test_half_precision_never_exceeds_the_clip(build):
    with made_under("mixed_float16"):
        model = build()
    assert_clipped_to_the_norm(model, rel=1e-3)
