"""How many slots an update has: rows of its physical batches, drawn examples and padding together.

docs/guarantee.md says why their number has to be fixed before anything is drawn. Here it is
computed, from public numbers alone.
"""

import dataclasses

from tfdpnorm import arguments
from tfdpnorm.checked import Checked, field

# Of delta: the probability that a batch of the run does not fit into its slots.
SHARE_OF_DELTA = 1e-3

_MULTIPLE = 8  # of rows, which kernels like


@dataclasses.dataclass(frozen=True)
class Slots(Checked):
    """The slots of an update: K physical batches of P rows each.

    Attributes:
        batches: K >= 1.
        rows: P >= 1.

    Raises:
        TypeError, ValueError: if one of them is not an integer in its range.
    """

    batches: int = field(arguments.integer, at_least=1)
    rows: int = field(arguments.integer, at_least=1)

    def batches_for(self, count):
        """Returns the physical batches of an update that drew `count` examples: K, or more.

        More only if the examples do not fit into K: then as many as they need.
        """
        return max(self.batches, -(-count // self.rows))


def slots_for(
    num_examples, expected_batch_size, *, updates, delta, physical_batch_size=None, replicas=1
):
    """Returns the fewest `Slots` that a batch of the run hardly ever exceeds.

    With R the smallest number for which T P[Binomial(N, q) > R] <= delta / 1,000 (the union bound
    over T updates), K is the smallest multiple of `replicas`, the number of devices, for which K
    physical batches hold R rows, and P is R / K, rounded up to a multiple of 8 but not beyond
    `physical_batch_size`. That is the most rows of a physical batch; None for one on each device.
    """
    needed = _hardly_exceeded(num_examples, expected_batch_size, SHARE_OF_DELTA * delta / updates)
    if physical_batch_size is None:
        return Slots(replicas, _rounded_up(-(-needed // replicas)))
    most = arguments.integer("physical_batch_size", physical_batch_size, at_least=1)
    batches = _rounded_up(-(-needed // most), replicas)
    return Slots(batches, min(_rounded_up(-(-needed // batches)), most))


def slots_of_plan(plan, physical_batch_size=None, replicas=1):
    """Returns the `Slots` of a run with that `PrivacyPlan`; see `slots_for`."""
    return slots_for(
        plan.num_examples,
        plan.expected_batch_size,
        updates=plan.steps,
        delta=plan.delta,
        physical_batch_size=physical_batch_size,
        replicas=replicas,
    )


def _hardly_exceeded(num_examples, expected_batch_size, probability):
    """The smallest R >= 1 with P[Binomial(N, q) > R] <= `probability`; N at most."""
    from scipy.stats import binom  # takes long to load

    rate = expected_batch_size / num_examples
    too_few, enough = 0, num_examples
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if binom.sf(middle, num_examples, rate) <= probability:
            enough = middle
        else:
            too_few = middle
    return enough


def _rounded_up(number, multiple=_MULTIPLE):
    return -(-number // multiple) * multiple
