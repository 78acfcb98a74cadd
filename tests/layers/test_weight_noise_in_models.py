"""WeightNoise in models: saved and cloned."""

import numpy as np
from tensorflow import keras

from tests.layers.noisy_layers import SEED, STDDEV, normal
from tfdpnorm.layers import WeightNoise


def small_model():
    inputs = keras.Input((6, 6, 1))
    x = WeightNoise(keras.layers.Conv2D(3, 3), STDDEV, SEED, name="conv")(inputs)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.Reshape((4, 12))(x)
    x = WeightNoise(keras.layers.MultiHeadAttention(2, 3), STDDEV, SEED, name="attention")(x, x)
    x = WeightNoise(keras.layers.LSTM(4), STDDEV, SEED, name="recurrent")(x)
    return keras.Model(inputs, WeightNoise(keras.layers.Dense(2), STDDEV, SEED, name="out")(x))


def test_models_are_saved_and_cloned(rng, tmp_path):
    x = normal(rng, 3, 6, 6, 1)
    model = small_model()
    path = str(tmp_path / "model.keras")
    model.save(path)
    loaded = keras.models.load_model(path)
    cloned = keras.models.clone_model(model)
    cloned.set_weights(model.get_weights())
    weights_path = str(tmp_path / "model.weights.h5")
    model.save_weights(weights_path)
    refilled = small_model()
    refilled.load_weights(weights_path)
    expected = model(x)  # the first draws
    for again in (loaded, cloned, refilled):
        assert again.get_layer("recurrent").seed == SEED
        # Building a functional model draws symbolically only: nothing is consumed.
        np.testing.assert_array_equal(again(x), expected)


def test_output_shapes():
    assert WeightNoise(keras.layers.Conv2D(3, 2), 0.1).compute_output_shape((None, 5, 5, 2)) == (
        None,
        4,
        4,
        3,
    )
    attention = WeightNoise(keras.layers.MultiHeadAttention(2, 3), 0.1)
    assert attention.compute_output_shape((2, 3, 6), (2, 4, 6)) == (2, 3, 6)
    assert attention(keras.Input((3, 6)), keras.Input((4, 6))).shape == (None, 3, 6)
