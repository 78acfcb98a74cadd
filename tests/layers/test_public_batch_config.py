"""PublicBatchNormalization as a Keras layer: configuration, saving and refusals."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.layers import (
    PublicBatchNormalization,
    PublicStatistics,
    ScaleNorm,
    record_pass,
)


def with_moments(model, rng):
    """Gives the model's layers moments and parameters that are not their initial ones."""
    statistics = PublicStatistics()
    with record_pass(statistics):
        model(rng.normal(1.0, 2.0, (7, *model.input_shape[1:])).astype("float32"))
    statistics.store()
    for variable in model.trainable_variables:
        variable.assign_add(rng.normal(0.0, 0.1, variable.shape))
    return model


def network():
    inputs = keras.Input((6, 6, 2))
    x = keras.layers.Conv2D(4, 3, padding="same", use_bias=False)(inputs)
    x = PublicBatchNormalization(epsilon=1e-2, scale=False)(x)
    x = keras.layers.Activation("relu")(x)
    y = ScaleNorm("group", groups=2)([x, keras.layers.Conv2D(4, 1)(inputs)])
    x = ScaleNorm("public_batch")([x, y])
    x = keras.layers.Dense(3)(keras.layers.Flatten()(x))
    return keras.Model(inputs, PublicBatchNormalization(statistics="blend", center=False)(x))


@each(
    "options",
    [
        {},
        {"axis": 1, "epsilon": 1e-5, "center": False, "scale": False},
        {"statistics": "lot", "statistics_gradient": "stop"},
        {"statistics": "example", "name": "mine", "trainable": False},
    ],
)
def test_config_round_trip(options):
    layer = PublicBatchNormalization(**options)
    config = layer.get_config()
    code = PublicBatchNormalization.__init__.__code__
    assert set(code.co_varnames[1 : code.co_argcount]) <= set(config)
    assert options.items() <= config.items()
    again = keras.utils.deserialize_keras_object(keras.utils.serialize_keras_object(layer))
    assert again.get_config() == config


@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")
def test_copies_are_the_same(tmp_path, rng):
    model = with_moments(network(), rng)
    x = rng.normal(size=(3, 6, 6, 2)).astype("float32")
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    model.save_weights(tmp_path / "model.weights.h5")
    again = network()
    again.load_weights(tmp_path / "model.weights.h5")
    copies = [clone, again]
    for path in ("model.h5", "model.keras"):
        model.save(tmp_path / path)
        copies.append(keras.models.load_model(tmp_path / path))
    for copy in copies:
        np.testing.assert_allclose(copy(x), model(x), atol=1e-6)


def test_training_outside_of_a_private_model_fails(rng):
    model = keras.Sequential([keras.Input((3,)), PublicBatchNormalization()])
    model.compile("sgd", "mse")
    x = rng.normal(size=(4, 3)).astype("float32")
    with pytest.raises(tf.errors.InvalidArgumentError, match="outside of a private model"):
        model.fit(x, x, verbose=0)
    np.testing.assert_allclose(model.predict(x, verbose=0), x / np.sqrt(1.001), atol=1e-6)
    assert model.evaluate(x, x, verbose=0) < 1e-5


@each(
    "name,value",
    [
        ("axis", 0),
        ("axis", 1.5),
        ("axis", [1, 2]),
        ("epsilon", 0.0),
        ("epsilon", float("nan")),
        ("statistics", "private"),
        ("statistics_gradient", "half"),
    ],
)
def test_rejected_arguments(name, value):
    with pytest.raises(ValueError, match=f"{name} "):
        PublicBatchNormalization(**{name: value})


@each(
    "axis,shape,message",
    [
        (-1, (None,), "dimensions"),
        (-1, (None, 2, 2, 2, 2, 3), "dimensions"),
        (1, (None, None, 4), "axis 1"),
        (3, (None, 4, 4), "axis"),
        (-3, (None, 4, 4), "axis"),
    ],
)
def test_rejected_shapes(axis, shape, message):
    with pytest.raises(ValueError, match=f"{message}.*'odd'"):
        PublicBatchNormalization(axis=axis, name="odd").build(shape)
