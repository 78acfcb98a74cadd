"""Checks of the data that `fit` gets, and their conversion."""

import numbers
import warnings

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.data import Lot, PoissonBatches, poisson_batches
from tfdpnorm.data.sources import is_source
from tfdpnorm.errors import PrivacyError
from tfdpnorm.keras_compat.inputs import input_names, rows_by_input
from tfdpnorm.keras_compat.models import (
    graph_inputs,
    sublayers,
    symbolic_inputs,
    tensors_before,
)


def tuples_of_arrays(structure, count):
    """Turns lists of several arrays, each of `count` rows, into tuples, as Keras reads them.

    A list of anything else is one array: of rows, numbers or texts. `structure` is what `fit` was
    given, of dicts, tuples, lists and arrays.
    """
    if isinstance(structure, dict):
        return {name: tuples_of_arrays(part, count) for name, part in structure.items()}
    if isinstance(structure, tuple) and not hasattr(structure, "_fields"):
        return tuple(tuples_of_arrays(part, count) for part in structure)
    if isinstance(structure, list) and structure and all(_rows(x) == count for x in structure):
        return tuple(structure)
    return structure


def _rows(x):
    shape = getattr(x, "shape", None)
    if shape is not None:
        return shape[0] if len(shape) else None
    return len(x) if isinstance(x, list) and x and isinstance(x[0], (list, np.ndarray)) else None


def check_inputs(model, x, *, has_public_rows=False, is_augmented=False):
    """Rejects arrays of other numbers or shapes than a functional model's inputs, and texts.

    Dicts may hold more: Keras leaves those out. Keras also adds or drops an axis of one entry, but
    public rows have the axes of the model, so with them private rows need the same. An augmentation
    may give rows another size, such as that of a crop. Raises ValueError, and TypeError for texts.
    """
    inputs = symbolic_inputs(model)
    if inputs is None:
        return
    names, parts = input_names(model), rows_by_input(model, x)
    expected, given = len(names), len(parts)
    if expected != given and isinstance(x, dict):
        return
    if expected != given:
        raise ValueError(
            f"Expected x to hold {expected} array(s), one for each input of the model, got "
            f"{given}. Several inputs go in a tuple, a list or a dict of arrays."
        )
    for name, spec, array in zip(names, tf.nest.flatten(inputs), parts, strict=True):
        if array.dtype == object and spec.dtype != tf.string:
            raise TypeError(
                f"Expected numbers for input {name!r} of the model, got texts. Convert them "
                "to ids before fit(). Texts: x = "
                "keras.layers.TextVectorization(vocabulary=...)(texts).numpy(), with public words, "
                "or x = tfdpnorm.data.hash_tokens(texts, ...). Categories: one number for each, or "
                "keras.layers.StringLookup(vocabulary=...), with a fixed public vocabulary."
            )
        wanted, shape = list(spec.shape[1:]), list(array.shape[1:])
        # Keras adds or drops a last axis of one entry.
        longer, shorter = sorted((wanted, shape), key=len, reverse=True)
        is_by_one = len(longer) == len(shorter) + 1 and longer[-1] == 1
        adjusted = is_by_one and tf.TensorShape(longer[:-1]).is_compatible_with(shorter)
        fits = tf.TensorShape(wanted).is_compatible_with(shape)
        fits |= is_augmented and len(wanted) == len(shape)
        if fits or ((adjusted or is_augmented) and not has_public_rows):
            continue
        of_input = f" for input {name!r}" if expected > 1 else ""
        remedy = "Prepare x as for the model; for sizes that differ, write None in keras.Input."
        if adjusted:
            remedy = f"Write {'x[..., np.newaxis]' if len(shape) < len(wanted) else 'x[..., 0]'}."
        elif None not in wanted and np.prod(wanted) == np.prod(shape):
            remedy = f"Write x.reshape({', '.join(map(str, ['len(x)', *wanted]))})."
        wanted, shape = (", ".join(map(str, ["N", *axes])) for axes in (wanted, shape))
        raise ValueError(
            f"Expected x with shape ({wanted}) as the model's input, got ({shape}){of_input}. "
            f"{remedy}"
        )


