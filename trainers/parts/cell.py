"""Which cell of which table a run is for."""

import dataclasses

from trainers.knobs import Part, knob


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(Part):
    """Which cell of which table a run is for, and what is said of it."""

    experiment: str = knob(help="Which table, such as davody_table5.", flag=False)
    network: str = knob(help="Row of the table, such as public_batch.", flag=False)
    column: str = knob(help="Column of the table, such as eps=1.", flag=False)
    reduced: str = knob(
        "",
        "What is smaller than in the paper, or another, in words, apart from the number of "
        "examples.",
        flag=False,
        measured=False,
    )
    search: str = knob(
        "not searched",
        "How the settings were found, in words. No epsilon covers the search.",
        flag=False,
        measured=False,
    )
    paper_value: float | str | None = knob(
        None,
        "The paper's test accuracy in percent, or what it says instead, such as 'no convergence'; "
        "None if it has no such cell.",
        flag=False,
        measured=False,
    )

    @property
    def cell(self):
        """Name of the cell, such as "public_batch/eps=1"."""
        return f"{self.network}/{self.column}"
