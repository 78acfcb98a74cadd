"""Whether each row of a function's outputs depends on one row only, found by running it."""

from typing import NamedTuple

import numpy as np

from tfdpnorm.audit.row_independence.compare import difference, moved, moved_together, of_rows
from tfdpnorm.audit.row_independence.finding import Finding, Report
from tfdpnorm.audit.row_independence.rows import chosen, kept, splits
from tfdpnorm.audit.row_independence.traced import RowsMissing, Traced

# With the rows of one group unchanged and the same shapes, kernels do the same sums in the same
# order: results agree to the last bits. A smaller batch is summed in other blocks; the difference
# in rounding grows from layer to layer.
_SAME_SHAPE = 8
_OTHER_SHAPE = 1000
_LEAST = 2.0**-23  # of float32; float64 inputs are often cast inside
_MOST = 0.25  # half a batch removed changes what depends on its size by about a factor of 2
_WOBBLE = 10

_REPEATS = 3

_UNREPEATABLE = "it gives other values for the same rows and random numbers"
_ALONE = "rows that do not depend on one another"
_ANY_SIZE = "rows that do not depend on how many there are"
_NO_STATE = (
    "variables that rows do not change: they are released without noise, or affect later lots"
)
_OTHERS = "when only other rows of the batch change"
_LESS = "when other rows are left out of the batch"


class Subject(NamedTuple):
    """What is probed, in words.

    Attributes:
        where: What it is called.
        gives: What its outputs are called.
        remedy: What to do if they depend on other rows.
    """

    where: str
    gives: str
    remedy: str


def probe_rows(function, rows, subject, *, inference=None, variables=list, resolution=_LEAST):
    """Tests per-example independence: do rows change when only other rows do?

    The n rows are split into two groups, so that at least one split separates each pair of rows, in
    both roles. For each split, ordinary and then outlying rows replace the second group. This must
    change neither the outputs of the first group nor the gradient of a weighted sum of them. The
    gradient of this sum by the second group's inputs must be 0, and leaving the second group out
    must not change the first group either. No variable may end up different because rows did.
    Random functions see the same random numbers each time.

    Args:
        function: From a structure of tensors [n, ...] to one of [n * k, ...], as in training.
        rows: `ProbeRows`.
        subject: `Subject`, for messages.
        inference: The same function as in inference, None if it has no such mode. The probe looks
            at its values, too; and at the removal of rows, if the function is random in training,
            where the random numbers depend on the shape of the batch.
        variables: Function that returns the variables to take gradients by.
        resolution: Machine epsilon of the coarsest float type it computes in.

    Returns:
        `Report`; its variables, and the process's streams of random numbers, are as before.
    """
    report = Report()
    training = _Mode(function, rows, subject, report, variables, resolution, "in training")
    calm = training.compare() and not training.random
    if calm:
        training.compare_removal()
    if inference is not None:
        mode = _Mode(inference, rows, subject, report, None, resolution, "in inference")
        if mode.compare() and not calm and not mode.random:
            mode.compare_removal()
    return report


