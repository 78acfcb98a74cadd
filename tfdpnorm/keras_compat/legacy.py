"""Which Keras `tf.keras` is: the legacy one, version 2, also where Keras 3 is installed.

TensorFlow from 2.16 on takes Keras 3 unless TF_USE_LEGACY_KERAS is set. It reads the variable when
it is imported, and once more when its Keras is first used.

Private parts: that `tf.keras`, `tf.losses` and so on are loaders with `_tfll_keras_version` until
they are used and modules in keras/_tf_keras afterwards, and that `tf.__path__` says where
`import tensorflow.keras` looks. Publicly one cannot ask which Keras it is without using it.
"""

import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path

VARIABLE = "TF_USE_LEGACY_KERAS"
_YES = ("1", "true", "True")  # what TensorFlow takes for yes
_LOADERS = ("keras", "losses", "metrics", "optimizers", "initializers")


def use_legacy_keras():
    """Makes `tf.keras` the package tf_keras, if Keras 3 is installed; else does nothing.

    TensorFlow may have been imported, as long as its Keras has not been used. The variable stays
    set, so that programs started from here have the same Keras.

    Raises:
        ImportError: if the variable says no, if tf_keras is missing, or if Keras 3 has been used
            through TensorFlow.
    """
    if not _keras_3_is_installed():
        return
    given = os.environ.get(VARIABLE, "1")
    if given not in _YES:
        raise ImportError(
            f"Expected {VARIABLE}=1 or no such variable, got {given!r}. tfdpnorm works with the "
            "legacy Keras package, tf_keras, and not with Keras 3."
        )
    package = _legacy_package()
    if package is None:
        raise ImportError(
            "Expected the legacy Keras package beside Keras 3, got none. Install tf_keras in the "
            "version of TensorFlow."
        )
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None:
        if _has_used_keras_3(tensorflow):
            raise ImportError(
                "Expected TensorFlow with the legacy Keras package, got TensorFlow whose Keras 3 "
                f"has been used in this program. Import tfdpnorm first, or set {VARIABLE}=1."
            )
        # As TensorFlow does by itself when the variable is set before.
        if package not in tensorflow.__path__:
            tensorflow.__path__ = [package, *tensorflow.__path__]
    os.environ[VARIABLE] = "1"


def _keras_3_is_installed():
    try:
        return int(importlib.metadata.version("keras").split(".")[0]) >= 3
    except importlib.metadata.PackageNotFoundError:
        return False


def _legacy_package():
    """The folder of tf_keras in which `tensorflow.keras` lies, without loading it; or None."""
    found = importlib.util.find_spec("tf_keras")
    return found and str(Path(found.origin).parent / "api" / "_v2")


def _has_used_keras_3(tensorflow):
    parts = [vars(tensorflow).get(name) for name in _LOADERS]
    parts.append(sys.modules.get("tensorflow.keras"))
    return any(_is_keras_3(vars(part)) for part in parts if part is not None)


def _is_keras_3(attributes):
    loaded_from = Path(attributes.get("__file__") or "").parts
    return "_tf_keras" in loaded_from or attributes.get("_tfll_keras_version") == "keras_3"
