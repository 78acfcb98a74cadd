"""Which rows a run was trained on, and which its validations ask about: never the same ones."""

import numpy as np
import tensorflow as tf

from tfdpnorm.data import check_public_batch
from tfdpnorm.data.arrays import shared_rows


class RowsOfRun:
    """The training rows of each `fit`, and each `PrivateValidation` that was ever asked.

    Args:
        public_batch: [M, ...] public rows, or None.
    """

    def __init__(self, public_batch):
        self._public_batch = public_batch
        self._trained = []  # of each fit, if they differ from those before
        self._validations = set()

    def begin_fit(self, batches, validations, *, public_validation_data=None):
        """Checks what a `fit` gets against all that the run has had, and remembers it.

        Args:
            batches: `PoissonBatches`; None for data that nothing is known of.
            validations: List of `PrivateValidation`.
            public_validation_data: What is said to be public, as `fit` gets `validation_data`; or
                None.

        Raises:
            ValueError: if rows that are validated are trained on, now or before, or are public.
        """
        trained = self._trained
        if batches is not None:
            before = [x for x in self._trained if not _same_rows(x, batches.x)]
            trained = [batches.x, *before]
        for validation in {*validations, *self._validations}:
            check_validation_rows(validation, trained, self._public_batch)
        data = public_validation_data
        if batches is not None and isinstance(data, (tuple, list)) and data:
            check_public_validation(data[0], batches.x)
        self._trained = trained
        self._validations.update(validations)

    def add_validation(self, validation):
        """Checks a `PrivateValidation` that is asked outside of `fit`, now and in each `fit`.

        Raises:
            ValueError: if its rows are those of a `fit`, or of the public batch.
        """
        check_validation_rows(validation, self._trained, self._public_batch)
        self._validations.add(validation)


def check_validation_rows(validation, trained, public_batch):
    """Checks that the rows of a `PrivateValidation` are neither training rows nor public ones.

    Args:
        validation: `PrivateValidation`.
        trained: List of structures of arrays [N, ...], training rows.
        public_batch: [M, ...] public rows, or None.

    Raises:
        ValueError: if some are.
    """
    for x in trained:
        validation.check_training_data(x)
    if public_batch is not None:
        check_public_batch(*(tuple(tf.nest.flatten(x)) for x in (public_batch, validation.x)))


def check_public_validation(x, trained):
    """Checks that validation rows that are said to be public are no training rows.

    Args:
        x: Structure of [N, ...]. Only arrays and tensors are looked at.
        trained: Structure of arrays [N, ...], training rows.

    Raises:
        ValueError: if some are.
    """
    ours, theirs = tf.nest.flatten(x), tf.nest.flatten(trained)
    if not all(isinstance(leaf, (np.ndarray, tf.Tensor)) for leaf in ours):
        return
    ours = [np.asarray(leaf) for leaf in ours]
    if [_sizes(leaf) for leaf in ours] != [_sizes(leaf) for leaf in theirs]:
        return
    theirs = [np.asarray(leaf) for leaf in theirs]
    ours = [a.reshape(-1, *b.shape[1:]) for a, b in zip(ours, theirs, strict=True)]
    shared = shared_rows(ours, theirs)
    if shared:
        raise ValueError(
            f"Expected public validation_data that are no training rows, got {len(shared)} of "
            f"{len(ours[0])} that are, the first of them rows {shared[:5]}. What callbacks choose "
            "by them would not be covered. Take them out, or use PrivateValidation."
        )


def _same_rows(x, others):
    """Whether two structures of arrays [N, ...] are equal, to the last bit."""
    leaves, of_others = tf.nest.flatten(x), tf.nest.flatten(others)
    return len(leaves) == len(of_others) and all(
        a is b or (a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
        for a, b in zip(leaves, of_others, strict=True)
    )


def _sizes(leaf):
    """The sizes of a row, without those of 1, which Keras adds and takes away."""
    return [size for size in leaf.shape[1:] if size != 1]