class _Mode:
    """One function, in training or in inference, and its findings."""

    def __init__(self, function, rows, subject, report, variables, resolution, when):
        self._function, self._rows, self._subject = function, rows, subject
        self._report, self._variables, self._when = report, variables, when
        self._resolution = max(resolution, _LEAST)
        self._found = set()
        self._row_weights = np.random.default_rng(1).normal(size=rows.count) + 2.0
        self._traced = None
        self.random = False

    def compare(self):
        """Replaces rows; returns whether results could be compared."""
        try:
            self._traced = self._trace(self._rows.base)
            self._repeat()
        except RowsMissing as error:
            self._find("shape", "outputs of shape [rows, ...]", str(error))
            return False
        except Exception as error:  # whatever code of the user's raises
            self._skip(f"it could not be run: {_short(error)}")
            return False
        finally:
            self._restore()
        self._report.outputs = self._traced.outputs
        if self._wobble is None:
            self._skip(_UNREPEATABLE)
            return False
        try:
            for mask in splits(self._rows.count):
                self._compare_split(mask)
        finally:
            self._restore()
        return True

    def compare_removal(self):
        """Leaves the rows of one group out: this also changes what depends on the batch's size."""
        mask = next(iter(splits(self._rows.count)))
        everyone = mask[mask]
        try:
            less = self._trace(kept(mask, self._rows.base))
            after = less.run(kept(mask, self._rows.base), self._row_weights[mask])
            before = self._run(self._rows.base, mask)
        except Exception as error:
            self._skip(f"a smaller batch could not be run: {_short(error)}")
            return
        finally:
            self._restore()

        def sizes(before, after):
            pairs = zip(before, after, strict=True)
            return [moved(of_rows(mask, a), of_rows(everyone, b)) for a, b in pairs]

        gives, limit = self._subject.gives, min(_MOST, _OTHER_SHAPE * self._resolution)
        of_values = sizes(before.values, after.values)
        if max(of_values, default=0) > limit:
            self._find("removal", _ANY_SIZE, f"{gives} that change {_by(of_values)} {_LESS}")
        of_gradients = sizes(before.by_inputs, after.by_inputs)
        of_gradients.append(moved_together(before.by_variables, after.by_variables))
        if max(of_gradients) > limit:
            got = f"gradients of {gives} that change {_by(of_gradients)} {_LESS}"
            self._find("removal", _ANY_SIZE, got)

    def _trace(self, rows):
        traced = Traced(self._function, rows, self._variables)
        if traced.gradient_error is not None:
            self._skip(f"its gradient could not be taken: {_short(traced.gradient_error)}")
        return traced

    def _run(self, rows, mask):
        self._traced.state.restore()
        return self._traced.run(rows, self._row_weights * mask, self._fresh)

    def _restore(self):
        if self._traced is not None:
            self._traced.state.restore()

    def _repeat(self):
        """Measures what is random, and how far results differ that should be the same."""
        traced, everyone = self._traced, np.ones(self._rows.count)
        self._fresh, self._wobble = False, None
        first = self._run(self._rows.base, everyone)
        self.random = traced.state.draws
        if not self.random:
            traced.state.restore(let_integers_run=True)
            loose = traced.run(self._rows.base, self._row_weights)
            self.random = not self._close(first._replace(state=loose.state), loose)
        again = self._run(self._rows.base, everyone)
        if not self._close(first, again):
            self._fresh = True
            first, again = (self._run(self._rows.base, everyone) for _ in range(2))
            if not self._close(first, again):
                return
        self._first = first
        self._wobble = tuple(
            [_WOBBLE * difference(a, b) for a, b in zip(one, other, strict=True)]
            for one, other in zip(first, again, strict=True)
        )

    def _close(self, one, other):
        limit = _SAME_SHAPE * self._resolution
        pairs = zip([*one.values, *one.state], [*other.values, *other.state], strict=True)
        by_variables = moved_together(one.by_variables, other.by_variables)
        return by_variables <= limit and all(moved(a, b) <= limit for a, b in pairs)

    def _compare_split(self, mask):
        base, gives = self._rows.base, self._subject.gives
        before = self._first if self._variables is None else self._run(base, mask)
        for gradient in before.by_inputs:
            ours, theirs = gradient[mask].astype(np.float64), gradient[~mask].astype(np.float64)
            # Exactly 0, since they enter no sum; NaN is 0 times an infinity of their own.
            size = np.max(np.abs(theirs), where=np.isfinite(theirs), initial=0.0)
            if size > 0:
                scale = np.max(np.abs(ours), where=np.isfinite(ours), initial=0.0)
                size = f"{size / scale:.1g} times" if scale else "more than"
                got = f"{gives} whose derivative by the inputs of other rows is {size} that by"
                self._find("gradient", _ALONE, f"{got} their own")
        for rows in (self._rows.other, self._rows.outlier):
            changed = chosen(mask, base, rows)
            try:
                after = self._run(changed, mask)
            except Exception as error:
                self._skip(f"unusual rows could not be run: {_short(error)}")
                continue
            found = list(self._differences(before, after, mask))
            if found and self._fresh and not self._repeats(changed, after, mask, before):
                self._skip(_UNREPEATABLE)
                return
            for finding in found:
                self._find(*finding)

    def _repeats(self, changed, after, mask, before):
        """Whether repeated runs give the same.

        The iterations of a loop draw from a stream in an order that may change.
        """
        return all(
            self._close(before, self._run(self._rows.base, mask))
            and self._close(after, self._run(changed, mask))
            for _ in range(_REPEATS)
        )

    def _differences(self, before, after, mask):
        """Yields the differences between two runs in which the rows of `mask` are the same."""
        values, by_variables, by_inputs, state = self._wobble
        gives, limit = self._subject.gives, _SAME_SHAPE * self._resolution
        sizes = [
            moved(of_rows(mask, a), of_rows(mask, b), w)
            for a, b, w in zip(before.values, after.values, values, strict=True)
        ]
        if max(sizes, default=0) > limit:
            yield "values", _ALONE, f"{gives} that change {_by(sizes)} {_OTHERS}"
        # Not finite: 0 times infinity, of rows whose own gradient training would discard.
        sizes = [
            moved(a, b, w)
            for a, b, w in zip(before.by_variables, after.by_variables, by_variables, strict=True)
            if np.isfinite(b).all()
        ]
        sizes += [
            moved(a[mask], b[mask], w)
            for a, b, w in zip(before.by_inputs, after.by_inputs, by_inputs, strict=True)
        ]
        if max(sizes, default=0) > limit:
            yield "gradient", _ALONE, f"gradients of {gives} that change {_by(sizes)} {_OTHERS}"
        for index, (a, b, w) in enumerate(zip(self._first.state, after.state, state, strict=True)):
            if moved(a, b, w) > limit:
                name = self._traced.state.name(index) or "without a name"
                got = f"a call that leaves the variable {name!r} different for other rows"
                yield "state", _NO_STATE, got, name

    def _find(self, check, expected, got, where=None):
        """Adds a finding, one of its kind."""
        if (check, where) in self._found:
            return
        self._found.add((check, where))
        subject = self._subject
        message = f"Expected {expected}, got {got} ({subject.where}, {self._when}). "
        self._report.findings.append(
            Finding(check, where or subject.where, message + subject.remedy)
        )

    def _skip(self, why):
        note = f"{self._subject.where} {self._when}: {why}"
        if note not in self._report.unchecked:
            self._report.unchecked.append(note)


def _by(sizes):
    return f"by {max(sizes):.1g} of their size"


def _short(error):
    # Errors from inside a graph begin with where they are from, Keras' end with the arguments.
    text = str(error).split("Call arguments received")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:300]
