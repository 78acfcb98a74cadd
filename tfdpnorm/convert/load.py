"""Keras models in files, by whatever Keras of version 2 wrote them."""

import pathlib

from tensorflow import keras

from tfdpnorm import files
from tfdpnorm.keras_compat.saving import revived_classes
from tfdpnorm.privacy.marks import read_mark


def load_model(model, custom_objects=None):
    """Returns a Keras model that is given as such or as a file; loaded ones are not compiled.

    A file can hold code, in Lambda layers of the HDF5 format for one: load those you trust. If a
    private run of this library wrote it, statements of runs that train it further name that run.

    Args:
        model: A Keras model; or the path of a `.keras` file, of an HDF5 file that holds a whole
            model and not weights alone, or of a folder in the SavedModel format that Keras wrote.
        custom_objects: Dict from names to the classes and functions of the file that are not
            Keras' own and not registered.

    Raises:
        ValueError: if it is neither, or the file does not hold a Keras model.
        FileNotFoundError: if there is no such file.
    """
    if isinstance(model, keras.Model):
        return model
    if not isinstance(model, (str, pathlib.Path)):
        raise ValueError(
            f"Expected a Keras model or the path of one, got {type(model).__name__}. Save other "
            "models as .keras files first."
        )
    path = pathlib.Path(model)
    if not path.exists():
        raise FileNotFoundError(
            f"Expected the file of a Keras model, got {path}, which is not there."
        )
    try:
        loaded = keras.models.load_model(path, compile=False, custom_objects=custom_objects)
    except Exception as error:  # of any kind: h5py, zip and Keras have their own
        raise ValueError(
            f"Expected a whole Keras model in {path}, got what cannot be loaded as one "
            f"({files.reason(error)}). Files of weights hold no model: build it, and load them "
            "into it. Layers that are not Keras' own go into custom_objects."
        ) from error
    if not isinstance(loaded, keras.Model):
        raise ValueError(
            f"Expected a Keras model in {path}, got a SavedModel that Keras did not write. Save "
            "the model by model.save(...)."
        )
    unknown = revived_classes(loaded)
    if unknown:
        raise ValueError(
            f"Expected a SavedModel of known classes, got {unknown} in {path}, whose code it does "
            "not hold. Give them in custom_objects."
        )
    read_mark(path)
    return loaded
