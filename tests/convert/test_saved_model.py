"""SavedModel folders as imports: those that Keras saved load and convert, others are rejected."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

from tfdpnorm.convert import convert_model
from tfdpnorm.layers import FrozenBatchNormalization

of_keras_2 = pytest.mark.keras_2_only("writes no SavedModel that it could load")


class Doubling(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32)])
    def __call__(self, x):
        return 2.0 * x


class Scaling(layers.Layer):
    def build(self, shape):
        self.scale = self.add_weight(name="scale", shape=(int(shape[-1]),))

    def call(self, x):
        return x * self.scale


def network():
    model = keras.Sequential(
        [layers.Input((4,)), layers.Dense(3), layers.BatchNormalization(), layers.Dense(2)]
    )
    model.layers[1].moving_mean.assign([0.3, -0.2, 0.1])
    model.layers[1].moving_variance.assign([0.5, 1.5, 2.0])
    return model


@of_keras_2
def test_a_folder_of_keras_converts_as_the_model_itself(tmp_path):
    model = network()
    model.save(tmp_path / "saved", save_format="tf")
    converted, report = convert_model(tmp_path / "saved", "frozen")
    assert any(isinstance(layer, FrozenBatchNormalization) for layer in converted.layers)
    assert not report.not_converted
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    np.testing.assert_allclose(converted(x, training=False), model(x, training=False), rtol=1e-5)


def test_a_folder_of_a_module_is_rejected(tmp_path):
    tf.saved_model.save(Doubling(), str(tmp_path / "module"))
    with pytest.raises(ValueError, match=r"SavedModel.*Keras .*model\.save"):
        convert_model(tmp_path / "module", "frozen")


@of_keras_2
def test_classes_that_keras_does_not_know_are_asked_for(tmp_path):
    model = keras.Sequential([layers.Input((4,)), Scaling(), layers.BatchNormalization()])
    model.save(tmp_path / "own", save_format="tf")
    with pytest.raises(ValueError, match=r"got \['Scaling'\] in .*custom_objects"):
        convert_model(tmp_path / "own", "frozen")
    converted, _ = convert_model(tmp_path / "own", "frozen", custom_objects={"Scaling": Scaling})
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    np.testing.assert_allclose(converted(x, training=False), model(x, training=False), rtol=1e-5)
