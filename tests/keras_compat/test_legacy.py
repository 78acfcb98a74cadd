"""Which Keras `tf.keras` is after `import tfdpnorm`, where Keras 3 is installed and where not."""

import importlib.metadata
import os
import sys

import pytest

from tests import programs
from tfdpnorm.keras_compat import legacy

second_stack = pytest.mark.skipif(
    int(importlib.metadata.version("keras").split(".")[0]) < 3, reason="Keras 3 is not installed"
)


def run_python(*lines, variable=None):
    environment = {k: v for k, v in os.environ.items() if k != legacy.VARIABLE}
    if variable is not None:
        environment[legacy.VARIABLE] = variable
    return programs.run([sys.executable, "-c", "\n".join(lines)], environment, timeout=120)


def test_without_keras_3_nothing_is_done(monkeypatch):
    monkeypatch.setattr(legacy, "_keras_3_is_installed", lambda: False)
    monkeypatch.setenv(legacy.VARIABLE, "0")
    legacy.use_legacy_keras()
    assert os.environ[legacy.VARIABLE] == "0"


@pytest.mark.parametrize("value", ["0", "", "no", "yes"])
def test_a_variable_that_says_no_is_refused(value, monkeypatch):
    monkeypatch.setattr(legacy, "_keras_3_is_installed", lambda: True)
    monkeypatch.setenv(legacy.VARIABLE, value)
    with pytest.raises(ImportError, match="^Expected TF_USE_LEGACY_KERAS=1 or no such .* got '"):
        legacy.use_legacy_keras()


def test_keras_3_without_the_legacy_package_is_refused(monkeypatch):
    monkeypatch.setattr(legacy, "_keras_3_is_installed", lambda: True)
    monkeypatch.setattr(legacy, "_legacy_package", lambda: None)
    monkeypatch.setenv(legacy.VARIABLE, "1")
    with pytest.raises(ImportError, match="Install tf_keras in the version of TensorFlow"):
        legacy.use_legacy_keras()


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
