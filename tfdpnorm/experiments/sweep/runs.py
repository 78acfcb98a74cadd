"""The runs of a sweep: which they are, which of them are done, and where each is kept."""

import dataclasses
import fnmatch
import pathlib
import re

from tfdpnorm.experiments.runs.settings import differences


def select(specs, seeds, patterns=()):
    """Returns the specs of all runs, seed by seed, so that a stopped sweep has whole tables.

    Args:
        specs: The cells, in their order.
        seeds: How many seeds each is trained with: 0, 1, ...
        patterns: Names of cells or shell-style patterns of them; empty for all cells.

    Raises:
        ValueError: for `seeds` below 1, or a pattern that no cell matches.
    """
    at_least_one("seeds", seeds)
    chosen = [s for s in specs if not patterns or any(_matches(s.cell, p) for p in patterns)]
    for pattern in patterns:
        if not any(_matches(spec.cell, pattern) for spec in specs):
            raise ValueError(
                f"Expected cells to name some of {specs[0].experiment}, got {pattern!r}, which "
                f"matches none of {', '.join(spec.cell for spec in specs)}. Mend it."
            )
    return [dataclasses.replace(spec, seed=seed) for seed in range(seeds) for spec in chosen]


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
    slug = re.sub(r"[^A-Za-z0-9.=_-]+", "-", spec.cell)
    return pathlib.Path(runs_dir) / spec.experiment / f"{slug}-seed{spec.seed}"


def at_least_one(name, value):
    """Raises ValueError for a number below 1."""
    if value < 1:
        raise ValueError(f"Expected {name} >= 1, got {value!r}.")


def _matches(cell, pattern):
    return cell == pattern or fnmatch.fnmatchcase(cell, pattern)
