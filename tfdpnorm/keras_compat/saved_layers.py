"""The layers of this library, known by name to Keras before they are imported.

Keras loads a saved model if the classes in it are registered, which happens when their modules are
imported. `import tfdpnorm` imports none of them, so that it loads no TensorFlow. Instead, once
Keras is there, stand-ins are registered, which import the classes when a model is loaded that needs
them.

Version-bound: the module of Keras that holds the registry; its `get_custom_objects` is public. This
file imports the standard library only.
"""

import importlib
import importlib.util
import sys

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
    "SinusoidalPositions": "tfdpnorm.models.transformer",
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
