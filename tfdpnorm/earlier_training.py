"""What tells that weights were trained before: the steps of optimizers, in models and in files."""

import contextlib
import zipfile

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.models import sublayers
from tfdpnorm.keras_compat.training import steps_of
from tfdpnorm.keras_compat.variables import weights
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.metadata import remember, weight_digests


def remember_training(model, steps=None):
    """Remembers that the weights of a model were trained, as its optimizer or `steps` say.

    So that copies, converted models and parts of it are known by these weights, too.
    """
    if steps is None:
        models = [x for x in (model, *sublayers(model)) if isinstance(x, keras.Model)]
        steps = max(steps_of(getattr(x, "optimizer", None)) for x in models)
    known = (caveat("trained_before", steps=steps),) if steps else ()
    if known and model.built:
        remember(weight_digests([v.numpy() for v in weights(model)]), known)
    return known


def steps_in_file(path):
    """The steps of the optimizer that a file of a model or a SavedModel holds; 0 without one."""
    if path.is_dir():
        reader = tf.train.load_checkpoint(str(path / "variables" / "variables"))
        names = [name for name in reader.get_variable_to_shape_map() if "optimizer" in name]
        return _most_steps(np.asarray(reader.get_tensor(name)) for name in names)
    import h5py  # which models that are not from files do not need

    with contextlib.ExitStack() as stack:
        file = path
        if zipfile.is_zipfile(path):
            archive = stack.enter_context(zipfile.ZipFile(path))
            file = stack.enter_context(archive.open("model.weights.h5"))
        file, found = stack.enter_context(h5py.File(file, "r")), []
        for name in {"optimizer", "optimizer_weights"} & set(file):
            file[name].visititems(lambda _, each: found.append(each))
        return _most_steps(each[()] for each in found if isinstance(each, h5py.Dataset))


def _most_steps(values):
    """The largest of single integers, which an optimizer counts its steps by."""
    return max((int(v) for v in values if not v.shape and v.dtype.kind in "iu"), default=0)
