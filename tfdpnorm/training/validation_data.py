"""Which rows a run was trained on, and which its validations look at: never the same ones."""

import warnings

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.data import check_public_batch
from tfdpnorm.data.arrays import compared_as, joint_digests
from tfdpnorm.data.inputs import InputArrays, as_inputs
from tfdpnorm.errors import PrivacyError, PrivacyWarning, level_of_caller
from tfdpnorm.keras_compat.inputs import rows_in_structure_of
from tfdpnorm.training.checks.data import tuples_of_arrays

_UNREADABLE = (
    "Expected validation rows that can be read before training, and compared with the training "
    "rows, got {got}. Pass arrays, a keras.utils.Sequence, or a tf.data.Dataset of known end."
)
_REMEDY = "Or use PrivateValidation(..., disjoint=False), which charges the training examples."


class RowsOfRun:
    """The training rows of each `fit`, and all that validations ever looked at.

    `public_batch` is [M, ...], or None; `of_examples` says whether epsilon is stated for single
    examples alone.
    """

    def __init__(self, model, public_batch, *, of_examples=True):
        self._model, self._public_batch = model, public_batch
        self._of_examples = of_examples
        # Of each fit whose inputs differ from those before: these, and the persons of their rows.
        self._trained = []
        self._validations = set()
        self._looked_at = []  # inputs of the validation data of each fit, and how many steps

    def begin_fit(self, batches, validations, validation_data=None, validation_steps=None):
        """Checks what a `fit` gets against all that the run has had, and remembers it.

        `batches` are None for data that nothing is known of. Raises ValueError if rows that are
        validated are trained on, now or before, or are public, or if that cannot be checked; and if
        rows have other persons than before.
        """
        trained = self._trained
        if batches is not None:
            ours = batches.examples.inputs
            # Those before know what they were compared with; arrays would be in memory twice.
            same = [each for each in self._trained if ours.are_those_of(each[0])]
            if batches.persons is not None:  # which are protected
                if not all(known.have_rows_of(batches.persons) for _, known in same):
                    raise PrivacyError(
                        "Expected the persons of the earlier fit for the same rows, got others: "
                        "then nothing bounds what a person changes. Give each row the same person "
                        "again."
                    )
            now = same[0][0] if same and batches.examples.is_read_on_demand else ours
            others = (each for each in self._trained if each not in same)
            trained = [(now, batches.persons), *others]
            if self._trained and not same and isinstance(ours, InputArrays):
                warnings.warn(
                    "These are not the examples of an earlier fit, or not in its order. Epsilon "
                    "covers all that were trained on, but the statement counts only those of one "
                    "fit. Train on the same ones, or make a new private model whose plan counts "
                    "all of them. This message depends on the private data; keep it with them.",
                    PrivacyWarning,
                    stacklevel=level_of_caller(),
                )
            if self._of_examples and not same and not batches.examples.is_read_on_demand:
                _warn_of_equal_examples(batches.examples)
        for validation in {*validations, *self._validations}:
            public_rows = self._public_rows_like(validation.x)
            check_validation_rows(validation, [x for x, _ in trained], public_rows)
        looked_at = self._looked_at
        if validation_data is not None:
            ours = _inputs(validation_data)
            theirs = InputArrays(ours)
            before = [each for each in looked_at if not theirs.are_those_of(InputArrays(each[0]))]
            looked_at = [(ours, validation_steps), *before]
        for x, _ in trained:
            for ours, steps in looked_at:
                check_no_training_rows(ours, x, steps=steps)
        self._trained, self._looked_at = trained, looked_at
        self._validations.update(validations)

    def add_validation(self, validation):
        """Checks a `PrivateValidation` that is asked outside of `fit`, now and in each `fit`.

        Raises ValueError if its rows are those of a `fit`, or of the public batch.
        """
        trained = [inputs for inputs, _ in self._trained]
        check_validation_rows(validation, trained, self._public_rows_like(validation.x))
        self._validations.add(validation)

    def _public_rows_like(self, x):
        if self._public_batch is None:
            return None
        return rows_in_structure_of(self._model, self._public_batch, x)

    def check_evaluated(self, x, steps=None):
        """Raises ValueError if rows that are evaluated while `fit` runs may be training rows."""
        for trained, _ in self._trained:
            check_no_training_rows(x, trained, steps=steps)

    def check_named(self, values):
        """As `check_evaluated`, of what a callback might evaluate: values that look like inputs."""
        for value in values:
            if isinstance(value, (tuple, list)) and value:  # (x, y)
                self.check_named(value[:1])
            for trained, _ in self._trained:
                if _look_alike(value, trained.leaves):
                    check_no_training_rows(value, trained)


def _look_alike(value, theirs):
    """Whether a value is arrays, or batches of arrays, of the shapes of the training inputs."""
    if isinstance(value, tf.data.Dataset):
        if int(value.cardinality()) == tf.data.INFINITE_CARDINALITY:
            return False
        value = _inputs(value.element_spec)
    leaves = tf.nest.flatten(value)
    if not all(isinstance(leaf, (np.ndarray, tf.Tensor, tf.TensorSpec)) for leaf in leaves):
        return False
    return [leaf.shape[1:] for leaf in leaves] == [leaf.shape[1:] for leaf in theirs]


def _warn_of_equal_examples(examples):
    """Warns of a record that is in the data several times: epsilon is for one of its copies."""
    leaves = [leaf for leaf in tf.nest.flatten(examples.parts[:2]) if leaf is not None]
    if len(set(joint_digests(leaves, compared_as(leaves, leaves)))) < examples.count:
        warnings.warn(
            "Some training examples are equal, in inputs and targets. Epsilon is for one example: "
            "a record that is in the data several times is protected less. Remove copies, or "
            "protect persons: docs/several_rows_per_person.md#copies-windows-and-oversampling. "
            "This message depends on the private data; keep it with them.",
            PrivacyWarning,
            stacklevel=level_of_caller(),
        )


