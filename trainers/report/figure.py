"""Figures of plots, and the files that they go to."""

import pathlib
import textwrap

_DPI = 120
_CHARACTERS = 12  # of a title, in an inch


def new(width, height):
    """Returns an empty figure of a width and height in inches."""
    # Not pyplot: it would look for a screen. Inside, since tables need no plots.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def entitle(figure, title, note=""):
    """Writes a title over a figure, in lines that fit, and a note below it."""
    width = int(_CHARACTERS * figure.get_figwidth())
    kept = title.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    lines = [line for part in kept.split("\n") for line in textwrap.wrap(part, width)]
    figure.suptitle("\n".join(lines), fontsize="medium")
    if note:
        figure.supxlabel(note, fontsize="small")


def save(figure, path):
    """Writes a figure as a PNG, in a folder that is made if need be, and returns its path."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=_DPI)
    return path
