"""The figures of Ermis & Cemgil (2017), made from records and nothing else."""

import collections
import statistics
import textwrap

from trainers.ermis.notes import SETTINGS, TABLE1
from trainers.report import figure as figures
from trainers.report.claims import compared
from trainers.report.figure import label_lines
from trainers.report.plots import plot_experiment
from trainers.report.tables import by_cell, mean_curve

_PANEL, _LABELS = (3.4, 2.9), 1.7  # inches; of labels beside a panel
# Kinds of rows, each a panel: claims, guarantees, and other features than the paper's.
_KINDS = {
    "claimed": "the paper's network\n(epsilon claimed, no guarantee)",
    "guaranteed": "the paper's network",
    "random_features": "random features",
    "public_features": "features of public images",
    "papers_settings": "the paper's network and settings",
}


def plot_progress(records, path, title, networks=()):
    """Draws test accuracy against passes, a panel for each epsilon and kind of row.

    Of `networks` in their order; others follow. Returns the path.
    """
    panels = collections.defaultdict(dict)
    for (network, column), group in by_cell(records, networks).items():
        if any(record["curve"] for record in group):
            panels[(column, *_kind(group[0]))][network] = group
    columns = sorted({column for column, _, _ in panels}, key=lambda c: float(c.partition("=")[2]))
    rows = sorted(
        {place[1:] for place in panels}, key=lambda row: (row[0], [*_KINDS].index(row[1]))
    )
    figure = figures.new((_PANEL[0] + _LABELS) * len(columns), _PANEL[1] * len(rows) + 0.8)
    grid = figure.subplots(len(rows), len(columns), squeeze=False)
    for y, row in enumerate(rows):
        for x, column in enumerate(columns):
            axes = grid[y][x]
            if (column, *row) not in panels:
                axes.remove()
                continue
            for name, group in panels[(column, *row)].items():
                style = "--" if row[1] == "claimed" else "-"
                means = mean_curve(group, _passes, "test_accuracy")
                points = zip(*means.items(), strict=True)
                axes.plot(*points, style, marker=".", label=_short(name, *row))
            axes.set(xlabel="passes over the data", xscale="log", ylabel="test accuracy (%)")
            _plain_ticks(axes)
            epsilon = column.replace("eps=inf", "no privacy").replace("eps=", "epsilon ")
            title_of_panel = f"{row[0].upper()}, {epsilon}: {_KINDS[row[1]]}"
            axes.set_title(title_of_panel, fontsize="small", loc="left")
            axes.grid(alpha=0.3)
            label_lines(axes)
    figures.entitle(figure, title, "Lines: mean of the runs.")
    return figures.save(figure, path)


def _plain_ticks(axes):
    """Labels of a logarithmic axis that are no powers of ten: from two updates to 200 passes."""
    from matplotlib.ticker import LogLocator

    axes.xaxis.set_major_locator(LogLocator(numticks=4))
    axes.xaxis.set_major_formatter("{x:g}")
    low, high = axes.get_xlim()
    is_narrow = high < 12 * low
    axes.xaxis.set_minor_formatter("{x:g}" if is_narrow else "")
    axes.tick_params(axis="x", which="both", labelsize="small")


def _kind(record):
    """Pair of the data set of a record and its kind, a key of `_KINDS`."""
    name = record["network"]
    features = [kind for kind in _KINDS if name.endswith(f"-{kind}")]
    claimed = "claimed" if record["epsilon_claimed"] is not None else "guaranteed"
    return name.partition("-")[0], features[0] if features else claimed


def _short(network, dataset, kind):
    return network.removeprefix(f"{dataset}-").removesuffix(f"-{kind}")


def _passes(record, point):
    return round(point["updates"] * record["sampling_rate"], 3)


def plot_options(records, path, title, networks=()):
    """Draws test accuracy against one setting in each panel, others fixed; returns the path.

    Arguments are as in `plot_progress`. Columns are "name=value", the network being the name, and
    networks that are not named are left out.
    """
    names = [n for n in networks if any(record["network"] == n for record in records)]
    figure = figures.new(3.6 * len(names), 3.8)
    all_axes = figure.subplots(1, len(names), squeeze=False, sharey=True)
    for axes, name in zip(all_axes[0], names, strict=True):
        found = collections.defaultdict(list)
        for record in records:
            if record["network"] == name:
                value = float(record["column"].partition("=")[2])
                found[value].append(record["test_accuracy"])
        line = sorted((value, statistics.mean(values)) for value, values in found.items())
        axes.plot(*zip(*line, strict=True), marker="o")
        axes.set(xlabel=name.replace("_", " "))
        axes.grid(alpha=0.3)
    all_axes[0][0].set_ylabel("test accuracy (%)")
    figures.entitle(figure, title)
    return figures.save(figure, path)


def plot_claims(claims):
    """Returns a plot of the differences that claims are about: a panel each, a line for each test.

    It is called as `plot_experiment` is, and draws what that does where there are no differences.
    """

    def plot(records, path, title, networks=()):
        found = [(claim, compared(records, claim)) for claim in claims]
        found = [(claim, differences) for claim, differences in found if differences]
        if not found:
            return plot_experiment(records, path, title, networks)
        heights = [0.9 + 0.19 * len(differences) for _, differences in found]
        figure = figures.new(9, sum(heights) + 0.9)
        grid = figure.subplots(len(found), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, (claim, differences) in zip(grid, found, strict=True):
            for place, one in enumerate(differences.values()):
                half = one.half_interval()
                color = "grey" if half is None else "C0" if abs(one.mean) > half else "black"
                axes.errorbar(one.mean, place, xerr=half, marker="o", capsize=2, color=color)
            names = [f"{a} - {b}, {column}" for ((a, b), column) in differences]
            axes.set_yticks(range(len(names)), names, fontsize=7)
            axes.set(ylim=(len(names) - 0.5, -0.5), xlabel="difference in points")
            axes.axvline(0, color="black", linewidth=0.8)
            axes.set_title(textwrap.fill(claim.words, 80), fontsize="small", loc="left")
            axes.grid(axis="x", alpha=0.3)
        note = "Means of the runs, and 95 % confidence intervals of their differences."
        figures.entitle(figure, title, note)
        return figures.save(figure, path)

    return plot


PLOTS = {
    "ermis_table1": plot_claims(TABLE1),
    "ermis_figure1": plot_progress,
    "ermis_figure2": plot_progress,
    "ermis_figure4": plot_progress,
    "ermis_figure5": plot_options,
    "ermis_settings": plot_claims(SETTINGS),
}
