"""A block of a transformer over words."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.models.blocks import dense_layers
from tfdpnorm.models.normalization import Normalizer
from tfdpnorm.models.registry import register


@keras.utils.register_keras_serializable(package="tfdpnorm")
class SinusoidalPositions(keras.layers.Layer):
    """Adds its position to each word vector: sin and cos of position / 10000^(2i / width).

    It trains nothing, so that positions cost neither clipping norm nor noise.

    Call arguments:
        inputs: [rows, words, width], width even.

    Reference:
        Vaswani et al. (2017), Section 3.5.
    """

    def build(self, input_shape):
        words, width = input_shape[1:]
        angles = np.arange(words)[:, None] / 10_000.0 ** (np.arange(0, width, 2) / width)
        self._positions = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        super().build(input_shape)

    def call(self, inputs):
        return inputs + tf.constant(self._positions, inputs.dtype)


@register("transformer")
def transformer(
    norm="layer",
    num_classes=4,
    input_shape=(64,),
    vocabulary_size=1_000,
    width=128,
    heads=4,
    hidden_units=512,
    mask_zero=True,
    groups=32,
    statistics="public",
    statistics_gradient="full",
):
    """Word embedding, one pre-norm transformer block, the mean over words, one dense layer.

    The block is x + attention(norm(x)), then x + dense(gelu(dense(norm(x)))). Word vectors start at
    unit variance, the size of the fixed positions that are added to them. 326,788 parameters with
    the defaults.

    Args:
        norm: One of `tfdpnorm.models.NORMS`. "layer" takes its moments over the units of each word,
            as in transformers; "group" takes them over all words, padding included.
        num_classes: Number of logits.
        input_shape: (words,), int token ids; 0 is padding.
        vocabulary_size: Number of token ids.
        width: Size of a word vector; even, and a multiple of `heads`.
        heads: Number of attention heads, each of width / heads units.
        hidden_units: Units of the dense layer inside of the block.
        mask_zero: Whether attention and mean leave padding out.
        groups: For norm="group".
        statistics: For norm="public_batch".
        statistics_gradient: For norm="public_batch".

    Returns:
        A functional Keras model.

    Reference:
        Vaswani et al. (2017); Xiong et al. (2020), Figure 1b, for the place of the normalisation.
    """
    normalize = Normalizer(
        norm, groups=groups, statistics=statistics, statistics_gradient=statistics_gradient
    )
    if width % 2 or width % heads:
        raise ValueError(
            f"Expected an even width that is a multiple of heads, got width={width} and "
            f"heads={heads}. Choose width=128 and heads=4, for instance."
        )

    inputs = keras.Input(input_shape, dtype="int32")
    # Masks are passed by hand: Keras' GroupNormalization cannot take those of an Embedding.
    words = tf.not_equal(inputs, 0) if mask_zero else None
    pairs = words[:, tf.newaxis, :] if mask_zero else None
    x = keras.layers.Embedding(
        vocabulary_size,
        width,
        embeddings_initializer=keras.initializers.RandomNormal(stddev=1.0),
        name="embedding",
    )(inputs)
    x = SinusoidalPositions(name="positions")(x)
    path = normalize(x, "attention", each_position=True)
    path = keras.layers.MultiHeadAttention(heads, width // heads, name="attention")(
        path, path, attention_mask=pairs
    )
    x = keras.layers.Add(name="attention_add")([x, path])
    path = normalize(x, "dense", each_position=True)
    path = keras.layers.Dense(hidden_units, activation="gelu", name="dense1")(path)
    path = keras.layers.Dense(width, name="dense2")(path)
    x = keras.layers.Add(name="dense_add")([x, path])
    x = keras.layers.GlobalAveragePooling1D(name="pool")(x, mask=words)
    outputs = dense_layers(x, (), num_classes, normalize)
    return keras.Model(inputs, outputs, name=f"transformer_{norm}")
