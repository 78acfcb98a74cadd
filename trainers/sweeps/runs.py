"""The runs of a sweep: which they are, which of them are done, and where each is kept."""

import fnmatch
import pathlib

from tfdpnorm import arguments
from trainers.records.store import file_name
from trainers.runs.settings import differences


def select(specs, seeds, patterns=()):
    """Returns the specs of all runs, seed by seed, so that a stopped sweep has whole tables.

    Args:
        specs: The cells, in their order.
        seeds: How many seeds each is trained with: 0, 1, ...
        patterns: Names of cells or shell-style patterns of them; empty for all cells.

    Raises:
        ValueError: for `seeds` below 1, or a pattern that no cell matches.
    """
    arguments.whole("seeds", seeds, at_least=1)
    chosen = [s for s in specs if not patterns or any(_matches(s.cell, p) for p in patterns)]
    for pattern in patterns:
        if not any(_matches(spec.cell, pattern) for spec in specs):
            raise ValueError(
                f"Expected cells to name some of {specs[0].experiment}, got {pattern!r}, which "
                f"matches none of {', '.join(spec.cell for spec in specs)}. Choose some of these."
            )
    return [spec.replaced(seed=seed) for seed in range(seeds) for spec in chosen]


def is_done(spec, records):
    """Whether one of `records` is of this experiment, cell and seed, with these settings."""
    return any(
        record["experiment"] == spec.experiment
        and record["cell"] == spec.cell
        and record["seed"] == spec.seed
        and not differences(spec, record["flags"])
        for record in records
    )


def run_name(spec):
    """A run in words."""
    return f"{spec.cell} seed {spec.seed}"


def run_folder(runs_dir, spec):
    """Path of the folder of a run."""
    return pathlib.Path(runs_dir) / spec.experiment / f"{file_name(spec.cell)}-seed{spec.seed}"


def _matches(cell, pattern):
    return cell == pattern or fnmatch.fnmatchcase(cell, pattern)
