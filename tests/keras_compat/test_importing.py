"""Which Keras is loaded, and that it finds our layers in files, after `import tfdpnorm` alone."""

import importlib
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests import programs
from tfdpnorm.keras_compat import importing
from tfdpnorm.models.mish import mish

second_stack = pytest.mark.skipif(
    int(importlib.metadata.version("keras").split(".")[0]) < 3, reason="Keras 3 is not installed"
)


def run_python(*lines, variable=None):
    environment = {k: v for k, v in os.environ.items() if k != importing.VARIABLE}
    if variable is not None:
        environment[importing.VARIABLE] = variable
    return programs.run([sys.executable, "-c", "\n".join(lines)], environment, timeout=120)


def test_without_keras_3_nothing_is_done(monkeypatch):
    monkeypatch.setattr(importing, "_keras_3_is_installed", lambda: False)
    monkeypatch.setenv(importing.VARIABLE, "0")
    importing.use_legacy_keras()
    assert os.environ[importing.VARIABLE] == "0"


@pytest.mark.parametrize("value", ["1", "true", "True"])
def test_a_variable_that_says_yes_beside_keras_2_is_named(value, monkeypatch):
    monkeypatch.setattr(importing, "_keras_3_is_installed", lambda: False)
    monkeypatch.setattr(importing, "_legacy_package", lambda: None)
    monkeypatch.setenv(importing.VARIABLE, value)
    with pytest.raises(ImportError, match=f"got '{value}'.* Unset TF_USE_LEGACY_KERAS"):
        importing.use_legacy_keras()
    monkeypatch.setattr(importing, "_legacy_package", lambda: "a/folder")  # which works
    importing.use_legacy_keras()


@pytest.mark.parametrize("value", ["0", "", "no", "yes"])
def test_a_variable_that_says_no_is_refused(value, monkeypatch):
    monkeypatch.setattr(importing, "_keras_3_is_installed", lambda: True)
    monkeypatch.setenv(importing.VARIABLE, value)
    with pytest.raises(ImportError, match="^Expected TF_USE_LEGACY_KERAS=1 or no such .* got '"):
        importing.use_legacy_keras()


def test_keras_3_without_the_legacy_package_is_refused(monkeypatch):
    monkeypatch.setattr(importing, "_keras_3_is_installed", lambda: True)
    monkeypatch.setattr(importing, "_legacy_package", lambda: None)
    monkeypatch.setenv(importing.VARIABLE, "1")
    with pytest.raises(ImportError, match="Install tf_keras in the version of TensorFlow"):
        importing.use_legacy_keras()


SAYS_WHICH = (
    "from tensorflow import keras",
    "from tensorflow.keras.layers import Dense",
    "import tensorflow as tf",
    "assert Dense is keras.layers.Dense is tf.keras.layers.Dense",
    "assert tf.optimizers.SGD is keras.optimizers.SGD",
    "print(Dense.__module__.split('.')[0], keras.saving.get_registered_name(Dense))",
)


@second_stack
@pytest.mark.parametrize(
    "before",
    [
        ("import tfdpnorm",),
        ("import tensorflow as tf", "from tensorflow import keras", "import tfdpnorm"),
    ],
    ids=["tfdpnorm first", "TensorFlow first"],
)
def test_tensorflow_has_the_legacy_keras(before):
    done = run_python(*before, *SAYS_WHICH)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["tf_keras", "Dense"]


@second_stack
@pytest.mark.parametrize(
    "before",
    [
        "from tensorflow import keras; keras.layers.Dense",
        pytest.param("from tensorflow.keras import layers", marks=pytest.mark.slow),
        pytest.param("import tensorflow as tf; tf.losses.Loss", marks=pytest.mark.slow),
        pytest.param("import tensorflow as tf; dir(tf.keras)", marks=pytest.mark.slow),
    ],
)
def test_a_tensorflow_whose_keras_3_was_used_is_refused(before):
    done = run_python(before, "import tfdpnorm")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: Expected TensorFlow with the legacy Keras package, got ")
    assert last.endswith("Import tfdpnorm first, or set TF_USE_LEGACY_KERAS=1.")


@second_stack
def test_programs_that_are_started_have_it_too():
    """The variable stays; and tf_keras does not load Keras 3 beside it."""
    child = "import sys, tensorflow as tf; tf.keras.layers; print(tf.keras.__name__)"
    done = run_python(
        "import subprocess, sys, tfdpnorm",
        f"print(subprocess.run([sys.executable, '-c', {child!r}]).returncode)",
    )
    assert done.stdout.split() == ["tf_keras.api._v2.keras", "0"], done.stderr


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
    assert ours == {f"tfdpnorm>{n}" for n in (*importing._MODULES, *importing._FUNCTIONS)}
    for name, module in {**importing._MODULES, **importing._FUNCTIONS}.items():
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
    importing._register(registry)
    assert registry.objects["tfdpnorm>ScaleNorm"] == 1
    assert registry.objects["tfdpnorm>mish"](tf.zeros([1])).numpy() == 0
