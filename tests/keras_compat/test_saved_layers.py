"""Keras finds the layers of this library in saved models after `import tfdpnorm` alone."""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat import saved_layers
from tfdpnorm.models.mish import mish

ROOT = Path(__file__).resolve().parents[2]

LOAD = """
import sys
if sys.argv[1] == "before":
    import tfdpnorm
    assert "tensorflow" not in sys.modules
import numpy as np
import tensorflow as tf
from tensorflow import keras
if sys.argv[1] == "after":
    import tfdpnorm
assert "tfdpnorm.layers" not in sys.modules
for path in sys.argv[4:]:
    model = keras.models.load_model(path)
    np.testing.assert_allclose(model(np.load(sys.argv[2])), np.load(sys.argv[3]), rtol=1e-5)
    model.save(path.replace("model.", "again."))
    keras.models.load_model(path.replace("model.", "again."))
"""


def model_of_ours():
    from tfdpnorm.layers import PublicBatchNormalization

    norm = PublicBatchNormalization()
    layers = [keras.Input((4,)), keras.layers.Dense(3, mish), norm, keras.layers.Dense(2)]
    model = keras.Sequential(layers)
    norm.store_moments(np.arange(3.0), np.ones(3), 5)
    return model


@pytest.mark.slow_cases("after")
@pytest.mark.parametrize("imported", ["before", "after"])
def test_a_saved_model_loads(imported, tmp_path):
    model, x = model_of_ours(), np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    paths = [str(tmp_path / "model.keras"), str(tmp_path / "model.h5")]
    if "tf_keras" in keras.Sequential.__module__:
        paths = paths[:1]  # It loads no registered functions from HDF5.
    for path in paths:
        model.save(path)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", model(x))
    command = [sys.executable, "-c", LOAD, imported, tmp_path / "x.npy", tmp_path / "y.npy", *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_all_that_is_registered_is_known_before():
    # Every module that registers something, so that the order of the tests does not matter.
    for path in (ROOT / "tfdpnorm").rglob("*.py"):
        if "register_keras_serializable" in path.read_text():
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    ours = {n for n in keras.utils.get_custom_objects() if n.startswith("tfdpnorm>")}
    assert ours == {f"tfdpnorm>{n}" for n in (*saved_layers._MODULES, *saved_layers._FUNCTIONS)}
    for name, module in {**saved_layers._MODULES, **saved_layers._FUNCTIONS}.items():
        found = getattr(sys.modules[module], name)
        assert keras.utils.get_registered_object(f"tfdpnorm>{name}") is found


def test_a_stand_in_is_never_left_in_the_place_of_a_class():
    class Registry:
        objects = {"tfdpnorm>ScaleNorm": 1}

        def get_custom_objects(self):
            return self.objects

        def register_keras_serializable(self, package, name):
            return lambda function: self.objects.setdefault(f"{package}>{name}", function)

    registry = Registry()
    saved_layers._register(registry)
    assert registry.objects["tfdpnorm>ScaleNorm"] == 1
    assert registry.objects["tfdpnorm>mish"](tf.zeros([1])).numpy() == 0
