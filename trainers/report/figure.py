"""Figures of plots, and the files that they go to."""

import pathlib

_DPI = 120


def new(width, height):
    """Returns an empty figure.

    Args:
        width: In inches.
        height: In inches.
    """
    # Not pyplot: it would look for a screen. Inside, since tables need no plots.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure, path):
    """Writes a figure as a PNG, in a folder that is made if need be, and returns its path."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=_DPI)
    return path
