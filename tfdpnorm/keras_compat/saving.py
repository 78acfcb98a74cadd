"""Files of Keras models: what is saved, what must not be, and how files are loaded.

Private parts: `_trackable_children`, which is asked for all that a file has to hold: there is no
public way to keep the metrics of a model out of a SavedModel;
`_self_unconditional_deferred_dependencies` of TensorFlow's trackables, since nothing public says
that a restoration waits; and the names `RevivedLayer` and `RevivedNetwork` of Keras' loader, bases
of the classes that it makes up for a SavedModel whose classes it does not know. They are compared
by name, since their module moved between versions.
"""

import contextlib
import json
import warnings
import zipfile

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.models import is_functional, is_stock, modules_inside, sublayers
from tfdpnorm.keras_compat.training import optimizer_variables
from tfdpnorm.keras_compat.variables import KERAS, KERAS_3, KERAS_VERSION, raw, weights

if KERAS_3:
    from keras.src.models.functional import Functional

# --- files of another Keras ---

# Classes that a `.keras` file of Keras 2 names with a module that Keras 3 does not have.
CLASSES_OF_KERAS_2 = {"Functional": Functional} if KERAS_3 else {}

# Layers whose configs by Keras 2 have entries without effect that Keras 3 rejects: `groups`, which
# is 1, and in separable convolutions the settings of a kernel that they do not have.
_WITH_GROUPS = ("DepthwiseConv1D", "DepthwiseConv2D", "SeparableConv1D", "SeparableConv2D")
_WITH_GROUPS += ("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose")
_KNOWN = ("keras", "tf_keras", "tensorflow", "tfdpnorm")  # packages whose layers files can hold
_OF_NO_KERNEL = {f"kernel_{setting}" for setting in ("initializer", "regularizer", "constraint")}


@contextlib.contextmanager
def configs_of_keras_2():
    """While this lasts, convolutions of Keras 3 are also made of configs by Keras 2."""
    classes = [getattr(keras.layers, name) for name in _WITH_GROUPS] if KERAS_3 else []
    for cls in classes:
        cls.from_config = _from_either_config(cls)
    try:
        yield
    finally:
        for cls in classes:
            del cls.from_config  # Keras has it in their base class.


def _from_either_config(owner):
    unknown = _OF_NO_KERNEL if owner.__name__.startswith("Separable") else set()

    def from_config(cls, config):
        known = {
            name: value
            for name, value in config.items()
            if name not in unknown and (name, value) != ("groups", 1)
        }
        return super(owner, cls).from_config(known)

    return classmethod(from_config)


def check_keras_of_file(path):
    """Rejects a `.keras` file that a later Keras wrote; any other file or folder will do."""
    try:
        with zipfile.ZipFile(path) as archive:
            version = json.loads(archive.read("metadata.json"))["keras_version"]
    except (OSError, zipfile.BadZipFile, KeyError, ValueError):
        return
    if int(version.partition(".")[0]) > int(KERAS_VERSION.partition(".")[0]):
        raise ValueError(
            f"Expected a file of Keras {KERAS_VERSION}, got {path}, which Keras {version} "
            "wrote: Keras 2 cannot load it. Load it with Python 3.12 or later, where TensorFlow "
            "comes with Keras 3."
        )


# --- metrics and slots of optimizers ---


@contextlib.contextmanager
def compiled_state_at_zero(model):
    """While this lasts, metrics and optimizers of a model, and of models in it, hold zeros.

    Keras writes them to files, whatever `include_optimizer` says: what a metric last counted, and
    the moments of gradients. After it they are as before.
    """
    variables = {id(v): v for v in _kept(model)}.values()
    before = [tf.identity(v) for v in variables]
    for variable in variables:
        variable.assign(tf.zeros_like(variable))
    try:
        yield
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)


def _kept(model):
    models = [x for x in (model, *sublayers(model)) if isinstance(x, keras.Model)]
    metrics = [x for x in modules_inside(model) if isinstance(x, keras.metrics.Metric)]
    for each in models:
        metrics += each.metrics
        optimizer = getattr(each, "optimizer", None)
        if optimizer is not None:
            yield from optimizer_variables(optimizer)
    for metric in metrics:
        yield from raw(list(metric.variables))


# --- models that are not saved ---


def warn_unless_made_again(model):
    """Warns of a graph of layers that Keras cannot make again from its configuration.

    That is tried, with weights of its own for a moment, where it has layers of other packages.
    """
    classes = {type(x).__name__: type(x) for x in sublayers(model) if not is_stock(x)}
    foreign = [c for c in classes.values() if c.__module__.partition(".")[0] not in _KNOWN]
    if not foreign or not is_functional(model):
        return
    try:
        with keras.utils.custom_object_scope(classes):
            type(model).from_config(model.get_config())
    except Exception as error:  # of the layers' own code
        warnings.warn(
            f"Keras cannot load the file of this model: {type(error).__name__}: "
            f"{' '.join(str(error).split())[:200]} Save its weights, too: private.save_weights("
            "path), and load_weights(path) of the model built again in code. For a task of "
            "KerasHub, task.save_to_preset(folder).",
            stacklevel=3,
        )


class UnsavedModel(keras.Model):
    """Rejects `keras.models.save_model` and `tf.saved_model.save`, which write the metrics too.

    The error says `how_to_save`, an "Expected ... got ..." of the class derived from this.
    """

    how_to_save = "This model cannot be saved."

    def get_config(self):
        """Raises TypeError: Keras asks for it before it writes a file."""
        raise TypeError(self.how_to_save)

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        if save_type == "savedmodel":
            raise TypeError(self.how_to_save)
        return super()._trackable_children(save_type, **kwargs)


# --- formats of TensorFlow ---


def write_saved_model(model, path):
    """Writes the SavedModel of a model for serving, with a batch of any size, without optimizer."""
    if KERAS_3:
        model.export(path, **({} if KERAS < (3, 6) else {"verbose": False}))
    else:
        model.save(path, save_format="tf", include_optimizer=False)


def owner_of_variables(model):
    """Returns the trackable object that TensorFlow's converters find a model's weights by.

    By a model of Keras 3 they find others, that are not initialised.
    """
    if not KERAS_3:
        return model
    owner = tf.Module()
    owner.weights = weights(model)
    return owner


# --- weights loaded before a model was built ---


def has_deferred_weights(model):
    """Whether `load_weights` of a TensorFlow checkpoint has left weights for when it is built."""
    layers = (model, *sublayers(model))
    return any(getattr(x, "_self_unconditional_deferred_dependencies", None) for x in layers)


# --- classes that the loader generated ---

_BASES = ("RevivedLayer", "RevivedNetwork")


def revived_classes(model):
    """Sorted names of the classes that the loader generated in `model`, itself included."""
    found = [type(layer) for layer in (model, *sublayers(model))]
    return sorted({c.__name__ for c in found if any(b.__name__ in _BASES for b in c.__mro__)})