def check_validation_rows(validation, trained, public_batch):
    """Raises ValueError if rows of a `PrivateValidation` are training rows or public ones.

    `trained` is a list of inputs as in `check_no_training_rows`; `public_batch` [M, ...], or None.
    """
    for x in trained:
        validation.check_training_data(x)
    if public_batch is not None:
        if not _match_by_name(public_batch, validation.x):
            raise PrivacyError(
                "Expected a public_batch in the structure of the validation rows, got "
                f"{type(public_batch).__name__} for {type(validation.x).__name__}: it cannot be "
                "checked whether they share rows. Pass both as dicts, or both as tuples."
            )
        check_public_batch(*(tuple(tf.nest.flatten(x)) for x in (public_batch, validation.x)))


def check_no_training_rows(x, trained, *, steps=None, remedy=_REMEDY):
    """Checks that no row of validation data is a training row, whatever acts on the results.

    A row is one if all of its inputs are the same, in any dtype and with axes of size 1 more or
    less. A row altered in the least is not recognised. Datasets and Sequences are read once: what
    they give in another pass is not seen. The error gives the numbers of such rows, for the data's
    curator, not for publication; or says that inputs cannot be compared.

    Args:
        x: Structure of arrays or tensors [n, ...]; or a `tf.data.Dataset` or
            `keras.utils.Sequence` that gives them, with targets.
        trained: Structure of arrays [N, ...], or what `tfdpnorm.data.inputs` makes of them.
        steps: `validation_steps` of `fit`.
        remedy: Sentence for the message.
    """
    trained = as_inputs(trained)
    theirs = trained.leaves
    count, rows_of = 0, {}  # numbers of rows by digest, for each list of dtypes
    for part in _parts(x, steps):
        ours = _like(part, trained.x, theirs, remedy)
        dtypes = tuple(compared_as(ours, theirs))
        rows = rows_of.setdefault(dtypes, {})
        for row, digest in enumerate(joint_digests(ours, dtypes), start=count):
            rows.setdefault(digest, []).append(row)
        count += len(ours[0])
    shared = []
    for dtypes, rows in rows_of.items():
        shared += [row for digest in trained.found(set(rows), dtypes) for row in rows[digest]]
    if shared:
        shared.sort()
        raise PrivacyError(
            f"Validation examples must not be training examples, but {len(shared)} of {count} are, "
            f"the first of them rows {shared[:5]}. Remove them. {remedy}"
        )


def _parts(x, steps):
    """Yields the inputs, [rows, ...] at a time."""
    if isinstance(x, tf.data.Dataset):
        end = int(x.cardinality())
        if end == tf.data.INFINITE_CARDINALITY or (end < 0 and steps is not None):
            raise PrivacyError(_UNREADABLE.format(got="a tf.data.Dataset whose end is not known"))
        yield from (_inputs(batch) for batch in x)
    elif isinstance(x, keras.utils.Sequence):
        yield from (_inputs(x[i]) for i in range(len(x)))
    else:
        yield x


def _inputs(data):
    return keras.utils.unpack_x_y_sample_weight(tuple(data) if isinstance(data, list) else data)[0]


def _like(x, trained, theirs, remedy):
    """Validation inputs as a list of arrays of the shapes of the training inputs."""
    if len(theirs) == 1 and isinstance(x, list):  # rows, or an input alone
        x = x[0] if len(x) == 1 and hasattr(x[0], "shape") else np.asarray(x)
    first = next((len(leaf) for leaf in tf.nest.flatten(x) if np.ndim(leaf)), 0)
    x = tuples_of_arrays(x, first)
    leaves = tf.nest.flatten(x)
    if len(leaves) == len(theirs) == 1:
        x = trained = None
    kinds = [type(leaf).__name__ for leaf in leaves]
    try:
        tf.nest.assert_same_structure(x, trained, check_types=False)
        if not _match_by_name(x, trained):
            raise TypeError
    except (ValueError, TypeError):
        raise PrivacyError(
            f"Expected validation inputs in the structure of x, {len(theirs)} array(s) in a "
            f"{type(trained).__name__}, got {kinds}: it cannot be checked whether they are also "
            "training rows. Use one structure for both."
        ) from None
    # Sparse and ragged tensors are composite ones.
    dense = [leaf for leaf in leaves if isinstance(leaf, tf.Tensor) or not tf.is_tensor(leaf)]
    ours = [np.asarray(leaf) for leaf in dense]
    if len(ours) < len(leaves) or any(a.dtype.kind not in "biufOSU" or not a.ndim for a in ours):
        raise PrivacyError(_UNREADABLE.format(got=", ".join(kinds)))
    # Without axes of size 1, which Keras adds and takes away.
    sizes = [
        [[size for size in leaf.shape[1:] if size != 1] for leaf in of] for of in (ours, theirs)
    ]
    if sizes[0] != sizes[1]:
        raise PrivacyError(
            f"Expected validation rows shaped as the training rows, {sizes[1]}, got {sizes[0]}: it "
            "cannot be checked whether they are also training rows. Use one shape for both. "
            f"{remedy}"
        )
    return [a.reshape(-1, *b.shape[1:]) for a, b in zip(ours, theirs, strict=True)]


def _match_by_name(one, other):
    """Whether two structures are flattened in one order: the keys of dicts are sorted."""
    return isinstance(one, dict) == isinstance(other, dict)
