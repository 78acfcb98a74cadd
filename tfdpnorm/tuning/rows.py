"""What a search is trained and scored on, known again when it is resumed."""

import hashlib

import numpy as np
import tensorflow as tf

from tfdpnorm.data import PoissonBatches


def rows_of_search(x, y, validation_data, fit_arguments):
    """Returns all that decides on which examples a search trains and scores, a structure.

    Args:
        x: As in `PrivateTuner.search`.
        y: See there.
        validation_data: See there.
        fit_arguments: Dict of the further arguments of `fit`.
    """
    weights, by_class = (fit_arguments.get(f"{of}_weight") for of in ("sample", "class"))
    if isinstance(x, PoissonBatches):
        weights = None if (x.sample_weight == 1).all() else x.sample_weight
        x, y = x.x, x.y
    classes = (sorted(by_class.items()),) if by_class else ()
    return x, y, weights, tuple(validation_data), *classes


def rows_digest(rows, key):
    """Returns a digest that says nothing of the rows to those who do not have the key.

    A digest without a key would let anybody who guesses the rows find out whether they are right.

    Args:
        rows: Structure of arrays; of what is none, the type alone counts.
        key: Bytes.

    Returns:
        Hex digits.
    """
    state = hashlib.blake2b(key=key, digest_size=16)
    for leaf in tf.nest.flatten(rows):
        is_array = hasattr(leaf, "__array__") or isinstance(leaf, (bool, int, float, str, bytes))
        array = np.asarray(leaf if is_array else type(leaf).__name__)
        state.update(f"{array.dtype.str}{array.shape}".encode())
        if array.dtype.kind == "O":  # texts
            state.update(repr(array.tolist()).encode())
        else:
            array = np.ascontiguousarray(array)
            state.update(array.data if array.dtype.kind in "biuf" else array.tobytes())
    return state.hexdigest()
