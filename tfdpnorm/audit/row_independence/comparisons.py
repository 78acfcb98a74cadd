"""What a probe runs a function on, and which runs it compares."""

import functools

import numpy as np
import tensorflow as tf

from tfdpnorm.audit.row_independence import differences, unusual_rows
from tfdpnorm.audit.row_independence.compare import moved, of_rows
from tfdpnorm.audit.row_independence.mode import REPEATS, short, weights_of
from tfdpnorm.audit.row_independence.rows import chosen, splits

_TINY, _HUGE = 1e-8, 1e8
_STARTS = (99, 999, 1_000_000)
_SEEDS = 30
# The loss times one of these is rounded otherwise everywhere, and times two nowhere: what doubling
# moves is not linear in the loss. By factors near 1, sums of many equal numbers, such as those over
# black pixels, would be rounded as before.
_FACTORS = (0.7, 1.3, 1.7)
_FAR, _NOT_LINEAR = 10, 0.01
_LAST_DIGITS = 2.0**-20  # of float32 numbers that many layers have rounded

# The larger batch: as many rows, unless another number is asked for; and as many floats at most in
# the tensors of one run, if that leaves enough rows.
_MANY = 32
_FLOATS = 2**27
_ENOUGH = 10


def compare_splits(mode):
    """Replaces the rows of one group, for some splits that separate each pair of rows.

    The gradients of the two groups have to add up to that of all rows, too.
    """
    base, everyone, parts = mode.rows.base, weights_of(mode.rows.count), []
    whole = _Repeatable(mode, base, everyone, run=mode.first)
    for mask in splits(mode.rows.count):
        before = _Repeatable(mode, base, everyone * mask) if mode.has_gradients else whole
        parts.append((before, mask))
        _report(mode, differences.of_rows_that_do_not_count(mode, before.run, mask), before)
        for rows in (mode.rows.other, mode.rows.outlier):
            _compare_rows(mode, before, chosen(mask, base, rows), mask, mode.first)
    if mode.has_gradients:
        for one, other in zip(parts[::2], parts[1::2], strict=True):
            _compare_sum(mode, whole, [one, other], quietly=False)


def compare_unusual_rows(mode):
    """Replaces rows by empty ones where others are cut short, and by others that are not finite."""
    mask, rows = next(splits(mode.rows.count)), mode.rows
    pairs = (
        (unusual_rows.cut_short(rows.base), unusual_rows.empty(rows.other)),
        (unusual_rows.far_and_missing(rows.base, 3), unusual_rows.far_and_missing(rows.other)),
    )
    for ours, theirs in pairs:
        try:
            before = _Repeatable(
                mode, chosen(mask, ours, rows.other), weights_of(rows.count) * mask
            )
        except Exception:  # whatever code of the user's raises: such a row trains nothing
            continue
        _compare_rows(mode, before, chosen(mask, ours, theirs), mask, mode.first, quietly=True)


def compare_scales(mode):
    """Makes the derivatives that come from the loss tiny, and huge for some rows or for all."""
    base, mask = mode.rows.base, next(splits(mode.rows.count))
    weights = weights_of(mode.rows.count)
    if _shown_by_inputs(mode):
        # Infinite ones are beyond whatever limit of a size there is.
        wholes, groups = ((_TINY * weights, _TINY), (np.where(mask, weights, np.inf), 1.0)), (mask,)
    else:
        wholes, groups = ((scale * weights, scale) for scale in (_TINY, _HUGE)), (mask, ~mask)
    for whole, scale in wholes:
        parts = [(_Repeatable(mode, base, scale * weights * group), group) for group in groups]
        _compare_sum(mode, _Repeatable(mode, base, whole), parts)


