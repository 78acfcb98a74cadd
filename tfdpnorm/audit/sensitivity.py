"""How much one example changes the sum of clipped gradients, measured.

Epsilon rests on a promise: adding or removing one example changes the sum by at most C, replacing
it by at most 2 C. This searches for rows that break it. Finding none proves nothing; one is proof.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfdpnorm.audit.neighbours import Frame, Row, frames, unusual_rows
from tfdpnorm.keras_compat.variables import trainable_variables

_ASCENT_STEP = 0.1
_FARTHEST = 3


class Sensitivity(NamedTuple):
    """The largest changes found, in units of the clipping norm C.

    Attributes:
        add_or_remove_one: Change of the clipped sum by a row that is added or removed; promised: 1.
        add_or_remove_one_case: By which row, in which batch.
        replace: Change by a row in another's place; promised: 2.
        replace_case: By which rows.
        tolerance: How far rounding to float32 alone can bring either above the promise.
        lots: How many batches were summed.
        frame: The `Frame` of the batch with the largest `add_or_remove_one`.
        row: Its `Row`.
    """

    add_or_remove_one: float
    add_or_remove_one_case: str
    replace: float
    replace_case: str
    tolerance: float
    lots: int
    frame: Frame
    row: Row
    sums: "ClippedSums"

    @property
    def holds(self):
        """Whether no change is above what is promised, up to rounding."""
        return self.add_or_remove_one <= 1 + self.tolerance and self.replace <= 2 + self.tolerance


class ClippedSums:
    """A private model's clipped sums as vectors, with the same random numbers every time.

    Layers keep the state of their generators in variables, which this resets before every sum.
    Older random ops keep it inside of their kernels. It restarts when the global seed is set, which
    this does if the variables are not enough. It then sums physical batches one by one, since
    TensorFlow's loop over them may draw the numbers of two iterations in either order.

    The compiled `tfdpnorm.PrivateModel` is not trained. `seed` is the global one of TensorFlow, set
    here: without one, random ops could not be repeated. The model's noise does not depend on it.
    """

    def __init__(self, private, seed=0):
        self.private = private
        self.count = 0
        self._seed = seed
        self._sum = tf.function(lambda lot: _vector(private.clipped_sum(lot)))
        self._states = None
        self._reseeds = False

    def __call__(self, lot):
        """Returns the sum over a `Lot`, float32 [coordinates].

        Raises ValueError if two sums over the same batch differ.
        """
        if self._states is None:
            self._prepare(lot)
        self.count += 1
        return self._repeated(lot)

    def _prepare(self, lot):
        tf.random.set_seed(self._seed)
        traced = self._sum.get_concrete_function(lot)
        trained = {v.ref() for v in trainable_variables(self.private.model)}
        self._states = [(v, tf.identity(v)) for v in traced.variables if v.ref() not in trained]
        for self._reseeds in (False, True):
            first, second = self._repeated(lot), self._repeated(lot)
            if np.array_equal(first, second, equal_nan=True):
                return
            apart = _distance(first, second)
            allowed = rounding(tf.size(lot.mask).numpy()) * self.private.plan.l2_norm_clip
            if apart <= allowed:
                return
        raise ValueError(
            f"The clipped sum cannot be repeated: two over the same batch are {apart:.3g} apart. "
            "Draw random numbers only with TensorFlow's ops or Keras layers."
        )

    def _repeated(self, lot):
        for variable, value in self._states:
            variable.assign(value)
        if not self._reseeds:
            return self._sum(lot).numpy()
        total = 0
        for k in range(lot.mask.shape[0]):
            one = tf.nest.map_structure(lambda t, k=k: t[k : k + 1], lot)
            tf.random.set_seed(self._seed)
            total = total + self._sum(one).numpy()
        return total


def rounding(rows):
    """How far rounding alone can bring the change of a sum above the promise, in units of C.

    Each of two float32 sums of `rows` vectors, none longer than C, is off by at most half a unit in
    the last place, 2^-24, of each of its partial sums.
    """
    return max(rows, 8) * 2.0**-22


def measure_sensitivity(private, x, y, *, ascent_steps=0, seed=0):
    """Searches for the row that changes a private model's clipped sum most.

    The open place is at the beginning, middle and end of the batch and among equal rows. The search
    puts there typical rows, outliers, extreme labels (see `unusual_rows`), and, for inputs that are
    floats, what gradient ascent on the change finds within the range of the given rows and beyond.

    Args:
        private: A compiled `tfdpnorm.PrivateModel`. It is not trained.
        x: Structure of arrays [n, ...], the rows of a batch; n >= 2. For a plan of persons, [n, R,
            ...] with R = `most_per_person`: the rows of n persons.
        y: Their targets, a structure of arrays [n, ...], or [n, R, ...].
        ascent_steps: Steps of gradient ascent from each start; 0 for none.
        seed: Seeds the choice of rows and the model's own random numbers (see `ClippedSums`).
    """
    x, y = (tf.nest.map_structure(np.asarray, structure) for structure in (x, y))
    sums = ClippedSums(private, seed)
    first, *others = frames(x, y, private.plan.drawn_per_person)
    found = _Changes(sums, private.physical_batch_size, private.plan.l2_norm_clip)
    for row in unusual_rows(x, y, np.random.default_rng(seed)):
        found.add(first, row)
    if ascent_steps:
        for row in _ascended(found, first, ascent_steps):
            found.add(first, row)
    farthest = found.farthest_rows()
    replace, replace_case = found.largest_replacement()
    for frame in others:
        found.vectors.clear()
        beside = tf.nest.map_structure(lambda t, at=frame.place - 1: t[at], (frame.x, frame.y))
        for row in (*farthest, Row("one of them", *beside)):
            found.add(frame, row)
        replace, replace_case = max((replace, replace_case), found.largest_replacement())
    change, frame, row = found.largest
    return Sensitivity(
        add_or_remove_one=change,
        add_or_remove_one_case=f"{row.name}; {frame.name}",
        replace=replace,
        replace_case=replace_case,
        tolerance=rounding(len(tf.nest.flatten(y)[0])),
        lots=sums.count,
        frame=frame,
        row=row,
        sums=sums,
    )


class _Changes:
    """Changes of the sum, in C, by rows in the open place of one frame after another."""

    def __init__(self, sums, rows_per_batch, clip):
        self.sums = sums
        self.vectors = []
        self.largest = (-1.0, None, None)
        self._rows_per_batch = rows_per_batch
        self._clip = clip
        self._frame = self.without = None

    def lot(self, frame, row=None):
        return frame.lot(row, self._rows_per_batch)

    def add(self, frame, row):
        if frame is not self._frame:
            self._frame, self.without = frame, self.sums(self.lot(frame))
        vector = self.sums(self.lot(frame, row))
        change = _distance(vector, self.without) / self._clip
        self.vectors.append((change, row, vector))
        if change > self.largest[0]:
            self.largest = (change, frame, row)

    def farthest_rows(self):
        ordered = sorted(self.vectors, key=lambda entry: -entry[0])
        return [row for _, row, _ in ordered[:_FARTHEST]]

    def largest_replacement(self):
        """(change in C, case) of the two rows whose sums lie farthest apart."""
        for change, row, _ in self.vectors:
            if change == np.inf:
                return np.inf, f"{row.name}; {self._frame.name}"
        changes = np.stack([vector - self.without for _, _, vector in self.vectors])
        products = changes @ changes.T
        squares = np.diag(products)
        apart = squares[:, None] + squares - 2 * products
        i, j = np.unravel_index(apart.argmax(), apart.shape)
        (_, one, first), (_, other, second) = self.vectors[i], self.vectors[j]
        case = f"{one.name} / {other.name}; {self._frame.name}"
        return _distance(first, second) / self._clip, case


def _ascended(found, frame, steps):
    """Yields rows that gradient ascent on the change of the sum finds, from the farthest so far.

    It differentiates the engine itself, through its gradients and clipping.
    """
    leaves = tf.nest.flatten(frame.x)
    movable = [i for i, leaf in enumerate(leaves) if leaf.dtype.kind == "f"]
    if not movable:
        return
    private = found.sums.private
    place = np.unravel_index(frame.place, found.lot(frame).mask.shape)
    without = tf.constant(found.without)

    # Eagerly: TensorFlow cannot differentiate a loop that calls the traced physical batch.
    def climb(values, lot):
        with tf.GradientTape() as tape:
            tape.watch(values)
            x = tf.nest.flatten(lot.x)
            for i, value in zip(movable, values, strict=True):
                x[i] = tf.tensor_scatter_nd_update(x[i], [place], value[tf.newaxis])
            moved = lot._replace(x=tf.nest.pack_sequence_as(lot.x, x))
            change = tf.norm(_vector(private.clipped_sum(moved)) - without)
        return change, tape.gradient(change, values)

    lowest = [leaves[i].min() for i in movable]
    highest = [leaves[i].max() for i in movable]
    farthest = found.farthest_rows()[0]
    in_range = next(
        row
        for _, row, _ in sorted(found.vectors, key=lambda entry: -entry[0])
        if _is_within(row, movable, lowest, highest)
    )
    for name, start, bounded in (
        ("ascent within the data's range", in_range, True),
        ("ascent", farthest, False),
    ):
        lot = found.lot(frame, start)
        flat = tf.nest.flatten(start.x)
        values = [tf.constant(flat[i]) for i in movable]
        best = (-1.0, values)
        for step in range(steps + 1):
            change, gradients = climb(values, lot)
            best = max(best, (float(change), values), key=lambda pair: pair[0])
            if step == steps or not all(np.isfinite(g).all() for g in gradients):
                break
            values = [
                _stepped(v, g, low, high, bounded)
                for v, g, low, high in zip(values, gradients, lowest, highest, strict=True)
            ]
        flat = list(flat)
        for i, value in zip(movable, best[1], strict=True):
            flat[i] = value.numpy()
        yield Row(f"{name} from {start.name}", tf.nest.pack_sequence_as(start.x, flat), start.y)


def _stepped(value, gradient, lowest, highest, bounded):
    # By signs, so that the scale of the gradient does not matter.
    if bounded:
        step = _ASCENT_STEP * (highest - lowest)
        return tf.clip_by_value(value + step * tf.sign(gradient), lowest, highest)
    return value + _ASCENT_STEP * tf.reduce_max(tf.abs(value)) * tf.sign(gradient)


def _is_within(row, movable, lowest, highest):
    flat = tf.nest.flatten(row.x)
    return all(
        low <= flat[i].min() and flat[i].max() <= high
        for i, low, high in zip(movable, lowest, highest, strict=True)
    )


def _vector(gradients):
    return tf.concat([tf.reshape(tf.cast(g, tf.float32), [-1]) for g in gradients], 0)


def _distance(a, b):
    """Distance of two vectors; infinite unless all numbers are finite."""
    with np.errstate(invalid="ignore"):
        distance = np.linalg.norm(np.subtract(a, b, dtype=np.float64))
    return float(distance) if np.isfinite(distance) else np.inf
