"""Labels at the ends of lines, in place of a legend."""

import textwrap

_WIDTH = 26  # characters in a line of a label
_POINTS = 8.5  # size of the type
_LINE = 1.25 * _POINTS / 72  # inches


def wrapped(label):
    """A label in lines that are short enough to stand beside a panel."""
    return textwrap.fill(label, _WIDTH)


def label_ends(axes, height, skip=()):
    """Writes the label of each line at the right edge of a panel, level with where the line ends.

    Labels that would overlap are moved apart; those in `skip` are left out. The panel is about so
    many inches high. To be called when scales and limits are set.
    """
    axes.get_xlim(), axes.get_ylim()  # Matplotlib scales when it is asked
    to_fraction = axes.transData + axes.transAxes.inverted()
    entries = []
    for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
        line = handle[0] if isinstance(handle, tuple) else handle
        points = line.get_xydata()
        if label in skip or not len(points):
            continue
        level = to_fraction.transform(max(map(tuple, points)))[1]
        entries.append((level, wrapped(label), line.get_color()))
    entries.sort(key=lambda entry: entry[0])
    heights = [_LINE * (text.count("\n") + 1) / height for _, text, _ in entries]
    levels = _apart([level for level, _, _ in entries], heights)
    for (_, text, color), level in zip(entries, levels, strict=True):
        axes.annotate(
            text,
            (1.02, level),
            xycoords="axes fraction",
            va="center",
            fontsize=_POINTS,
            color=color,
            annotation_clip=False,
        )


def _apart(levels, heights):
    """Ascending levels, moved as little as is needed that labels of such heights are apart."""
    groups = []  # of labels that touch: [lower edge wanted, height, number]
    for level, height in zip(levels, heights, strict=True):
        groups.append([level - height / 2, height, 1])
        while len(groups) > 1 and sum(groups[-2][:2]) > groups[-1][0]:
            edge, size, count = groups.pop()
            low = groups[-1]
            # The lower edge that suits both: each wants its own place.
            wanted = (low[0] * low[2] + (edge - low[1]) * count) / (low[2] + count)
            groups[-1] = [wanted, low[1] + size, low[2] + count]
    found, sizes = [], iter(heights)
    for edge, _, count in groups:
        for _ in range(count):
            size = next(sizes)
            found.append(edge + size / 2)
            edge += size
    limit = 1.0  # above a panel are titles
    for place in reversed(range(len(found))):
        found[place] = min(found[place], limit - heights[place] / 2)
        limit = found[place] - heights[place] / 2
    return found
