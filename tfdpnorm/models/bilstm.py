"""A bidirectional LSTM over words."""

from tensorflow import keras

from tfdpnorm.models.blocks import dense_layers
from tfdpnorm.models.normalization import Normalizer
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
    normalize_embedding=False,
    norm_placement="hidden",
    groups=32,
    statistics="public",
    statistics_gradient="full",
):
    """Word embedding, bidirectional LSTM, one dense layer ("BiLSTM-DL").

    The paper gives no sizes; these are ours. The normalisation follows the LSTM's last outputs; the
    paper does not say whether one follows the embedding, too.

    Args:
        norm: One of `tfdpnorm.models.NORMS`; the paper has "none" and "layer".
        num_classes: Number of logits.
        input_shape: (words,), int token ids; 0 is padding.
        vocabulary_size: Number of token ids.
        embedding_dim: Size of a word vector.
        units: Units of the LSTM in each direction.
        mask_zero: Whether padding is skipped.
        normalize_embedding: Whether word vectors are normalised: "layer" normalises each word on
            its own, "batch" over the words that are not padding, "public_batch" over all positions.
        norm_placement: One of `tfdpnorm.models.PLACEMENTS`: "hidden" normalises after the LSTM,
            "all" after the logits too, "mod" after neither.
        groups: For norm="group".
        statistics: For norm="public_batch".
        statistics_gradient: For norm="public_batch".

    Returns:
        A functional Keras model.

    Raises:
        ValueError: for norm="group" after a masked embedding, which Keras' layer does not support.

    Reference:
        Davody et al. (2020), Tables 4 and 7.
    """
    normalize = Normalizer(
        norm,
        norm_placement,
        last_hidden="bilstm",
        groups=groups,
        statistics=statistics,
        statistics_gradient=statistics_gradient,
    )
    if normalize_embedding and norm == "group" and mask_zero:
        raise ValueError(
            'Expected normalize_embedding=False with norm="group" and mask_zero=True, got True. '
            'Use norm="layer", or mask_zero=False.'
        )
    inputs = keras.Input(input_shape, dtype="int32")
    x = keras.layers.Embedding(
        vocabulary_size, embedding_dim, mask_zero=mask_zero, name="embedding"
    )(inputs)
    if normalize_embedding:
        x = normalize(x, "embedding", each_position=True)
    x = keras.layers.Bidirectional(keras.layers.LSTM(units), name="bilstm")(x)
    outputs = dense_layers(normalize(x, "bilstm"), (), num_classes, normalize)
    return keras.Model(inputs, outputs, name=f"bilstm_{norm}")
