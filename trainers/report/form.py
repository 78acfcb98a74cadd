"""How the table of an experiment sums up the runs of a cell."""

import statistics
from typing import NamedTuple


class TableForm(NamedTuple):
    """How a table is made from records.

    Attributes:
        summary: "mean": the mean over runs and their standard deviation. "median": the median, and
            mean, standard deviation, least and largest behind it. "best": the largest.
        paper: Dict from a cell to the paper's figure, in place of that of the records; None for
            theirs.
        top5: Dict from a cell to the paper's figure (or None) for the label among the five largest
            logits, which is shown as well.
        by_top5: Cells of which that is shown in place of the accuracy.
        minutes: Whether a column has the median wall time of a network's runs.
    """

    summary: str = "mean"
    paper: dict | None = None
    top5: dict | None = None
    by_top5: tuple = ()
    minutes: bool = False

    def field(self, cell):
        """The field of the records whose accuracies stand for a cell."""
        return "test_top5" if cell in self.by_top5 else "test_accuracy"

    def caption(self):
        """What an entry of the table is, in words."""
        return {
            "mean": "mean +- standard deviation over runs [weight average]",
            "median": "median over runs (mean +- standard deviation, least to largest) "
            "[weight average]",
            "best": "the best of all runs [weight average]",
        }[self.summary]

    def summed_up(self, values):
        """The accuracies of a cell's runs, in words."""
        if self.summary == "best":
            return f"{max(values):.2f}"
        if self.summary == "mean" or len(values) == 1:
            return f"{statistics.mean(values):.2f}" + self._spread(values)
        return (
            f"{statistics.median(values):.2f} ({statistics.mean(values):.2f}"
            f"{self._spread(values)}, {min(values):.2f} to {max(values):.2f})"
        )

    def _spread(self, values):
        return f" +- {statistics.stdev(values):.2f}" if len(values) > 1 else ""

    def middle(self, values):
        """One number for the accuracies of a cell's runs."""
        middles = {"mean": statistics.mean, "median": statistics.median, "best": max}
        return middles[self.summary](values)