def check_ids(model, x):
    """Rejects ids outside of an `Embedding` that takes them, with nothing of the ids in the error.

    The model would fail on them within an update, and reveal when they were drawn. Looks at inputs
    [N, ...] in memory that go into an embedding of a functional model directly.
    """
    inputs, arrays = graph_inputs(model), rows_by_input(model, x)
    if len(inputs) != len(arrays):
        return
    for layer in sublayers(model):
        if not isinstance(layer, keras.layers.Embedding):
            continue
        taken = {id(tensor) for tensor in tensors_before(layer)}
        for tensor, array in zip(inputs, arrays, strict=True):
            if id(tensor) in taken and isinstance(array, np.ndarray):
                if np.any((array < 0) | (array >= layer.input_dim)):
                    raise ValueError(
                        f"Some ids are outside of [0, {layer.input_dim}), the input_dim of "
                        f"{layer.name!r}. Give the layer an input_dim above the largest id "
                        "(vocabularies often count an unknown word and the padding besides), or "
                        "replace such ids by that of an unknown word."
                    )


def check_sample_weight(sample_weight):
    """Raises ValueError for weights by output."""
    if isinstance(sample_weight, (dict, tuple)) or (
        isinstance(sample_weight, list) and any(np.ndim(w) for w in sample_weight)
    ):
        raise ValueError(
            "Expected sample_weight of shape [N], one number for each example, got weights by "
            "output. Weight the outputs with compile(loss_weights=...); for weights of both, put "
            "them into y next to the targets, and let the loss multiply by them."
        )


def check_batch_size(batch_size, plan):
    """Raises ValueError for a batch size that is not the expected batch size of the plan."""
    if batch_size is not None and batch_size != plan.expected_batch_size:
        raise ValueError(
            f"Expected batch_size={plan.expected_batch_size:g}, the expected_batch_size of the "
            f"plan, or None, got {batch_size!r}. Leave it out. For other batches, pass "
            "expected_batch_size to make_plan() or suggest(); physical_batch_size of "
            "make_private() bounds the memory."
        )


def rows_of_sequence(sequence, count):
    """Reads all items of a `keras.utils.Sequence`, so that its rows can be sampled one by one.

    Its items are batches (x, y) or (x, y, sample_weight). Returns a triple of arrays [N, ...], with
    N the planned `count`, or None for a sequence that cannot be sampled honestly: whose first item
    is another one when it is read again (it is random). Raises ValueError for items that do not fit
    together, or other than N rows.
    """
    first, again = sequence[0], sequence[0]
    if not _same(first, again) or not isinstance(first, tuple) or len(first) not in (2, 3):
        return None
    items = [first, *(sequence[i] for i in range(1, len(sequence)))]
    try:
        joined = tf.nest.map_structure(lambda *parts: np.concatenate(parts), *items)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"Expected items of {type(sequence).__name__} that differ only in their number of "
            f"rows, since its rows are sampled one by one ({error}). Pad them to one shape."
        ) from None
    counts = {len(part) for part in tf.nest.flatten(joined)}
    if counts != {count}:
        got = " or ".join(map(str, sorted(counts)))
        raise PrivacyError(
            f"Expected {type(sequence).__name__} to give the {count} rows of the plan, got {got}. "
            "If it leaves out a last, smaller item, let it return that, too; or plan with the "
            "num_examples that it returns."
        )
    warnings.warn(
        f"The {len(items)} items of {type(sequence).__name__} are read once, into memory, and "
        f"their {count} rows are Poisson-sampled as single examples: its batches, its order and "
        "its on_epoch_end() are not used.",
        stacklevel=4,
    )
    return (*joined, None)[:3]


