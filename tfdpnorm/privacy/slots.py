"""How many examples take part in an update, at most, and in how many slots: public numbers.

Slots are the rows of the physical batches of an update, for drawn examples and padding together.
docs/guarantee.md says why their number is fixed before anything is drawn, and what it costs that a
batch takes no more than S examples.
"""

import dataclasses
import math

from tfdpnorm import arguments
from tfdpnorm.checked import Checked, field
from tfdpnorm.privacy.accountants import (
    accountant_of,
    composed_epsilon,
    epsilon_at,
    mean_over_overflows,
    with_overflows,
)
from tfdpnorm.privacy.mechanisms import exceeds
from tfdpnorm.privacy.profiles import composed_profile

# What the most examples of a batch may cost, of epsilon.
PRICE = 1e-3
# Of delta: the expected overflows where their cost is not known, and those of a search.
SHARE_OF_DELTA = 1e-3

_MULTIPLE = 8  # of rows, which kernels like


@dataclasses.dataclass(frozen=True)
class Slots(Checked):
    """The slots of an update: K physical batches of P rows each.

    Attributes:
        batches: K >= 1.
        rows: P >= 1.
        most_per_batch: The most examples S that take part in an update, 1 to K P; None for K P.

    Raises:
        TypeError, ValueError: if one of them is not an integer in its range.
    """

    batches: int = field(arguments.integer, at_least=1)
    rows: int = field(arguments.integer, at_least=1)
    most_per_batch: int | None = field(arguments.integer, None, at_least=1)

    def __post_init__(self):
        super().__post_init__()
        count = self.batches * self.rows
        if self.most_per_batch is None:
            self._set("most_per_batch", count)
        elif self.most_per_batch > count:
            raise ValueError(
                f"Expected most_per_batch of at most {self.batches} x {self.rows} slots, got "
                f"{self.most_per_batch}. Give more rows."
            )


def slots_for(most_per_batch, physical_batch_size=None, replicas=1):
    """Returns the fewest `Slots` for up to `most_per_batch` examples, S.

    K is the smallest multiple of `replicas`, the number of devices, for which K physical batches
    hold S rows, and P is S / K, rounded up to a multiple of 8 but not beyond `physical_batch_size`.
    That is the most rows of a physical batch; None for one on each device.
    """
    if physical_batch_size is None:
        return Slots(replicas, _rounded_up(-(-most_per_batch // replicas)), most_per_batch)
    most = arguments.integer("physical_batch_size", physical_batch_size, at_least=1)
    batches = _rounded_up(-(-most_per_batch // most), replicas)
    rows = min(_rounded_up(-(-most_per_batch // batches)), most)
    return Slots(batches, rows, most_per_batch)


def slots_of_plan(plan, physical_batch_size=None, replicas=1):
    """Returns the `Slots` of a run with that `PrivacyPlan`; see `slots_for`."""
    return slots_for(plan.most_per_batch, physical_batch_size, replicas)


def most_per_batch_at(mechanism, num_examples, delta, accountant, rows=1):
    """Returns the fewest examples S per batch, a multiple of 8, that cost at most 0.1 % of epsilon.

    Args:
        mechanism: `Mechanism` of all updates, without a limit.
        num_examples: N; also the result, if it is smaller.
        delta: In (0, 1), at which epsilon is.
        accountant: Its name.
        rows: Of a person for whom an epsilon is stated, too: it is of no more than that.
    """
    known = {1: None}  # by the rows of a person: delta for each number of overflows
    epsilon = composed_epsilon([mechanism], delta, accountant)
    if math.isfinite(epsilon):
        known[1] = accountant_of(accountant).deltas_by_overflows(mechanism, _dearer(epsilon))
        if rows > 1:
            epsilon = epsilon_at(composed_profile((mechanism,), delta, rows), delta)
            known[rows] = with_overflows(mechanism, _dearer(epsilon), rows)
    most = 1
    for of_person, deltas in known.items():
        allowed = 0.0
        if deltas is not None:
            # The most expected overflows m <= 1 whose mean of `deltas`, by their number, is
            # `delta`, between two logarithms.
            low, high = -70.0, 0.0
            for _ in range(50):
                middle = (low + high) / 2
                is_enough = mean_over_overflows(deltas, math.exp(middle)) <= delta
                low, high = (middle, high) if is_enough else (low, middle)
            allowed = math.exp(low)
        overflow = max(allowed, SHARE_OF_DELTA * delta) / mechanism.count
        rate = mechanism.sampling_rate
        most = max(most, most_per_batch_for(num_examples, rate, overflow, of_person))
    return most


def most_per_batch_for(num_examples, sampling_rate, overflow, rows=1):
    """Returns the fewest S, a multiple of 8 or N, of which others hardly ever leave too few.

    They leave fewer than `rows` with a probability of at most `overflow`.
    """
    too_few, enough = 0, num_examples
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if exceeds(num_examples, sampling_rate, middle - rows) <= overflow:
            enough = middle
        else:
            too_few = middle
    return min(_rounded_up(enough), num_examples)


def _dearer(epsilon):
    return (1 + PRICE) * epsilon


def _rounded_up(number, multiple=_MULTIPLE):
    return -(-number // multiple) * multiple
