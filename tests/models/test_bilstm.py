"""The BiLSTM: its size, where it is normalised, and that padding changes nothing."""

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm import models

SMALL = {"input_shape": (6,), "vocabulary_size": 9, "embedding_dim": 8, "units": 3}
# By hand: word vectors; two directions of four gates; logits of four classes.
EMBEDDING, LSTM, LOGITS = 9 * 8, 2 * 4 * 3 * (8 + 3 + 1), 6 * 4 + 4
# Channels that are normalised, and moments kept of each.
CHANNELS = {"hidden": [6], "all": [6, 4], "mod": []}


def count(weights):
    return sum(int(np.prod(weight.shape)) for weight in weights)


QUICK = ("layer", "mod", False), ("public_batch", "hidden", True)


def cases():
    """Every combination, the slow ones marked: Keras takes a second for each LSTM."""
    for norm in ("none", "layer", "batch", "public_batch"):
        for placement in models.PLACEMENTS:
            for embedding in (False, True):
                case = (norm, placement, embedding)
                yield pytest.param(*case, marks=[] if case in QUICK else [pytest.mark.slow])


@pytest.mark.quick_cases("layer-mod-False")
@pytest.mark.parametrize(("norm", "placement", "normalize_embedding"), cases())
def test_sizes(norm, placement, normalize_embedding):
    model = models.build(
        "bilstm",
        norm,
        num_classes=4,
        norm_placement=placement,
        normalize_embedding=normalize_embedding,
        **SMALL,
    )
    channels = CHANNELS[placement] + ([8] if normalize_embedding else [])
    channels = [] if norm == "none" else channels
    expected = EMBEDDING + LSTM + LOGITS + 2 * sum(channels)
    if placement == "all" and norm in ("batch", "public_batch"):
        expected -= 4  # the bias of the logits; gates keep theirs, nothing cancels it
    assert count(model.trainable_weights) == expected
    moments = {"batch": 2 * sum(channels), "public_batch": 2 * sum(channels) + len(channels)}
    if placement == "all":
        moments["public_batch"] += 2 * 6 + 1  # of the inputs of the logits, which are centred
    assert count(model.non_trainable_weights) == moments.get(norm, 0)


def test_the_defaults_have_a_million_parameters():
    model = models.build("bilstm", "layer", num_classes=4)
    names = [layer.name for layer in model.layers]
    assert names[1:] == ["embedding", "bilstm", "bilstm_norm", "logits", "predictions"]
    assert count(model.weights) == 1_084_996 + 2 * 128


@pytest.mark.slow_cases("layer-True")
@pytest.mark.parametrize(
    ("norm", "training"),
    [
        ("layer", True),
        # Its moments leave padding out.
        pytest.param("batch", True, marks=pytest.mark.slow),
        pytest.param("public_batch", False, marks=pytest.mark.slow),
        pytest.param("batch", False, marks=pytest.mark.slow),
        pytest.param("none", True, marks=pytest.mark.slow),
    ],
)
def test_padding_changes_nothing(norm, training):
    """Normalised word vectors keep the mask."""
    keras.utils.set_random_seed(0)
    options = {**SMALL, "normalize_embedding": True, "norm_placement": "all"}
    model = models.build("bilstm", norm, **options)
    longer = models.build("bilstm", norm, **{**options, "input_shape": (9,)})
    longer.set_weights(model.get_weights())
    words = np.array([[3, 1, 4, 0, 0, 0], [2, 7, 1, 8, 2, 8], [5, 0, 0, 0, 0, 0]])
    padded = np.pad(words, ((0, 0), (0, 3)))
    outputs = model(words, training=training)
    np.testing.assert_allclose(longer(padded, training=training), outputs, atol=1e-5)
    unmasked = models.build("bilstm", norm, **{**options, "mask_zero": False})
    unmasked.set_weights(model.get_weights())
    assert np.abs(unmasked(words, training=training) - outputs).max() > 1e-3


def test_layer_norm_of_the_embedding_is_over_each_word():
    model = models.build("bilstm", "layer", normalize_embedding=True, **SMALL)
    layer = model.get_layer("embedding_norm")
    assert isinstance(layer, keras.layers.LayerNormalization) and [
        axis % 3 for axis in layer.axis
    ] == [2]
    assert layer.input is model.get_layer("embedding").output


@pytest.mark.slow
def test_group_norm_of_masked_words_is_rejected():
    with pytest.raises(ValueError, match='norm="group" and mask_zero=True.*Use norm="layer"'):
        models.build("bilstm", "group", normalize_embedding=True, **SMALL)
    model = models.build("bilstm", "group", normalize_embedding=True, mask_zero=False, **SMALL)
    assert np.isfinite(model(np.ones((2, 6), "int32"))).all()
    # A mask is no matter where the embedding is not normalised.
    assert models.build("bilstm", "group", **SMALL).get_layer("bilstm_norm").groups == 2
