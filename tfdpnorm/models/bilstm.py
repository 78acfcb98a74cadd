"""A bidirectional LSTM over words."""

from tensorflow import keras

from tfdpnorm.models.normalization import normalization_layer
from tfdpnorm.models.registry import register


@register("bilstm")
def bilstm(
    norm="none",
    num_classes=4,
    input_shape=(64,),
    vocabulary_size=10_000,
    embedding_dim=100,
    units=64,
    mask_zero=True,
    groups=32,
    statistics="public",
    statistics_gradient="full",
):
    """Word embedding, bidirectional LSTM, one dense layer ("BiLSTM-DL").

    The paper gives no sizes; these are ours. The normalisation follows the LSTM's last outputs.

    Args:
        norm: One of `tfdpnorm.models.NORMS`; the paper has "none" and "layer".
        num_classes: Number of logits.
        input_shape: (words,), int token ids; 0 is padding.
        vocabulary_size: Number of token ids.
        embedding_dim: Size of a word vector.
        units: Units of the LSTM in each direction.
        mask_zero: Whether padding is skipped.
        groups: For norm="group".
        statistics: For norm="public_batch".
        statistics_gradient: For norm="public_batch".

    Returns:
        A functional Keras model.

    Reference:
        Davody et al. (2020), Tables 4 and 7.
    """
    inputs = keras.Input(input_shape, dtype="int32")
    x = keras.layers.Embedding(
        vocabulary_size, embedding_dim, mask_zero=mask_zero, name="embedding"
    )(inputs)
    x = keras.layers.Bidirectional(keras.layers.LSTM(units), name="bilstm")(x)
    layer = normalization_layer(
        norm,
        channels=2 * units,
        groups=groups,
        statistics=statistics,
        statistics_gradient=statistics_gradient,
        name="bilstm_norm",
    )
    x = x if layer is None else layer(x)
    logits = keras.layers.Dense(num_classes, name="logits")(x)
    outputs = keras.layers.Activation("linear", dtype="float32", name="predictions")(logits)
    return keras.Model(inputs, outputs, name=f"bilstm_{norm}")
