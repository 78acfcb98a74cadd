"""Texts in a model: what trains, and that the advice for what does not is good."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.private_of import private_of

layers, FeatureSpace = keras.layers, keras.utils.FeatureSpace
TEXTS = np.array([f"word{i % 7} word{i % 3} b" for i in range(40)], dtype=object)
WORDS = [*(f"word{i}" for i in range(7)), "b"]
NUMBERS = np.arange(40, dtype=np.float32)[:, None]
Y = np.arange(40) % 3


def fitted(model, x):
    private = private_of(
        model,
        steps=2,
    )
    private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    private.fit(x, Y, verbose=0)
    return private


def on_texts(*stack):
    return keras.Sequential([keras.Input((), dtype=tf.string), *stack, layers.Dense(3)])


def test_words_are_split_before_as_the_error_says():
    split = layers.TextVectorization(vocabulary=WORDS, output_sequence_length=4)
    body = (layers.Embedding(12, 4), layers.GlobalAveragePooling1D())
    with pytest.raises(ValueError, match=r"x = layer\(texts\)\.numpy\(\)"):
        fitted(on_texts(split, *body), TEXTS)
    ids = split(TEXTS).numpy()
    model = keras.Sequential([keras.Input((4,), dtype="int64"), *body, layers.Dense(3)])
    private = fitted(model, ids)
    assert private.ledger.guarantee_holds
    served = keras.Sequential([split, private.servable()])
    np.testing.assert_allclose(served.predict(TEXTS, verbose=0), private.predict(ids, verbose=0))


def test_texts_that_stay_whole_may_be_in_the_model():
    lookup = layers.StringLookup(vocabulary=WORDS, output_mode="one_hot")
    assert fitted(on_texts(lookup), TEXTS).ledger.guarantee_holds


def of_features(**features):
    space = FeatureSpace(features=features, output_mode="concat")
    if any(kind in str(f.preprocessor) for f in features.values() for kind in ("Look", "Norm")):
        rows = {"a": TEXTS.astype(str), "b": NUMBERS[:, 0]}
        space.adapt(tf.data.Dataset.from_tensor_slices({name: rows[name] for name in features}))
    encoded = space.get_encoded_features()
    return keras.Model(space.get_inputs(), layers.Dense(3)(encoded))


def test_the_advice_for_a_feature_space_is_one_that_it_takes():
    for features in (
        {"a": FeatureSpace.string_categorical()},
        {"b": FeatureSpace.float_normalized()},
    ):
        with pytest.raises(ValueError, match=r"In a FeatureSpace, .*string_hashed\(num_bins=...\)"):
            fitted(of_features(**features), {name: TEXTS for name in features})
    model = of_features(
        a=FeatureSpace.string_hashed(num_bins=8), b=FeatureSpace.float_rescaled(scale=0.1)
    )
    x = {"a": TEXTS.astype(str)[:, None], "b": NUMBERS}
    assert fitted(model, x).ledger.guarantee_holds
