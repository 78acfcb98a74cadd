"""Ours: the cells of what public-batch normalisation needs for a public batch."""

import dataclasses

from tfdpnorm.experiments.davody import cells as davody
from tfdpnorm.experiments.method.settings import MISMATCH, PUBLIC_ROWS


def public_rows_cells():
    """The same training with different public rows: real ones, and synthetic ones of each kind.

    Real ones come first for each data set, and synthetic ones of the default kind.
    """
    return [
        dataclasses.replace(
            davody.spec(dataset, "public_batch", epsilon, **settings, public_dataset=source),
            experiment="method_public_rows",
            network=f"{dataset}-{source.removeprefix('synthetic:')}",
            paper_value=None,
            ema_decay=None,
        )
        for dataset, columns in PUBLIC_ROWS.items()
        for epsilon, (settings, sources) in columns.items()
        for source in sources
    ]


def mismatch_spec(epsilon, *, seed, steps):
    """The spec of the runs of `method_mismatch`: public rows are split off, and then altered."""
    spec = davody.spec("mnist", "public_batch", epsilon, seed=seed, **(MISMATCH | {"steps": steps}))
    return dataclasses.replace(
        spec, experiment="method_mismatch", network="lenet5", paper_value=None, ema_decay=None
    )


EXPERIMENTS = {"method_public_rows": public_rows_cells}