def compare_sizes(mode, count=None, across=True):
    """Runs a larger batch, in which it replaces rows, and of which some have to be as in a small.

    Args:
        mode: `Mode`.
        count: Number of rows that training runs at once; None if that is not known.
        across: Whether to compare rows in batches of two sizes.
    """
    n = mode.rows.count
    count = min(count or _MANY, max(_ENOUGH, _FLOATS // max(1, mode.traced.elements_of_a_row)))
    count = 2 * n if count == n else count
    rows = unusual_rows.batch_of(mode.rows, count)
    mask = np.resize(next(splits(n)), min(n, count))
    counted = np.resize(mask, count) & (np.arange(count) < n)
    weights = np.resize(weights_of(n), count)
    mode.restore()
    try:
        traced = mode.trace(rows)
        before = _Repeatable(mode, rows, weights * counted, traced)
    except Exception as error:
        mode.skip(f"a batch of another size could not be run: {short(error)}")
        return
    try:
        found = differences.of_rows_that_do_not_count(mode, before.run, counted)
        _report(mode, found, before, quietly=True)
        if across:
            few = np.arange(n) < len(mask)
            few[few] = mask
            one = mode.run(mode.rows.base, weights_of(n) * few)
            switching = functools.partial(_moved_by_last_digits, mode, one, few)
            found = differences.of_sizes(mode, (one, few), (before.run, counted), switching)
            _report(mode, found)
        if mode.has_gradients:
            parts = [(before, counted)]
            if not _shown_by_inputs(mode):
                parts.append((_Repeatable(mode, rows, weights * ~counted, traced), ~counted))
            _compare_sum(mode, _Repeatable(mode, rows, weights, traced), parts)
        for kept, changed in _mixtures(rows, counted):
            _compare_rows(mode, before, changed, kept, quietly=True)
    finally:
        traced.state.restore()


def compare_random_numbers(mode):
    """Runs the function with some thirty seeds, before and after rows are replaced.

    The iterations of a loop draw from a stream in an order that may change: what differs has to
    differ again, and to the same numbers. Where nothing repeats itself, nothing is said.
    """
    mask, base = next(splits(mode.rows.count)), mode.rows.base
    changed = chosen(mask, base, mode.rows.other)

    def outputs(rows):
        return [
            [of_rows(mask, value) for value in values]
            for values in mode.traced.values_in_turn(rows, _SEEDS)
        ]

    first = outputs(base), outputs(changed)
    size = _moved_in_turn(*first)
    if size <= mode.same_shape:
        return
    for _ in range(REPEATS):
        again = outputs(base), outputs(changed)
        if max(map(_moved_in_turn, first, again)) > mode.same_shape:
            return
    _report(mode, differences.of_values(mode, [size]))


def compare_counters(mode):
    """Lets the variables that count calls begin with larger numbers."""
    mask, base = next(splits(mode.rows.count)), mode.rows.base
    counters = mode.traced.state.counters(mode.first.state)
    if not counters:
        return
    changed, weights = chosen(mask, base, mode.rows.other), weights_of(mode.rows.count) * mask
    for start in _STARTS:
        before = _Repeatable(mode, base, weights, counters=(counters, start))
        _compare_rows(mode, before, changed, mask, quietly=True)


class _Repeatable:
    """A `Run`, and how to make it again."""

    def __init__(self, mode, rows, weights, traced=None, counters=None, run=None):
        self._mode, self._rows, self._settings = mode, rows, (weights, traced, counters)
        self.run = self.again() if run is None else run

    def again(self):
        return self._mode.run(self._rows, *self._settings)

    def on(self, rows):
        """The same on other rows."""
        return _Repeatable(self._mode, rows, *self._settings)

    def scaled(self, factor):
        """A `Run` in which all rows count `factor` times as much."""
        weights, *others = self._settings
        return self._mode.run(self._rows, factor * weights, *others)


def _compare_rows(mode, before, rows, mask, first=None, quietly=False):
    """Reports what moves when rows are replaced by those of `rows`, all but those of `mask`.

    Args:
        mode: `Mode`.
        before: `_Repeatable`.
        rows: Structure of arrays [n, ...].
        mask: Boolean [n].
        first: `Run` whose state is compared; None for that of `before`.
        quietly: Whether to say nothing of rows that cannot be run, and of runs that do not repeat
            themselves: that was said of less unusual ones, if it holds of these.
    """
    try:
        after = before.on(rows)
    except Exception as error:
        if not quietly:
            mode.skip(f"unusual rows could not be run: {short(error)}")
        return
    found = differences.of_other_rows(mode, before.run, after.run, mask, first)
    _report(mode, found, before, after, quietly=quietly)


def _moved_by_last_digits(mode, run, mask):
    """How far gradients may move, relatively, by what changes last digits, and how far each does.

    The first is a few times as far as they move if the last digits of the inputs change. The second
    is a list like that of `moved_gradients`: the least that any such change moves it.

    Args:
        mode: `Mode`.
        run: `Run` on the ordinary rows.
        mask: Boolean [n]: which of them count in it.
    """
    rng = np.random.default_rng(3)

    def nudged(x):
        if x.dtype.kind != "f":
            return x
        return (x * (1 + _LAST_DIGITS * rng.choice([-1, 1], x.shape))).astype(x.dtype)

    weights, moves = weights_of(mode.rows.count) * mask, []
    for _ in range(REPEATS):
        rows = tf.nest.map_structure(nudged, mode.rows.base)
        moves.append(differences.moved_gradients(run, mask, mode.run(rows, weights), mask))
    return _FAR * np.max(moves), np.min(moves, axis=0)


def _compare_sum(mode, whole, parts, quietly=True):
    """Reports gradients of parts of the rows that do not add up to that of the whole."""

    def moves(*factors):
        return differences.of_scales(whole.run, [(whole.scaled(f), f) for f in factors])

    def rounding():
        moved_by_rounding = moves(*_FACTORS)
        is_linear = moves(2.0) <= _NOT_LINEAR * moved_by_rounding
        return _FAR * moved_by_rounding if is_linear else 0.0

    runs = [(part.run, group) for part, group in parts]
    found = differences.of_sums(mode, whole.run, runs, rounding)
    _report(mode, found, whole, *(part for part, _ in parts), quietly=quietly)


def _report(mode, found, *compared, quietly=False):
    """Reports findings, unless the runs that were compared do not repeat themselves."""
    if found and mode.is_repeated_by(
        *((each.run, each.again) for each in compared), note=not quietly
    ):
        for finding in found:
            mode.find(*finding)


def _shown_by_inputs(mode):
    """Whether gradients by inputs show each row's own, and not only the sum of all."""
    return any(np.any(np.where(np.isfinite(g), g, 0)) for g in mode.first.by_inputs)


def _mixtures(rows, counted):
    """Yields pairs (mask, rows that are as in `rows` there); the rows of `counted` always are.

    First, half of the rows become in turn copies of ids, huge, empty, and copies. Then all but the
    last quarter become copies of the last: whoever fills places in the order of rows has none left
    for it.
    """
    numbers = np.arange(len(counted))
    changed = np.random.default_rng(2).permutation(numbers[~counted])[: len(counted) // 2]
    if len(changed):
        kept, mixture = ~np.isin(numbers, changed), rows
        kinds = (
            unusual_rows.copies(kept, rows, ids_only=True),
            unusual_rows.huge(rows),
            unusual_rows.empty(rows),
            unusual_rows.copies(kept, rows),
        )
        for number, kind in enumerate(kinds):
            mixture = chosen(~np.isin(numbers, changed[number::4]), mixture, kind)
        yield kept, mixture
    kept = counted | (numbers >= 3 * len(counted) // 4)
    if not kept.all():
        yield kept, chosen(kept, rows, unusual_rows.copies(numbers == numbers[-1], rows))


def _moved_in_turn(before, after):
    """The largest change between two lists of lists of arrays."""
    pairs = zip(before, after, strict=True)
    return max(moved(a, b) for pair in pairs for a, b in zip(*pair, strict=True))
