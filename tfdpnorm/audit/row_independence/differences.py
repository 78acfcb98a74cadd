"""What two runs of a function differ in, reported to its `Mode` as findings."""

import numpy as np

from tfdpnorm.audit.row_independence.compare import difference, moved, moved_together, of_rows

_ALONE = "rows that do not depend on one another"
_ANY_SIZE = "rows that do not depend on how many there are"
_NO_STATE = (
    "variables that rows do not change: they are released without noise, or affect later lots"
)
_OTHERS = "when only other rows of the batch change"
_COUNTED = "when other rows count in the loss, too"
_SIZE = "in a batch of another size"

# Sums over hundreds of thousands of terms, as of public rows' positions, lose four digits of seven.
# What is not linear in the loss shows as a difference of its own size.
_MOST_ROUNDING = 0.01
# Where rounding switches a ReLU, gradients jump. What depends on the number of rows changes by
# about as much as that does.
_MOST_SWITCHING = 0.1
# A gradient by an input is rounding alone if it is below the last digit of those by variables, and
# if it becomes another one, by about its own size, with any change of last digits of the inputs.
_LAST_DIGIT = 2.0**-23
_ANOTHER = 0.5


def of_other_rows(mode, before, after, mask, first=None):
    """Finds what moves when only other rows change.

    Args:
        mode: `Mode`.
        before: `Run`.
        after: `Run` in which the rows of `mask` are the same.
        mask: Boolean [n].
        first: `Run` whose state is compared; None for `before`.

    Returns:
        List of arguments for `Mode.find`.
    """
    found, wobble, limit = [], mode.wobble, mode.same_shape
    sizes = [
        moved(of_rows(mask, a), of_rows(mask, b), w)
        for a, b, w in zip(before.values, after.values, wobble.values, strict=True)
    ]
    if max(sizes, default=0) > limit:
        found += of_values(mode, sizes)
    # Not finite: 0 times infinity, of rows whose own gradient training would discard.
    sizes = [
        moved(a, b, w)
        for a, b, w in zip(
            before.by_variables, after.by_variables, wobble.by_variables, strict=True
        )
        if np.isfinite(a).all() and np.isfinite(b).all()
    ]
    sizes += [
        moved(a[mask], b[mask], w)
        for a, b, w in zip(before.by_inputs, after.by_inputs, wobble.by_inputs, strict=True)
    ]
    if max(sizes, default=0) > limit:
        found.append(_of_gradients(mode, sizes, _OTHERS))
    states = zip((first or before).state, after.state, wobble.state, strict=True)
    for index, (a, b, w) in enumerate(states):
        if moved(a, b, w) > limit:
            name = mode.traced.state.name(index) or "without a name"
            got = f"a call that leaves the variable {name!r} different for other rows"
            found.append(("state", _NO_STATE, got, name))
    return found


def of_rows_that_do_not_count(mode, run, counted):
    """Finds derivatives by the inputs of rows that do not count.

    Args:
        mode: `Mode`.
        run: `Run` in which the rows of `counted` count.
        counted: Boolean [n].

    Returns:
        List of arguments for `Mode.find`.
    """
    found = []
    for gradient in run.by_inputs:
        ours, theirs = (gradient[rows].astype(np.float64) for rows in (counted, ~counted))
        # Exactly 0, since they enter no sum; NaN is 0 times an infinity of their own.
        size = np.max(np.abs(theirs), where=np.isfinite(theirs), initial=0.0)
        if size > 0:
            scale = np.max(np.abs(ours), where=np.isfinite(ours), initial=0.0)
            size = f"{size / scale:.1g} times" if scale else "more than"
            got = f"{mode.gives} whose derivative by the inputs of other rows is {size} that by"
            found.append(("gradient", _ALONE, f"{got} their own"))
    return found


def of_values(mode, sizes):
    """Findings for outputs that change by so much when only other rows do."""
    return [("values", _ALONE, f"{mode.gives} that change {_by(sizes)} {_OTHERS}")]


