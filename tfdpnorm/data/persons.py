"""The persons of private rows, and the rows that represent a person in an update."""

import re
import warnings

import numpy as np
import tensorflow as tf

from tfdpnorm import arguments
from tfdpnorm.errors import PrivacyError, PrivacyWarning, level_of_caller

# What R, pandas, SPSS, databases and people write for a missing id: letters and digits alone, in
# small letters, so that "N/A", "<NA>" and "#N/A" are "na", and "?", "-" and "." are empty.
_MISSING = frozenset(
    "|na|nan|nat|nil|none|null|missing|unknown|undefined|nodata|notavailable|notapplicable|1ind"
    "|1qnan".split("|")
)
# Not r"\W", which is also what names of files have that are not in the encoding of the system.
_PUNCTUATION = re.compile(r"[\s!-/:-@\[-`{-~]")
_MISSING_AS_WRITTEN = ("\\n", "#n/a n/a")  # in small letters
# -1, -9, -99, ..., and what NaN, R's NA, and -1 become in an integer of 64 or 32 bits.
_MISSING_NUMBERS = frozenset(
    [-1, *(1 - 10**n for n in range(1, 19)), -(2**63), -(2**31), 2**64 - 1, 2**32 - 1]
)
_AS_TEXTS = frozenset(map(str, _MISSING_NUMBERS))
_FAR_MORE = 10  # times


class Persons:
    """The rows of each person.

    Raises TypeError or ValueError for anything but a vector of integers or texts, and for values
    that stand for a missing id, as texts or integers, such as "", "NA", "unknown", "?", -1, -999
    and the largest uint64.

    Args:
        person: Array [M] of integers or texts: whose each row is. Any values; only which are equal
            matters.
        most_per_person: k >= 1: the most rows of a person that an update reads.

    Attributes:
        count: N, the number of persons.
        rows: M.
        most: k.
        index: Pair of int64 tensors on the host: [N + 1], where each person's rows begin in the
            second, which holds the numbers of the rows, [M].

    Warns:
        PrivacyWarning: if a person has far more rows than `most_per_person` and than most others.
            This is not private: it is for the data holder.
    """

    def __init__(self, person, most_per_person):
        self.most = arguments.integer("most_per_person", most_per_person, at_least=1)
        person = np.asarray(person)
        _reject_missing(sum(map(_is_none, person.flat)) if person.dtype == object else 0)
        of_texts = person.dtype == object and all(isinstance(v, (str, bytes)) for v in person.flat)
        if person.ndim != 1 or not (person.dtype.kind in "iuUS" or of_texts):
            raise TypeError(
                "Expected person to be a vector of integers or texts, one for each row, got "
                f"{person.dtype} of shape {list(person.shape)}. Two rows belong to one person if "
                "their values are equal: NaN is equal to nothing."
            )
        if not len(person):
            raise ValueError("person is empty. Give one value for each row.")
        values, owner, counts = np.unique(
            person.astype(str) if of_texts else person, return_inverse=True, return_counts=True
        )
        # Values that stand for a missing id: their rows would count as one person's.
        if values.dtype.kind in "US":
            texts = np.char.decode(values, "latin-1") if values.dtype.kind == "S" else values
            is_missing = [_means_missing(text) for text in texts.tolist()]
        else:
            info, missing = np.iinfo(values.dtype), _MISSING_NUMBERS
            if values.dtype.itemsize > 1:  # 255 may be the id of one of 256 persons
                missing = missing | {info.min or info.max}
            is_missing = [value in missing for value in values.tolist()]
        _reject_missing(counts[is_missing].sum())
        if counts.max() > _FAR_MORE * max(self.most, np.median(counts)):
            warnings.warn(
                f"An id in person has more than {_FAR_MORE} times as many rows as most_per_person "
                "and as the median id. If it stands for several persons, such as all whose id is "
                "missing, they are protected as one person only. Check the ids, and leave such "
                "rows out. This message is for the data holder: it depends on private rows.",
                PrivacyWarning,
                stacklevel=level_of_caller(),
            )
        self.count, self.rows = len(counts), len(person)
        starts = np.concatenate([[0], np.cumsum(counts)])
        with tf.device("/cpu:0"):
            self.index = (
                tf.constant(starts, tf.int64),
                tf.constant(np.argsort(owner, kind="stable"), tf.int64),
            )

    def have_rows_of(self, other):
        """Whether `other`, a `Persons`, divides the rows among persons in the same way."""
        return np.array_equal(self._first_rows(), other._first_rows())

    def _first_rows(self):
        """The first row of the person of each row, [M]: names of persons do not matter."""
        starts, rows = (np.asarray(part) for part in self.index)
        first = np.empty(self.rows, np.int64)
        first[rows] = np.repeat(rows[starts[:-1]], np.diff(starts))
        return first


