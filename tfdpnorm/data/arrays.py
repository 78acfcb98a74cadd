"""Arrays with a row for each example: checks of a user's arguments, which errors name."""

import hashlib

import numpy as np

# Rows looked at together, so that a check needs little memory compared with a large data set.
_ROWS_AT_A_TIME = 8192


def map_leaves(function, structure, name):
    """Applies `function(leaf, leaf_name)` to every array of nested dicts and tuples.

    Lists are leaves (they become arrays), as they are for `tf.data`.
    """
    if isinstance(structure, dict):
        return {
            key: map_leaves(function, value, f"{name}[{key!r}]") for key, value in structure.items()
        }
    if isinstance(structure, tuple):
        parts = [
            map_leaves(function, value, f"{name}[{index}]") for index, value in enumerate(structure)
        ]
        return type(structure)(*parts) if hasattr(structure, "_fields") else tuple(parts)
    return function(structure, name)


def text_or_numeric_array(value, name):
    """Returns numbers as an array, and texts as one of `bytes` objects, UTF-8.

    Raises ValueError as `numeric_array` does, and TypeError for other values.
    """
    _refuse_all_but_dense(value, name)
    texts = value if hasattr(value, "dtype") else None
    if texts is None and isinstance(value, list) and value and isinstance(value[0], (str, bytes)):
        texts = value
    texts = None if texts is None else np.asarray(texts)
    if texts is None or texts.ndim == 0 or texts.dtype.kind not in "USO":
        return numeric_array(value, name)
    if not all(isinstance(text, (str, bytes)) for text in texts.flat):
        return numeric_array(value, name)
    return texts_as_bytes(texts)


def texts_as_bytes(texts):
    """Returns an array of texts as one of `bytes` objects, UTF-8."""
    encoded = np.empty(texts.shape, dtype=object)
    for place, text in np.ndenumerate(texts):
        encoded[place] = text.encode() if isinstance(text, str) else bytes(text)
    return encoded


def _refuse_all_but_dense(value, name):
    if hasattr(value, "element_spec") or hasattr(value, "__next__"):
        raise TypeError(
            f"Expected {name} to be an array of shape [N, ...], got a {type(value).__name__}, "
            "whose rows cannot be drawn by index. Read it into arrays: for a tf.data.Dataset of "
            "single examples, x, y = next(dataset.batch(N).as_numpy_iterator())."
        )
    if hasattr(value, "row_splits"):
        raise TypeError(
            f"Expected {name} to be a dense array [N, ...], got a ragged tensor. Pad its rows to "
            "one length with to_tensor(), and mask what was added: Embedding(mask_zero=True) or "
            "keras.layers.Masking."
        )
    if hasattr(value, "dense_shape") or hasattr(value, "toarray"):
        raise TypeError(
            f"Expected {name} to be a dense array [N, ...], got a sparse one. Make it dense "
            "(tf.sparse.to_dense(...) or .toarray()), or pass the ids of its entries, padded to "
            "one length, to an Embedding."
        )


def numeric_array(value, name):
    """Returns `value` as an array of shape [N, ...] whose entries are booleans or numbers.

    Raises ValueError if it is ragged, a scalar, has rows without numbers, or holds NaN or
    infinity; TypeError if it holds anything but booleans, integers and floats.
    """
    _refuse_all_but_dense(value, name)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"Expected {name} to be an array of shape [N, ...], got rows of "
            f"unequal shapes ({error}). Pad them to one shape. Several inputs go in a tuple or a "
            "dict, not in a list."
        ) from None
    if array.dtype.kind in "USO" and name.startswith("y"):
        raise TypeError(
            f"Expected labels as numbers in {name}, got dtype {array.dtype}. Map the class names "
            "to 0, 1, ..., by a list of names that is fixed beforehand."
        )
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"Expected {name} to hold booleans, integers or floats, got dtype {array.dtype}. "
            "Convert texts to ids with `hash_tokens`, other types with `astype(np.float32)`."
        )
    if array.ndim == 0:
        raise ValueError(
            f"Expected {name} to be an array of shape [N, ...], got the scalar "
            f"{value!r}. A tuple is read as several arrays; for one array, "
            f"pass a list or `np.array(...)`."
        )
    require_finite(array, name)
    return array


