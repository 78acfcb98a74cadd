"""A function of rows, in training or in inference: its runs, and what is found in them."""

import numpy as np

from tfdpnorm.audit.row_independence.compare import difference, moved, moved_together
from tfdpnorm.audit.row_independence.contents import (
    calls_python,
    draws_by_kernels,
    draws_by_variables,
    stores,
)
from tfdpnorm.audit.row_independence.finding import Finding
from tfdpnorm.audit.row_independence.traced import RowsMissing, Run, Traced

# With the rows of one group unchanged and the same shapes, kernels do the same sums in the same
# order: results agree to the last bits. A batch of another size is summed in other blocks; the
# difference in rounding grows from layer to layer.
_SAME_SHAPE = 8
_OTHER_SHAPE = 1000
LEAST_RESOLUTION = 2.0**-23  # of float32; float64 inputs are often cast inside
_MOST = 0.25  # a batch of half or twice the size changes what depends on it by about a factor of 2
_WOBBLE = 10

REPEATS = 3

_UNREPEATABLE = "it gives other values for the same rows and random numbers"
_PYTHON = "it calls Python functions, and what these remember is not seen"
_NOTHING_KEPT = "no tables and queues that rows are put into"


class Mode:
    """One function, in training or in inference, and its findings.

    Args:
        function: From a structure of tensors [n, ...] to one of [n * k, ...].
        rows: `ProbeRows`.
        subject: `Subject`.
        report: `Report`, which gets the findings.
        variables: Function that returns the variables to take gradients by; None for values alone.
        resolution: Machine epsilon of the coarsest float type it computes in.
        when: "in training" or "in inference".

    Attributes:
        rows: `ProbeRows`.
        gives: What the outputs are called.
        has_gradients: Whether gradients are looked at.
        traced: `Traced` for the n rows; None before `start`, or if it could not be traced.
        first: `Run` on the ordinary rows, where all of them count.
        random: Whether it draws random numbers.
        fresh: Whether its random operations have to start anew with each run.
        wobble: Pairs with the fields of a `Run`: how far each of its arrays moves by itself.
        same_shape: Up to which relative difference results in a batch of the same shape agree.
        other_shape: Up to which relative difference results of other sums agree.
    """

    def __init__(self, function, rows, subject, report, variables, resolution, when):
        self.rows, self.gives, self.has_gradients = rows, subject.gives, variables is not None
        self._function, self._subject, self._report = function, subject, report
        self._variables, self._when, self._found = variables, when, set()
        self.same_shape = _SAME_SHAPE * max(resolution, LEAST_RESOLUTION)
        self.other_shape = min(_MOST, _OTHER_SHAPE * max(resolution, LEAST_RESOLUTION))
        self.traced = self.first = self.wobble = None
        self.random = self.fresh = False

    def start(self):
        """Traces the function and runs it; returns whether its runs can be compared."""
        try:
            self.traced = self.trace(self.rows.base)
            self._repeat()
        except RowsMissing as error:
            self.find("shape", "outputs of shape [rows, ...]", str(error))
            return False
        except Exception as error:  # whatever code of the user's raises
            self.skip(f"it could not be run: {short(error)}")
            return False
        finally:
            self.restore()
        self._report.outputs = self.traced.outputs
        for name in stores(self.traced.types):
            self.find("state", _NOTHING_KEPT, f"the operation {name}", name)
        if calls_python(self.traced.types):
            self.skip(_PYTHON)
        if self.wobble is None:
            self.skip(_UNREPEATABLE)
        return self.wobble is not None

    def trace(self, rows):
        """Returns the function as a `Traced` for rows of these shapes."""
        traced = Traced(self._function, rows, self._variables)
        if traced.gradient_error is not None:
            self.skip(f"its gradient could not be taken: {short(traced.gradient_error)}")
        return traced

    def run(self, rows, weights, traced=None, counters=None):
        """Returns a `Run`, from the same state and random numbers as all others.

        Args:
            rows: Structure of arrays [n, ...].
            weights: [n], what the rows count in the sum that gradients are taken of.
            traced: `Traced` for so many rows; None for that of the probe's own rows.
            counters: (indices of variables, number) to start from; None leaves them.
        """
        traced = self.traced if traced is None else traced
        traced.state.restore()
        if counters is not None:
            traced.state.put(*counters)
        return traced.run(rows, weights, self.fresh)

    def restore(self):
        """Gives all variables back their first values."""
        if self.traced is not None:
            self.traced.state.restore()

    def is_repeated_by(self, *runs, note=True):
        """Whether runs give the same again, where the order of random numbers might change.

        The iterations of a loop draw from a stream in an order that may change.

        Args:
            *runs: Pairs of a `Run` and a function that makes it again.
            note: Whether to note it if they do not.
        """
        same = not self.fresh or all(
            self._close(run, again()) for _ in range(REPEATS) for run, again in runs
        )
        if note and not same:
            self.skip(_UNREPEATABLE)
        return same

    def find(self, check, expected, got, where=None):
        """Adds a finding, one of its kind."""
        if (check, where) in self._found:
            return
        self._found.add((check, where))
        subject = self._subject
        message = f"Expected {expected}, got {got} ({subject.where}, {self._when}). "
        self._report.findings.append(
            Finding(check, where or subject.where, message + subject.remedy)
        )

    def skip(self, why):
        """Notes something that was not checked."""
        note = f"{self._subject.where} {self._when}: {why}"
        if note not in self._report.unchecked:
            self._report.unchecked.append(note)

    def _repeat(self):
        """Measures what is random, and how far results differ that should be the same."""
        traced, everyone = self.traced, weights_of(self.rows.count)

        def twice():
            return [self.run(self.rows.base, everyone) for _ in range(2)]

        self.fresh = draws_by_kernels(traced.types)
        first, again = twice()
        if not (self.fresh or self._close(first, again)):
            self.fresh = True
            first, again = twice()
        self.random = self.fresh or traced.state.draws or draws_by_variables(traced.types)
        if not self._close(first, again):
            return
        self.first = first
        self.wobble = Run(
            *(
                [_WOBBLE * difference(a, b) for a, b in zip(one, other, strict=True)]
                for one, other in zip(first, again, strict=True)
            )
        )

    def _close(self, one, other):
        pairs = zip([*one.values, *one.state], [*other.values, *other.state], strict=True)
        by_variables = moved_together(one.by_variables, other.by_variables)
        limit = self.same_shape
        return by_variables <= limit and all(moved(a, b) <= limit for a, b in pairs)


def weights_of(count):
    """What each of `count` rows counts in the sum that gradients are taken of: near 2."""
    return np.random.default_rng(1).normal(size=count) + 2.0


def short(error):
    """The type of an exception and the last line of its message."""
    # Errors from inside a graph begin with where they are from, Keras' end with the arguments.
    text = str(error).split("Call arguments received")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # What AutoGraph raises anew names the type in that line.
    last = (lines[-1] if lines else "").removeprefix(f"{type(error).__name__}: ")
    return f"{type(error).__name__}: {last}"[:300]