def of_sums(mode, whole, parts, rounding=lambda: 0.0):
    """Finds gradients of some rows that change when others count, too: they do not add up.

    Args:
        mode: `Mode`.
        whole: `Run` in which all rows count.
        parts: Pairs of a `Run` on the same rows and a boolean [n]: which of them count. If more
            than one, each row counts in one of them.
        rounding: Function that returns how far rounding alone moves gradients by variables. It is
            asked of those that add up less well than to `other_shape`.

    Returns:
        List of arguments for `Mode.find`.
    """
    sizes = [
        moved(a[counted], b[counted], w)
        for part, counted in parts
        for a, b, w in zip(part.by_inputs, whole.by_inputs, mode.wobble.by_inputs, strict=True)
    ]
    if max(sizes, default=0) > mode.same_shape:
        return [_of_gradients(mode, sizes, _COUNTED)]
    if len(parts) < 2:
        return []
    change = scale = 0.0
    of_parts = zip(*(part.by_variables for part, _ in parts), strict=True)
    for total, terms in zip(whole.by_variables, of_parts, strict=True):
        if all(np.isfinite(g).all() for g in (total, *terms)):
            total, *terms = (g.astype(np.float64) for g in (total, *terms))
            change = max(change, difference(total, sum(terms)))
            scale = max(scale, *(np.max(np.abs(g), initial=0.0) for g in (total, *terms)))
    if change > mode.other_shape * scale and change > min(rounding(), _MOST_ROUNDING * scale):
        return [_of_gradients(mode, [change / scale], _COUNTED)]
    return []


def of_scales(run, others):
    """How far gradients by variables move, that are linear, when the loss is scaled and they back.

    Args:
        run: `Run`.
        others: Pairs of a `Run` whose loss is a multiple of that of `run`, and the factor.

    Returns:
        The largest absolute change of a number.
    """
    return max(
        difference(gradient, scaled.astype(np.float64) / factor)
        for other, factor in others
        for gradient, scaled in zip(run.by_variables, other.by_variables, strict=True)
    )


def of_sizes(mode, one, other, switching):
    """Finds what depends on the number of rows.

    Args:
        mode: `Mode`.
        one: Pair of a `Run` and a boolean [n]: the rows that count, as many in both.
        other: The same for another number of rows.
        switching: Function that returns how far rounding may move gradients where it switches a
            ReLU, relative to their size, and a list like `moved_gradients` of how far it moves each
            at least. It is asked of gradients that move by more than sums do.

    Returns:
        List of arguments for `Mode.find`.
    """
    (before, mask), (after, rows) = one, other

    def sizes(before, after):
        return _moved_rows(before, mask, after, rows)

    found, of_values, limit = [], sizes(before.values, after.values), mode.other_shape
    if max(of_values, default=0) > mode.other_shape:
        found.append(("removal", _ANY_SIZE, f"{mode.gives} that change {_by(of_values)} {_SIZE}"))
    of_gradients = moved_gradients(before, mask, after, rows)
    if max(of_gradients) > mode.other_shape:
        limit, moves = switching()
        telling = ~_is_rounding(before, mask, after, rows, moves)
        of_gradients = [size for size, tells in zip(of_gradients, telling, strict=True) if tells]
        limit = max(mode.other_shape, min(limit, _MOST_SWITCHING))
    if max(of_gradients) > limit:
        got = f"gradients of {mode.gives} that change {_by(of_gradients)} {_SIZE}"
        found.append(("removal", _ANY_SIZE, got))
    return found


def _is_rounding(before, mask, after, rows, moves):
    """Which entries of `moved_gradients` are of gradients that are 0 but for rounding, [entries].

    So it is where a constant is normalised: a channel by its own moments, and then averaged over.
    """
    floor = _LAST_DIGIT * max(map(_largest, before.by_variables), default=0.0)
    pairs = zip(before.by_inputs, after.by_inputs, moves, strict=False)
    found = [
        move >= _ANOTHER
        and _largest(of_rows(mask, a)) <= floor
        and _largest(of_rows(rows, b)) <= floor
        for a, b, move in pairs
    ]
    return np.array([*found, False])  # never that by all variables


def _largest(gradient):
    """The largest absolute value; NaN and infinity count as that."""
    with np.errstate(invalid="ignore"):
        return float(np.max(np.abs(gradient), initial=0.0))


def moved_gradients(before, mask, after, rows):
    """How far gradients move: by each input for the rows that count, and by all variables together.

    Args:
        before: `Run`.
        mask: Boolean [n]: its rows that count.
        after: `Run`.
        rows: Boolean [m], the same rows in it.

    Returns:
        List of relative changes.
    """
    by_inputs = _moved_rows(before.by_inputs, mask, after.by_inputs, rows)
    return [*by_inputs, moved_together(before.by_variables, after.by_variables)]


def _moved_rows(before, mask, after, rows):
    pairs = zip(before, after, strict=True)
    return [moved(of_rows(mask, a), of_rows(rows, b)) for a, b in pairs]


def _of_gradients(mode, sizes, when):
    return "gradient", _ALONE, f"gradients of {mode.gives} that change {_by(sizes)} {when}"


def _by(sizes):
    return f"by {max(sizes):.1g} of their size"
