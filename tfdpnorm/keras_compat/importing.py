"""What happens when Keras is imported: the legacy one is chosen, and our layers are registered.

TensorFlow from 2.16 on takes Keras 3 unless TF_USE_LEGACY_KERAS is set. It reads the variable when
it is imported, and once more when its Keras is first used.

Keras loads a saved model if the classes in it are registered, which happens when their modules are
imported. `import tfdpnorm` imports none of them, so that it loads no TensorFlow. Instead, once
Keras is there, stand-ins are registered, which import the classes when a model is loaded that needs
them.

Private parts: that `tf.keras`, `tf.losses` and so on are loaders with `_tfll_keras_version` until
they are used and modules in keras/_tf_keras afterwards, and that `tf.__path__` says where
`import tensorflow.keras` looks. Publicly one cannot ask which Keras it is without using it.
Version-bound: the module of Keras that holds the registry; its `get_custom_objects` is public. This
file imports the standard library only.
"""

import importlib
import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path

# --- legacy Keras ---

VARIABLE = "TF_USE_LEGACY_KERAS"
_YES = ("1", "true", "True")  # what TensorFlow takes for yes
_LOADERS = ("keras", "losses", "metrics", "optimizers", "initializers")


def use_legacy_keras():
    """Makes `tf.keras` the package tf_keras, if Keras 3 is installed.

    TensorFlow may have been imported, as long as its Keras has not been used. The variable stays
    set, so that programs started from here have the same Keras.

    Raises:
        ImportError: if the variable says no, if tf_keras is missing, or if Keras 3 has been used
            through TensorFlow; and if the variable says yes where Keras 2 is installed alone.
    """
    if not _keras_3_is_installed():
        if os.environ.get(VARIABLE) in _YES and _legacy_package() is None:
            raise ImportError(
                f"Expected no {VARIABLE} beside Keras 2, which is the legacy Keras already, got "
                f"{os.environ[VARIABLE]!r}: TensorFlow would look for the package tf_keras, which "
                f"is not installed. Unset {VARIABLE}."
            )
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


# --- layers of this library ---

_REGISTRIES = ("keras.src.saving.object_registration", "tf_keras.src.saving.object_registration")
_PACKAGE = "tfdpnorm"
_MODULES = {
    "FrozenBatchNormalization": "tfdpnorm.layers",
    "NoisedBatchNormalization": "tfdpnorm.layers",
    "PublicBatchNormalization": "tfdpnorm.layers",
    "PublicCentering": "tfdpnorm.layers",
    "PublicRowsModel": "tfdpnorm.training.public_rows_model",
    "RandomCropAndFlip": "tfdpnorm.layers",
    "RandomPatchFeatures": "tfdpnorm.layers",
    "ScaleNorm": "tfdpnorm.layers",
    "SinusoidalPositions": "tfdpnorm.models.blocks",
    "VariationalDropoutConv2D": "tfdpnorm.layers",
    "VariationalDropoutDense": "tfdpnorm.layers",
    "WeightNoise": "tfdpnorm.layers",
    "WeightStandardizedConv2D": "tfdpnorm.layers",
}
_FUNCTIONS = {"mish": "tfdpnorm.models.mish"}


def register_when_keras_is_imported():
    """Registers the stand-ins, now if Keras is imported, or else as soon as it is."""
    missing = []
    for name in _REGISTRIES:
        if name in sys.modules:
            _register(sys.modules[name])
        else:
            missing.append(name)
    if not any(isinstance(finder, _Waiting) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Waiting(missing))


class _Waiting:
    """A finder of modules that finds what the others do, and has it registered when it is run."""

    def __init__(self, names):
        self._names = set(names)

    def find_spec(self, name, path=None, target=None):
        del path, target
        if name not in self._names:
            return None
        self._names.remove(name)
        spec = importlib.util.find_spec(name)
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return spec
        run = spec.loader.exec_module

        def run_and_register(module):
            run(module)
            _register(module)

        spec.loader.exec_module = run_and_register
        return spec


def _register(registry):
    known = registry.get_custom_objects()
    for name, module in _MODULES.items():
        known.setdefault(f"{_PACKAGE}>{name}", _stand_in(name, module))
    for name, module in _FUNCTIONS.items():
        if f"{_PACKAGE}>{name}" not in known:
            # As a registered one, it has its name when the model is saved again.
            registry.register_keras_serializable(_PACKAGE, name)(_function(name, module))


def _function(name, module):
    def stand_in(*args, **kwargs):
        return getattr(importlib.import_module(module), name)(*args, **kwargs)

    stand_in.__name__ = name
    return stand_in


def _stand_in(name, module):
    def from_config(cls, config):
        del cls
        # Registers the class in the place of the stand-in.
        return getattr(importlib.import_module(module), name).from_config(config)

    return type(name, (), {"from_config": classmethod(from_config)})
