"""Files of models that another Keras wrote."""

import json
import zipfile

import h5py
import numpy as np
import pytest
from tensorflow import keras
from tensorflow.keras import layers

from tests.each import each
from tfdpnorm.convert import load_model


def with_entries_of_keras_2(config):
    """The config of a Sequential, as text, with what Keras 2 writes into those of convolutions."""
    config = json.loads(config)
    for layer in config["config"]["layers"]:
        if layer["class_name"] != "InputLayer":
            layer["config"]["groups"] = 1
        if layer["class_name"].startswith("Separable"):
            layer["config"] |= {"kernel_initializer": "zeros", "kernel_regularizer": None}
            layer["config"]["kernel_constraint"] = None
    return json.dumps(config)


def write(model, path):
    model.save(path)
    if path.suffix == ".h5":
        with h5py.File(path, "a") as file:
            file.attrs["model_config"] = with_entries_of_keras_2(file.attrs["model_config"])
        return
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["config.json"] = with_entries_of_keras_2(parts["config.json"])
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")
@each("axes, ending", [(1, "keras"), (2, "h5"), (3, "keras")])
def test_convolutions_in_files_of_keras_2(tmp_path, ending, axes):
    convolutions = [getattr(layers, f"Conv{axes}DTranspose")(3, 2)]
    if axes < 3:
        convolutions += [getattr(layers, f"DepthwiseConv{axes}D")(3, strides=2)]
        convolutions += [getattr(layers, f"SeparableConv{axes}D")(4, 2)]
    model = keras.Sequential([keras.Input((9,) * axes + (2,)), *convolutions])
    write(model, tmp_path / f"model.{ending}")
    loaded = load_model(tmp_path / f"model.{ending}")
    assert [type(layer) for layer in loaded.layers] == [type(layer) for layer in model.layers]
    x = np.random.default_rng(0).normal(size=(2, *model.input_shape[1:])).astype(np.float32)
    np.testing.assert_allclose(loaded(x), model(x), rtol=1e-5, atol=1e-6)
    for layer in convolutions:
        assert "from_config" not in vars(type(layer))
