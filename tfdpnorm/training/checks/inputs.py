"""What `PrivateModel.fit` and `compile` are given, brought into the form that training takes."""

import numbers

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.data import Lot, PoissonBatches, poisson_batches

_NO_DATA = (list, tuple, dict, str, bytes, numbers.Number, np.generic, tf.Tensor, type(None))
NO_TARGETS = (
    "Expected targets, got none: pass y to fit(), to poisson_batches(), or batches (x, y). Where a "
    "loss needs no targets, pass zeros."
)


def as_poisson_batches(x, y, sample_weight, expected_batch_size):
    """Arrays as `PoissonBatches`; those as they are; None for data that we cannot sample.

    Raises:
        ValueError: for targets or weights beside `PoissonBatches`.
    """
    if isinstance(x, PoissonBatches):
        if y is not None or sample_weight is not None:
            raise ValueError(
                "Expected y and sample_weight inside of PoissonBatches, got them beside it. Pass "
                "them to poisson_batches()."
            )
        return x
    arrays = [t for t in tf.nest.flatten(x) if hasattr(t, "shape") and len(t.shape)]
    if isinstance(x, (tf.data.Dataset, keras.utils.Sequence)):
        return None
    if not arrays:
        if isinstance(x, _NO_DATA):
            raise ValueError(
                "Expected x to be arrays [N, ...], PoissonBatches or a tf.data.Dataset, got a "
                f"{type(x).__name__} without arrays. Pass np.asarray(x)."
            )
        return None
    return poisson_batches(
        x, y, sample_weight=sample_weight, expected_batch_size=expected_batch_size
    )


def refuse_fit_arguments(arguments):
    """Refuses arguments of `fit` that have no meaning for Poisson-sampled lots."""
    if arguments.get("validation_split"):
        raise ValueError(
            "Expected no validation_split for Poisson-sampled lots, got "
            f"{arguments['validation_split']!r}: pass validation_data."
        )


def one_physical_batch(data):
    """An ordinary Keras batch as a `Lot` of one physical batch without padding."""
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    count = tf.shape(tf.nest.flatten(x)[0])[0]
    ones = tf.ones([count])
    sample_weight = ones if sample_weight is None else tf.cast(sample_weight, tf.float32)
    lot = Lot(x, y, sample_weight, ones)
    return tf.nest.map_structure(
        lambda t: None if t is None else tf.convert_to_tensor(t)[tf.newaxis], lot
    )


def row_specs(lots):
    """The `tf.TensorSpec`s [None, ...] of x and y of a dataset of `Lot`s [K, P, ...].

    Raises:
        ValueError: if the lots have no targets.
    """
    targets = tf.nest.flatten(lots.element_spec.y)
    if not all(isinstance(spec, tf.TensorSpec) for spec in targets):
        raise ValueError(NO_TARGETS)

    def of_rows(spec):
        return tf.TensorSpec([None, *spec.shape[2:]], spec.dtype)

    return tuple(
        tf.nest.map_structure(of_rows, part) for part in (lots.element_spec.x, lots.element_spec.y)
    )
