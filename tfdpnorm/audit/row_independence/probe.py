"""Whether each row of a function's outputs depends on one row only, found by running it."""

from typing import NamedTuple

from tfdpnorm.audit.row_independence import comparisons
from tfdpnorm.audit.row_independence.finding import Report
from tfdpnorm.audit.row_independence.mode import LEAST_RESOLUTION, Mode


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


def probe_rows(
    function,
    rows,
    subject,
    *,
    inference=None,
    variables=list,
    resolution=LEAST_RESOLUTION,
    batch_size=None,
):
    """Tests per-example independence: do rows change when only other rows do?

    The n rows are split into two groups, so that at least one split separates each pair of rows, in
    both roles. For each split, ordinary and then outlying rows replace the second group. This must
    change neither the outputs of the first group nor the gradient of a weighted sum of them. The
    gradient of this sum by the second group's inputs must be 0, and the gradients of the two
    groups' sums must add up to that of all rows. No variable may end up different because rows did.
    Random functions see the same random numbers each time.

    With one split, this is tested too
        - for rows that are cut short, empty, huge and not finite;
        - for derivatives from the loss that are tiny, and that are huge;
        - with other seeds, if the function draws random numbers, and for its outputs alone;
        - with larger numbers in variables that count its calls;
        - in a batch of `batch_size` rows, among them copies, and rows with labels and ids in
          common. Its first rows must be as they were among n.

    Args:
        function: From a structure of tensors [n, ...] to one of [n * k, ...], as in training.
        rows: `ProbeRows`.
        subject: `Subject`, for messages.
        inference: The same function as in inference, None if it has no such mode. The probe looks
            at its values, too; and at batches of two sizes, if the function is random in training,
            where the random numbers depend on the shape of the batch.
        variables: Function that returns the variables to take gradients by.
        resolution: Machine epsilon of the coarsest float type it computes in.
        batch_size: How many rows training runs at once; None for 32. If the function is
            expensive to run, fewer are taken.

    Returns:
        `Report`; its variables, and the process's streams of random numbers, are as before.
    """
    report = Report()
    training = Mode(function, rows, subject, report, variables, resolution, "in training")
    calm = False
    if training.start():
        calm = not training.random
        try:
            comparisons.compare_splits(training)
            comparisons.compare_unusual_rows(training)
            comparisons.compare_scales(training)
            comparisons.compare_counters(training)
            comparisons.compare_sizes(training, batch_size, across=calm)
            if training.random:
                comparisons.compare_random_numbers(training)
        finally:
            training.restore()
    if inference is not None:
        mode = Mode(inference, rows, subject, report, None, resolution, "in inference")
        if mode.start():
            try:
                comparisons.compare_splits(mode)
                if not calm and not mode.random:
                    comparisons.compare_sizes(mode, batch_size)
            finally:
                mode.restore()
    return report
