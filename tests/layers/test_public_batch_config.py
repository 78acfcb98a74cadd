"""PublicBatchNormalization as a Keras layer: configuration, saving, masks and refusals."""

import os
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.keras_compat.variables import KERAS_3
from tfdpnorm.layers import (
    PublicBatchNormalization,
    PublicStatistics,
    ScaleNorm,
    record_pass,
)

ROOT = pathlib.Path(__file__).resolve().parents[2]


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
        {"statistics": "blend", "statistics_gradient": "stop"},
        {"statistics": "lot", "gamma_initializer": "zeros", "beta_initializer": "ones"},
        {"statistics": "example", "name": "mine", "trainable": False, "dtype": "mixed_bfloat16"},
    ],
)
def test_config_round_trip(options):
    layer = PublicBatchNormalization(**options)
    config = layer.get_config()
    for name, value in options.items():
        if name not in ("gamma_initializer", "beta_initializer", "dtype"):
            assert config[name] == value
    again = PublicBatchNormalization.from_config(config)
    assert again.get_config() == config
    assert again.compute_dtype == layer.compute_dtype
    assert type(again.gamma_initializer) is type(layer.gamma_initializer)
    assert type(again.beta_initializer) is type(layer.beta_initializer)
    registered = keras.utils.deserialize_keras_object(keras.utils.serialize_keras_object(layer))
    assert isinstance(registered, PublicBatchNormalization)
    assert registered.get_config() == config


def test_every_argument_is_in_the_config():
    names = PublicBatchNormalization.__init__.__code__.co_varnames
    names = names[1 : PublicBatchNormalization.__init__.__code__.co_argcount]
    assert set(names) <= set(PublicBatchNormalization().get_config())


