"""Which Keras is rejected, and that ours finds our layers in files after `import tfdpnorm`."""

import importlib
import importlib.metadata
import importlib.util
import itertools
import os
import runpy
import sys
import types
import warnings
from pathlib import Path

import pytest
import tensorflow as tf
from tensorflow import keras

from tests import programs
from tests.each import each
from tfdpnorm.keras_compat import importing, variables

second_stack = pytest.mark.skipif(
    int(importlib.metadata.version("keras").split(".")[0]) < 3, reason="Keras 3 is not installed"
)


@pytest.fixture
def installed(monkeypatch):
    """Function that has Keras of a version installed, with these variables."""

    def have(keras_3, **variables):
        monkeypatch.setattr(importing, "_keras_3_is_installed", lambda: keras_3)
        monkeypatch.setitem(sys.modules, "keras", None)  # not imported
        for name in (importing.LEGACY, importing.BACKEND):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return have


@each("keras_3, value", itertools.product((False, True), ("", "0")))
def test_variables_that_change_nothing_are_taken(keras_3, value, installed):
    installed(keras_3, KERAS_BACKEND="tensorflow", TF_USE_LEGACY_KERAS=value)
    importing.choose_keras()


@each("value", ["1", "true", "True"])
def test_the_variable_for_the_legacy_keras(value, installed, monkeypatch):
    installed(True, TF_USE_LEGACY_KERAS=value)
    with pytest.raises(ImportError, match=f"{value}.* Unset TF_USE_LEGACY_KERAS"):
        importing.choose_keras()
    installed(False, TF_USE_LEGACY_KERAS=value)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=f"'{value}' is set.* Unset TF_USE_LEGACY_KERAS"):
        importing.choose_keras()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)  # which works
    importing.choose_keras()


def run_python(*lines, **variables):
    given = (importing.LEGACY, importing.BACKEND)
    environment = {k: v for k, v in os.environ.items() if k not in given}
    return programs.run(
        [sys.executable, "-c", "\n".join(lines)], environment | variables, timeout=120
    )


@second_stack
def test_one_keras_with_our_backend_whatever_a_file_says(tmp_path):
    (tmp_path / "keras.json").write_text('{"backend": "numpy"}')
    done = run_python(
        "import tfdpnorm, keras, tensorflow as tf",
        "assert tf.keras.layers.Dense is keras.layers.Dense",
        "assert issubclass(tfdpnorm.PrivateModel, keras.Model)",
        "print(keras.config.backend())",
        KERAS_HOME=str(tmp_path),
    )
    assert done.stdout.split() == ["tensorflow"], done.stderr


def test_other_backends_are_rejected(installed, monkeypatch):
    installed(True, KERAS_BACKEND="jax")
    with pytest.raises(ImportError, match="'jax'.*KERAS_BACKEND=tensorflow"):
        importing.choose_keras()
    installed(True, KERAS_BACKEND="tensorflow")
    imported = types.SimpleNamespace(config=types.SimpleNamespace(backend=lambda: "torch"))
    monkeypatch.setitem(sys.modules, "keras", imported)
    with pytest.raises(ImportError, match="'torch'.* import tfdpnorm first"):
        importing.choose_keras()


ROOT = Path(__file__).resolve().parents[2]


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
    assert registry.objects["tfdpnorm>fused_mish"](tf.zeros([1])).numpy() == 0


# --- versions of Keras ---


def of_keras(monkeypatch, version):
    """Runs the file that all of `keras_compat` begins with, as if this Keras were installed."""
    monkeypatch.setattr(importlib.metadata, "version", {"keras": version}.get)
    return runpy.run_path(variables.__file__)


@pytest.mark.parametrize("version", ["3.0.5", "3.3.3", "3.4.1"])
def test_an_old_keras_3_is_refused_with_the_command_that_helps(monkeypatch, version):
    with pytest.raises(ImportError, match="3.5.*pip install -U keras"):
        of_keras(monkeypatch, version)


@pytest.mark.keras_3_only("a newer Keras comes with a newer TensorFlow")
def test_a_newer_keras_warns_and_runs(monkeypatch):
    with pytest.warns(UserWarning, match="99.1"):
        of_keras(monkeypatch, "99.1.0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        of_keras(monkeypatch, "3.15.9")


@pytest.mark.keras_2_only("TensorFlow 2.15 has Keras 2.15")
def test_a_newer_keras_is_refused_with_an_older_tensorflow(monkeypatch):
    with pytest.raises(ImportError, match="2.15"):
        of_keras(monkeypatch, "3.15.1")
