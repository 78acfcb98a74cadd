"""Figures of plots, and the files that they go to."""

import pathlib
import textwrap

_DPI = 120
_CHARACTERS = 12  # of a title, in an inch
_LABEL = 26  # characters in a line of a label


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


def wrapped(label):
    """A label in lines that are short enough to stand beside a panel."""
    return textwrap.fill(label, _LABEL)


def label_lines(axes, skip=()):
    """Names the lines of a panel at its right side, in the order in which they end.

    Those in `skip` are left out.
    """
    ends = []
    for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
        line = handle[0] if isinstance(handle, tuple) else handle
        points = [(x, y) for x, y in line.get_xydata() if y == y]  # not where a line has gaps
        if label not in skip and points:
            ends.append((max(points)[1], handle, wrapped(label)))
    ends.sort(key=lambda end: -end[0])
    if ends:
        _, handles, labels = zip(*ends, strict=True)
        place = dict(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0, frameon=False)
        axes.legend(handles, labels, fontsize=8, **place)


def save(figure, path):
    """Writes a figure as a PNG, in a folder that is made if need be, and returns its path."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=_DPI)
    return path
