"""Copies of models that compute in the dtype of their weights."""

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm.keras_compat.precision import made_under, without_mixed_precision
from tfdpnorm.keras_compat.walk import sublayers

X = np.random.default_rng(0).normal(size=(5, 6, 4)).astype(np.float32)


def network():
    """Layers in layers, a nested model and a frozen part."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((6, 4))
    x = keras.layers.TimeDistributed(keras.layers.Dense(3, activation="tanh"))(inputs)
    x = keras.layers.Bidirectional(keras.layers.GRU(2, return_sequences=True))(x)
    nested = keras.Sequential([keras.Input((6, 4)), keras.layers.Dense(3, trainable=False)])
    x = keras.layers.BatchNormalization()(nested(x) * 2.0)
    return keras.Model(inputs, keras.layers.Dense(2, dtype="float32")(x))


@pytest.mark.slow_cases("mixed_float16", "float64")
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "float32", "float64"])
def test_the_copy_computes_as_a_model_without_mixed_precision(policy):
    with made_under(policy):
        model = network()
    plain = policy.replace("mixed_bfloat16", "float32").replace("mixed_float16", "float32")
    with made_under(plain):
        expected = network()
    expected.set_weights(model.get_weights())
    with made_under(policy):  # a global policy is not what the copy goes by
        copy = without_mixed_precision(model)
    dtypes = {layer.name: layer.compute_dtype for layer in sublayers(copy)}
    assert not [name for name, dtype in dtypes.items() if dtype not in {plain, "float32"}]
    assert len(copy.trainable_variables) == len(model.trainable_variables)
    for own, other in zip(model.weights, copy.weights, strict=True):
        assert own is not other and own.dtype == other.dtype
    np.testing.assert_array_equal(copy(X), expected(X))
    if policy.startswith("mixed"):
        assert np.abs(np.asarray(model(X)) - copy(X)).max() > 1e-5