def _same(one, other):
    try:
        tf.nest.assert_same_structure(one, other)
    except (ValueError, TypeError):
        return False
    pairs = zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


_NO_DATA = (list, tuple, dict, str, bytes, numbers.Number, np.generic, tf.Tensor, type(None))
NO_TARGETS = (
    "There are no targets. Pass y to fit() or to poisson_batches(), or pass batches (x, y). If the "
    "loss needs no targets, pass zeros."
)


def check_person(x, person, plan):
    """Raises ValueError for rows in a plan of persons, and for persons in a plan of rows."""
    if plan.drawn_per_person is not None and isinstance(x, tf.data.Dataset):
        raise PrivacyError(
            "A plan of persons needs arrays or a source, and the person of each row, got "
            "a tf.data.Dataset. Pass what tfdpnorm.data.save_examples(dataset.unbatch(), folder) "
            "returns, with person=..."
        )
    is_given = (
        x.most_per_person is not None if isinstance(x, PoissonBatches) else person is not None
    )
    if is_given == (plan.drawn_per_person is not None):
        return
    if is_given:
        raise PrivacyError(
            "fit() got person=..., but most_per_person is missing: rows are protected, not "
            "persons. Pass most_per_person=... to make_private() or make_plan(), and count persons "
            "in num_examples and expected_batch_size."
        )
    raise PrivacyError(
        f"A plan with most_per_person={plan.most_per_person} needs person=..., the person of each "
        "row. Pass it to fit() or to poisson_batches()."
    )


def as_poisson_batches(x, y, sample_weight, plan, person=None):
    """Arrays and sources as `PoissonBatches`; those as they are; None for what we cannot sample.

    Raises ValueError for targets, weights or persons in addition to `PoissonBatches`.
    """
    if isinstance(x, PoissonBatches):
        if any(part is not None for part in (y, sample_weight, person)):
            raise ValueError(
                "PoissonBatches already hold y, sample_weight and person. Pass these to "
                "poisson_batches()."
            )
        return x
    arrays = [t for t in tf.nest.flatten(x) if hasattr(t, "shape") and len(t.shape)]
    if isinstance(x, (tf.data.Dataset, keras.utils.Sequence)):
        return None
    if not arrays and not is_source(x):
        if isinstance(x, _NO_DATA):
            raise ValueError(
                "Expected x to be arrays [N, ...], a source, PoissonBatches or a tf.data.Dataset, "
                f"got a {type(x).__name__} without arrays. Pass np.asarray(x)."
            )
        return None
    rows = arrays[0].shape[0] if arrays else len(x)
    return poisson_batches(
        x,
        y,
        sample_weight=sample_weight,
        expected_batch_size=min(plan.expected_batch_size, rows),  # N is compared with the plan's
        person=person,
        most_per_person=plan.drawn_per_person,
    )


def refuse_fit_arguments(arguments):
    """Rejects arguments of `fit` that have no meaning for Poisson-sampled batches."""
    if arguments.get("validation_split"):
        raise ValueError(
            "validation_split is not supported with Poisson-sampled batches, got "
            f"{arguments['validation_split']!r}: pass validation_data."
        )


def one_physical_batch(data, plan):
    """An ordinary Keras batch as a `Lot` of one physical batch without padding.

    Raises ValueError for a plan of persons: it is not known whose the rows are.
    """
    if plan.drawn_per_person is not None:
        raise PrivacyError(
            f"A plan with most_per_person={plan.most_per_person} needs the person of each row, "
            "which batches of rows do not have. Use fit(x, y, person=...), with arrays or a source."
        )
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    count = tf.shape(tf.nest.flatten(x)[0])[0]
    ones = tf.ones([count])
    sample_weight = ones if sample_weight is None else tf.cast(sample_weight, tf.float32)
    lot = Lot(x, y, sample_weight, ones)
    return tf.nest.map_structure(
        lambda t: None if t is None else tf.convert_to_tensor(t)[tf.newaxis], lot
    )
