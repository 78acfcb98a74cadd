"""Attention layers against the loop, with dropout and in half precision."""

from tensorflow import keras

from tests.gradients.invariants import (
    assert_clipped_to_the_norm,
    assert_one_mask_for_norm_and_sum,
    head,
)
from tests.gradients.looped_reference import assert_equals_the_loop, assert_graph_equals_the_loop
from tfdpnorm.keras_compat.devices_and_precision import made_under

layers = keras.layers


def flat(*parts):
    return layers.Concatenate()([layers.Flatten()(x) for x in parts])


def multi_head():
    """Causal, across inputs, over two axes, with its scores, called twice, and masked."""
    x, value, key = keras.Input((4, 3)), keras.Input((5, 2)), keras.Input((5, 6))
    images, tokens = keras.Input((3, 2, 4)), keras.Input((5,), dtype="int32")
    mask = keras.Input((5, 5), dtype="int32")
    of_causal = layers.MultiHeadAttention(2, 3, value_dim=2, output_shape=5)
    of_axes = layers.MultiHeadAttention(2, 2, attention_axes=(1, 2), use_bias=False)
    twice = layers.MultiHeadAttention(2, 2)
    parts = [
        of_causal(x, x, use_causal_mask=True),
        layers.MultiHeadAttention(2, 2, value_dim=4)(x, value, key),
        of_axes(images, images),
        *layers.MultiHeadAttention(2, 2)(x, x, return_attention_scores=True),
        twice(twice(x, x), x),
    ]
    words = layers.Embedding(20, 3, mask_zero=True)(tokens)
    masked = layers.MultiHeadAttention(2, 2)(words, words, attention_mask=mask)
    outputs = head(flat(*parts)) + head(layers.LayerNormalization()(masked))
    return keras.Model([x, value, key, images, tokens, mask], outputs)


KINDS = [
    lambda **options: layers.Attention(use_scale=True, **options),
    lambda **options: layers.Attention(score_mode="concat", **options),
    lambda **options: layers.Attention(use_scale=True, score_mode="concat", **options),
    lambda **options: layers.AdditiveAttention(**options),
]


def others(**options):
    """Each kind with and without a key, and one that is causal and called twice."""
    query, value, key = inputs = [keras.Input((n, 3)) for n in (4, 5, 5)]
    parts = []
    for kind in KINDS:
        for given in ([query, value], [query, value, key]):
            parts.append(kind(**options)([layers.Dense(3)(x) for x in given]))
    twice = layers.AdditiveAttention(**options)
    x, scores = twice([query, query], use_causal_mask=True, return_attention_scores=True)
    return keras.Model(inputs, head(flat(*parts, twice([x, query]), scores)))


def test_equals_the_loop():
    assert_equals_the_loop(multi_head(), counts=(1, 3))
    assert_graph_equals_the_loop(others())


def test_dropout_has_one_mask_for_the_norm_and_the_sum():
    inputs = keras.Input((4, 3))
    x = layers.MultiHeadAttention(2, 2, dropout=0.5)(inputs, inputs)
    assert_one_mask_for_norm_and_sum(keras.Model(inputs, head(x)), seeds=range(3))


def test_half_precision_never_exceeds_the_clip():
    with made_under("mixed_float16"):
        model = multi_head()
    assert_clipped_to_the_norm(model, rel=1e-3)
