"""The import of Keras: unsupported versions are rejected, our layers registered.

TensorFlow up to 2.15 comes with Keras 2.15, later ones with Keras 3, whose computations TensorFlow
does unless KERAS_BACKEND names another backend. TF_USE_LEGACY_KERAS has later ones take the package
tf_keras, a third Keras.

Keras loads a saved model if the classes in it are registered, which happens when their modules are
imported. `import tfdpnorm` imports none of them, so that it loads no TensorFlow. Instead, once
Keras is there, stand-ins are registered, which import the classes when a model is loaded that needs
them.

Version-bound: the module of Keras that holds the registry; its `get_custom_objects` is public. This
file imports the standard library only.
"""

import importlib
import importlib.metadata
import importlib.util
import os
import sys

# --- which Keras ---

LEGACY, BACKEND = "TF_USE_LEGACY_KERAS", "KERAS_BACKEND"
_YES = ("1", "true", "True")  # what TensorFlow takes for yes


def choose_keras():
    """Has Keras 3 compute with TensorFlow, or rejects what the user has chosen.

    Keras takes another backend by KERAS_BACKEND or, without that variable, by its file of settings.
    The variable stays set, so that programs started from here have the same backend.
    """
    legacy, keras_3 = os.environ.get(LEGACY), _keras_3_is_installed()
    if keras_3 and legacy in _YES:
        raise ImportError(
            f"Expected Keras 3, got {LEGACY}={legacy}, with which TensorFlow uses the package "
            f"tf_keras. Unset {LEGACY}; or install TensorFlow 2.15 with its own Keras 2.15."
        )
    if keras_3 and (backend := _chosen_backend()) != "tensorflow":
        raise ImportError(
            f"Expected Keras with the TensorFlow backend, got {backend!r}. Set {BACKEND}="
            "tensorflow before Keras is imported, or import tfdpnorm first."
        )
    if keras_3:
        os.environ[BACKEND] = "tensorflow"
    if not keras_3 and legacy in _YES and importlib.util.find_spec("tf_keras") is None:
        raise ImportError(
            f"{LEGACY}={legacy!r} is set with Keras 2, which is already the legacy Keras: "
            "TensorFlow would look for the package tf_keras, which is not installed. Unset "
            f"{LEGACY}."
        )


def _chosen_backend():
    keras = sys.modules.get("keras")
    if hasattr(keras, "config"):  # It has been imported.
        return keras.config.backend()
    return os.environ.get(BACKEND) or "tensorflow"


def _keras_3_is_installed():
    try:
        return int(importlib.metadata.version("keras").split(".")[0]) >= 3
    except importlib.metadata.PackageNotFoundError:
        return False


# --- layers of this library ---

_REGISTRY = "keras.src.saving.object_registration"
_PACKAGE = "tfdpnorm"
_MODULES = {
    "FrozenBatchNormalization": "tfdpnorm.layers",
    "NAdam": "tfdpnorm.training.nadam",
    "NoisedBatchNormalization": "tfdpnorm.layers",
    "PublicBatchNormalization": "tfdpnorm.layers",
    "PublicCentering": "tfdpnorm.layers",
    "PublicRowsModel": "tfdpnorm.training.public_rows_model",
    "RandomCropAndFlip": "tfdpnorm.layers",
    "RandomPatchFeatures": "tfdpnorm.layers",
    "ScaleNorm": "tfdpnorm.layers",
    "ScaleToBounds": "tfdpnorm.layers",
    "ScatteringFeatures": "tfdpnorm.layers",
    "SinusoidalPositions": "tfdpnorm.models.blocks",
    "VariationalDropoutConv2D": "tfdpnorm.layers",
    "VariationalDropoutDense": "tfdpnorm.layers",
    "WeightNoise": "tfdpnorm.layers",
    "WeightStandardizedConv2D": "tfdpnorm.layers",
}
_FUNCTIONS = {"fused_mish": "tfdpnorm.models.mish"}


def register_when_keras_is_imported():
    """Registers the stand-ins, now if Keras is imported, or else as soon as it is."""
    if _REGISTRY in sys.modules:
        _register(sys.modules[_REGISTRY])
    elif not any(isinstance(finder, _Waiting) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Waiting())


class _Waiting:
    """A finder of modules that finds what the others do, and has it registered when it is run."""

    def find_spec(self, name, path=None, target=None):
        del path, target
        if name != _REGISTRY or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)  # The others find it.
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
