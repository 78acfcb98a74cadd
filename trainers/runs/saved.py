"""The trained model of a run in a Keras file, with what holds of its privacy beside it."""

import pathlib

from tfdpnorm import files

_SUFFIX = ".keras"


def check_model_file(path):
    """Refuses a path that a model cannot be saved to, before anything is trained.

    Raises:
        ValueError: for another ending than .keras.
        OSError: if its folder cannot be written to.
    """
    path = pathlib.Path(path)
    if path.suffix != _SUFFIX:
        raise ValueError(
            f"Expected save_model to end in {_SUFFIX}, got {str(path)!r}. Name such a file."
        )
    files.make_folder(path.parent, "the folder of save_model")


def average_file(path):
    """The file for the model with averaged weights, beside that of the model."""
    path = pathlib.Path(path)
    return path.with_name(f"{path.stem}-average{path.suffix}")


def save_model(path, model, statement):
    """Writes a model as Keras does, and its privacy statement to a text file of the same name.

    Args:
        path: The file, ending in .keras.
        model: A Keras model, or a `PrivateModel`.
        statement: Text.

    Returns:
        Both paths, a pair.
    """
    path = pathlib.Path(path)
    with files.scratch_file(path) as partial:
        model.save(partial)
        # Last, both together: a model that could not be saved must not change what is said.
        text = files.write_whole(path.with_suffix(".txt"), statement + "\n")
        partial.replace(path)
    return path, text