def require_finite(array, name):
    """Raises ValueError if a float array of shape [N, ...] holds NaN or infinity."""
    if array.dtype.kind != "f":
        return
    bad_values, bad_rows = 0, []
    for start in range(0, len(array), _ROWS_AT_A_TIME):
        good = np.isfinite(array[start : start + _ROWS_AT_A_TIME])
        if not good.all():
            bad_values += int(good.size - np.count_nonzero(good))
            rows = np.flatnonzero(~good.reshape(len(good), -1).all(axis=1))
            bad_rows.extend((rows[:5] + start).tolist())
    if bad_values:
        raise ValueError(
            f"Expected finite values in {name}, got {bad_values} NaN or infinite "
            f"value(s), first in row(s) {bad_rows[:5]}. Remove or repair those rows."
        )


def common_length(lengths):
    """Returns the one N of `lengths`, pairs (name, length).

    Raises ValueError if the lengths differ, or there is no array or no row.
    """
    if not lengths:
        raise ValueError(
            "x holds no array. Pass an array of shape [N, ...], or a dict or tuple of such arrays."
        )
    if len({length for _, length in lengths}) > 1:
        listed = ", ".join(f"{name} has {length}" for name, length in lengths)
        raise ValueError(
            f"Expected arrays with the same number of rows, got: {listed}. "
            f"Several inputs go in a tuple or a dict, not in a list."
        )
    if lengths[0][1] < 1:
        raise ValueError(f"Expected at least 1 example, got {lengths[0][0]} with 0 rows.")
    return lengths[0][1]


def row_bytes(array, dtype):
    """Yields each row of `array` [N, ...], converted to `dtype`, as bytes.

    Rows of equal numbers, or of equal texts, give equal bytes. Raises TypeError for anything else.
    """
    if dtype.kind in "OSU":
        yield from (b"".join(map(_text_bytes, row.flat)) for row in array.reshape(len(array), -1))
        return
    if dtype.kind not in "biuf":
        raise TypeError(f"Expected rows of booleans, numbers or texts, got dtype {dtype}.")
    for start in range(0, len(array), _ROWS_AT_A_TIME):
        rows = np.ascontiguousarray(array[start : start + _ROWS_AT_A_TIME], dtype=dtype)
        if dtype.kind == "f":
            rows = rows + dtype.type(0)  # -0.0 and 0.0 are equal numbers with unequal bytes.
        for row in rows:
            yield row.tobytes()


def _text_bytes(text):
    if not isinstance(text, (str, bytes)):
        raise TypeError(f"Expected texts to compare with texts, got a {type(text).__name__}.")
    encoded = text.encode() if isinstance(text, str) else bytes(text)
    return len(encoded).to_bytes(8, "little") + encoded


def joint_digests(leaves, dtypes):
    """Yields a digest of each row of several arrays [N, ...] together, as `bytes`.

    Each array is first converted to its dtype of `dtypes`, see `row_bytes`.
    """
    parts = [row_bytes(leaf, dtype) for leaf, dtype in zip(leaves, dtypes, strict=True)]
    for row in zip(*parts, strict=True):
        yield hashlib.blake2b(b"".join(row), digest_size=16).digest()


def shared_rows(ours, theirs):
    """Numbers of the rows of `ours` that are rows of `theirs`, ascending.

    `ours` is a list of arrays [M, ...], whose values at one position together are a row. `theirs`
    are `InputArrays` or `UnreadInputs`, with as many arrays, of the same shapes.
    """
    dtypes = compared_as(ours, theirs.leaves)
    known = list(joint_digests(ours, dtypes))
    found = theirs.found(set(known), dtypes)
    return [row for row, digest in enumerate(known) if digest in found]


def compared_as(ours, theirs):
    """The dtypes in which two lists of arrays, or of objects with a dtype, are compared: a list.

    Of two floats the narrower one, so that a copy kept in higher precision is recognised.
    """
    return [
        min(a.dtype, b.dtype, key=lambda d: d.itemsize)
        if a.dtype.kind == b.dtype.kind == "f"
        else np.result_type(a.dtype, b.dtype)
        for a, b in zip(ours, theirs, strict=True)
    ]