def _means_missing(text):
    """Whether a text is a usual word for a missing value, or one of the numbers for it."""
    text = text.strip().lower()
    if text in _MISSING_AS_WRITTEN or text.removesuffix(".0") in _AS_TEXTS:
        return True
    return _PUNCTUATION.sub("", text) in _MISSING


def _is_none(value):
    """Whether a value is None, NaN, or what pandas has for a missing one."""
    is_nan = isinstance(value, float) and value != value
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def _reject_missing(count):
    if not count:
        return
    raise ValueError(
        f"Expected an id for each row in person, got {count} rows whose id is missing (blank, no "
        'letters and digits, None, NaN, a word such as "NA", "null" or "unknown", a number such as '
        "-1, -9 or -999, or the limit of an integer type): all of them would count as one person. "
        "Leave these rows out; or, only if they are known to be of different persons, give each an "
        "id of its own. A person whose id only looks like that needs another one. This message is "
        "for the data holder: it depends on private rows."
    )


def rows_of_persons(drawn, starts, order, most, bits):
    """Draws the rows that stand for each drawn person: all of them, or `most` = k at random.

    Of a person with more rows each subset of k is equally likely, to within 2^-53 (Floyd's
    algorithm). It depends on no one else's rows. Epsilon holds for any choice: a person's gradient
    is clipped once, whatever it is the mean of.

    Args:
        drawn: Numbers of the persons, int64 [n].
        starts, order: The pair `Persons.index`.
        bits: Function from a count to that many uniform uint64 words.

    Returns:
        The numbers of the rows, int64 [n, k]; of a person with fewer rows, these, then M.
    """
    first = starts[drawn]
    have = starts[drawn + 1] - first
    chosen = np.tile(np.arange(most), (len(drawn), 1))
    many = np.flatnonzero(have > most)
    if len(many):
        uniform = (bits(len(many) * most) >> np.uint64(11)) * 2.0**-53
        subsets = np.full((len(many), most), -1)  # of range(have)
        for at, u in enumerate(uniform.reshape(most, -1)):
            last = have[many] - most + at
            pick = np.minimum((u * (last + 1)).astype(np.int64), last)
            is_taken = (subsets == pick[:, np.newaxis]).any(axis=1)
            subsets[:, at] = np.where(is_taken, last, pick)
        chosen[many] = subsets
    is_there = chosen < have[:, np.newaxis]
    return np.where(is_there, order[first[:, np.newaxis] + chosen * is_there], len(order))


def lot_of_persons(examples, rows):
    """Returns the quadruple of a `tfdpnorm.data.Lot` of persons, from examples of M rows.

    `rows` are the numbers of each person's rows, then M, int64 [K, P, R].
    """
    _, slots, most = rows.shape
    is_there = rows < examples.count
    have = tf.reduce_sum(tf.cast(is_there, tf.int32), axis=2, keepdims=True)
    # What is missing repeats a row, with weight 0: what a model gives for zeros may be NaN.
    nearest = tf.minimum(tf.range(most), tf.maximum(have - 1, 0))

    def by_person(t):
        t = tf.reshape(t, tf.concat([[-1, slots, most], tf.shape(t)[2:]], 0))
        return tf.gather(t, nearest, axis=2, batch_dims=2)

    read = examples.lot(tf.reshape(rows, [-1, slots * most]))
    x, y, weight = tf.nest.map_structure(lambda t: None if t is None else by_person(t), read)
    share = tf.where(is_there, most / tf.maximum(have, 1), 0)
    share = tf.reshape(share, tf.concat([tf.shape(share), [1] * (weight.shape.rank - 3)], 0))
    mask = tf.cast(have[..., 0] > 0, tf.float32)
    return x, y, weight * tf.cast(share, tf.float32), mask


def check_rows_per_person(owners, most):
    """Checks that no person has more rows than a plan with unit "row" says.

    Args:
        owners: [N] whose each row is: integers or strings.
        most: The plan's `most_per_person`, >= 1.

    Raises:
        ValueError: if a person has more, and for owners of another form. The message tells neither
            who it is nor how many there are.
    """
    most = arguments.whole("most_per_person", most, at_least=1)
    try:
        known = np.asarray(owners)
    except ValueError:  # whose message may show them
        known = np.zeros(())
    if known.ndim != 1 or known.dtype.kind not in "iuSU" or known.size == 0:
        raise ValueError(
            "Owners must be integers or strings, one for each row. Number the persons from 0, "
            "and give each row without a known owner its own number."
        ) from None
    if np.unique(known, return_counts=True)[1].max() > most:
        raise PrivacyError(
            f"Expected at most most_per_person={most} rows of each person, got a person "
            "with more. Leave rows out by a rule that does not depend on them, or give a "
            "larger number."
        )