@pytest.mark.slow
def test_saved_models_predict_the_same_in_a_fresh_process(tmp_path, rng):
    model = with_moments(network(), rng)
    x = rng.normal(size=(3, 6, 6, 2)).astype("float32")
    expected = model.predict(x, verbose=0)
    model.save(tmp_path / "model.keras")
    if KERAS_3:
        model.export(str(tmp_path / "saved_model"))
    else:
        model.save(tmp_path / "saved_model", save_format="tf")
    loads = [] if KERAS_3 else ["saved_model"]  # what Keras itself loads as a model
    np.savez(tmp_path / "data.npz", x=x, expected=expected)
    script = """
        import sys
        import numpy as np
        import tensorflow as tf

        data = np.load("data.npz")
        same = lambda y: np.testing.assert_allclose(y, data["expected"], atol=1e-6)

        # Served, a SavedModel needs no tfdpnorm.
        served = tf.saved_model.load("saved_model")
        (outputs,) = served.signatures["serving_default"](tf.constant(data["x"])).values()
        same(outputs)
        assert not any(name.startswith("tfdpnorm") for name in sys.modules)

        import tfdpnorm.layers
        for path in sys.argv[1:]:
            model = tf.keras.models.load_model(path)
            same(model.predict(data["x"], verbose=0))
            norms = [x for x in model.layers if type(x).__module__.startswith("tfdpnorm.")]
            assert len(norms) == 4, model.layers
            assert float(norms[0].public_rows) == 7.0
        print("the same")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), "model.keras", *loads],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("the same\n")


def test_clone_and_weights_transfer(rng):
    model = with_moments(network(), rng)
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    x = rng.normal(size=(3, 6, 6, 2)).astype("float32")
    np.testing.assert_allclose(clone(x), model(x), atol=1e-6)


@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")
@pytest.mark.parametrize("path", ["model.weights.h5", "model.h5"])
def test_h5_round_trip(path, tmp_path, rng):
    model = with_moments(network(), rng)
    x = rng.normal(size=(3, 6, 6, 2)).astype("float32")
    if path == "model.weights.h5":
        model.save_weights(tmp_path / path)
        again = network()
        again.load_weights(tmp_path / path)
    else:
        model.save(tmp_path / path)
        again = keras.models.load_model(tmp_path / path)
    np.testing.assert_allclose(again(x), model(x), atol=1e-6)


@each("run_eagerly", [True, False])
def test_training_outside_of_a_private_model_fails(run_eagerly, rng):
    model = keras.Sequential([keras.Input((3,)), PublicBatchNormalization()])
    model.compile("sgd", "mse", run_eagerly=run_eagerly)
    x = rng.normal(size=(4, 3)).astype("float32")
    with pytest.raises(tf.errors.InvalidArgumentError, match="outside of a private model"):
        model.fit(x, x, verbose=0)
    np.testing.assert_allclose(model.predict(x, verbose=0), x / np.sqrt(1.001), atol=1e-6)
    assert model.evaluate(x, x, verbose=0) < 1e-5


@each("training", [True, None, False])
def test_training_inside_of_a_pass_is_no_error(training, rng):
    with record_pass(PublicStatistics()):
        outputs = PublicBatchNormalization()(rng.normal(size=(9, 3)), training=training)
    np.testing.assert_allclose(tf.reduce_mean(outputs, 0), np.zeros(3), atol=1e-6)


@each(
    "options,message",
    [
        ({"axis": 0}, "Expected axis to be an int other than 0"),
        ({"axis": 1.5}, "Expected axis to be an int other than 0"),
        ({"axis": [1, 2]}, "Expected axis to be an int other than 0"),
        ({"epsilon": 0.0}, "Expected epsilon > 0"),
        ({"epsilon": -1e-3}, "Expected epsilon > 0"),
        ({"epsilon": float("nan")}, "Expected epsilon > 0"),
        ({"statistics": "private"}, "Expected statistics to be one of .*got 'private'"),
        ({"statistics": None}, "Expected statistics to be one of .*got None"),
        ({"statistics_gradient": "half"}, "Expected statistics_gradient to be one of .*'half'"),
    ],
)
def test_rejected_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        PublicBatchNormalization(**options)


@each(
    "axis,shape,message",
    [
        (-1, (None,), "2 to 5 dimensions"),
        (-1, (None, 2, 2, 2, 2, 3), "2 to 5 dimensions"),
        (-1, (None, 4, None), "size of axis -1 to be known"),
        (1, (None, None, 4), "size of axis 1 to be known"),
        (3, (None, 4, 4), "axis within 1 to 2"),
        (-3, (None, 4, 4), "axis within 1 to 2"),
        (-4, (None, 4, 4), "axis within 1 to 2"),
    ],
)
def test_rejected_shapes(axis, shape, message):
    with pytest.raises(ValueError, match=f"{message}.*'odd'"):
        PublicBatchNormalization(axis=axis, name="odd").build(shape)


def test_unknown_sizes_other_than_the_channels_are_fine(rng):
    layer = PublicBatchNormalization(axis=2)
    layer.build((None, None, 3, None))
    with record_pass(PublicStatistics()):
        for positions in (2, 5):
            rows = rng.normal(1.0, 2.0, (4, positions, 3, 2)).astype("float32")
            outputs = layer(rows)
            np.testing.assert_allclose(tf.reduce_mean(outputs, [0, 1, 3]), np.zeros(3), atol=1e-5)
            np.testing.assert_allclose(
                tf.math.reduce_std(outputs, [0, 1, 3]), np.ones(3), atol=1e-3
            )


def test_hands_masks_on():
    tokens = np.array([[1, 2, 0], [3, 0, 0]])
    embedding = keras.layers.Embedding(4, 2, mask_zero=True)
    norm = PublicBatchNormalization()
    inputs = keras.Input((3,), dtype="int32")
    hidden = norm(embedding(inputs))
    model = keras.Model(inputs, [hidden, keras.layers.GlobalAveragePooling1D()(hidden)])
    hidden, mean = model(tokens)
    expected = np.stack([hidden[0, :2].numpy().mean(0), hidden[1, :1].numpy().mean(0)])
    np.testing.assert_allclose(mean, expected, atol=1e-6)
    assert np.abs(expected - hidden.numpy().mean(1)).max() > 1e-3
