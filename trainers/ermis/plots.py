"""The figures of Ermis & Cemgil (2017), made from records and nothing else."""

import collections
import math
import statistics

from trainers.ermis import published
from trainers.report import captions
from trainers.report import figure as figures
from trainers.report.labels import label_ends
from trainers.report.tables import by_cell

_PANEL, _LABELS = (3.4, 2.9), 1.7  # inches; of labels beside a panel
# Kinds of rows, each a panel: claims, guarantees, and other features than the paper's.
_KINDS = {
    "claimed": "the paper's network\n(epsilon claimed, no guarantee)",
    "guaranteed": "the paper's network",
    "random_features": "random features",
    "public_features": "features of public images",
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
    figure, grid = _grid(len(rows), len(columns))
    for y, row in enumerate(rows):
        for x, column in enumerate(columns):
            axes = grid[y][x]
            if (column, *row) not in panels:
                axes.remove()
                continue
            for name, group in panels[(column, *row)].items():
                style = "--" if row[1] == "claimed" else "-"
                axes.plot(*_curve(group), style, marker=".", label=_short(name, *row))
            axes.set(xlabel="passes over the data", xscale="log", ylabel="test accuracy (%)")
            _plain_ticks(axes)
            epsilon = column.replace("eps=inf", "no privacy").replace("eps=", "epsilon ")
            _finish(axes, f"{row[0].upper()}, {epsilon}: {_KINDS[row[1]]}")
    figures.entitle(figure, title, "Lines: mean of the runs.")
    return figures.save(figure, path)


def _grid(rows, columns):
    figure = figures.new((_PANEL[0] + _LABELS) * columns, _PANEL[1] * rows + 0.8)
    return figure, figure.subplots(rows, columns, squeeze=False)


def _finish(axes, title):
    axes.set_title(title, fontsize="small", loc="left")
    axes.grid(alpha=0.3)
    label_ends(axes, 0.6 * _PANEL[1])


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


def _curve(records):
    """Passes over the data, and the mean test accuracy of some runs after them."""
    points = collections.defaultdict(list)
    for record in records:
        for point in record["curve"]:
            passes = round(point["updates"] * record["sampling_rate"], 3)
            points[passes].append(point["test_accuracy"])
    passes = sorted(points)
    return passes, [statistics.mean(points[count]) for count in passes]


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


def plot_table(records, path, title, networks=()):
    """Draws test accuracy against epsilon, a panel for each data set and kind of row.

    The crosses are the paper's figures of its own method by zCDP, which are claims. Networks are
    "dataset-row". Returns the path.
    """
    present = [record["network"] for record in records]
    networks = [n for n in dict.fromkeys([*networks, *present]) if n in present]
    panels = collections.defaultdict(dict)
    for name in networks:
        found = collections.defaultdict(list)
        of_network = [record for record in records if record["network"] == name]
        for record in of_network:
            if record["epsilon_target"] not in (None, math.inf):
                found[record["epsilon_target"]].append(record["test_accuracy"])
        if found:
            panels[_kind(of_network[0])][name] = found
    datasets = list(dict.fromkeys(dataset for dataset, _ in panels))
    kinds = [kind for kind in _KINDS if any(kind == k for _, k in panels)]
    figure, grid = _grid(len(kinds), len(datasets))
    for y, kind in enumerate(kinds):
        for x, dataset in enumerate(datasets):
            if (dataset, kind) in panels:
                _draw_rows(grid[y][x], panels[dataset, kind], dataset, kind)
            else:
                grid[y][x].remove()
    note = captions.note("mean", records, False)
    figures.entitle(figure, title, f"{note}\nCrosses: dpvd-zcdp, claimed by the paper.")
    return figures.save(figure, path)


def _draw_rows(axes, rows, dataset, kind):
    for name, found in rows.items():
        epsilons = sorted(found)
        means = [statistics.mean(found[epsilon]) for epsilon in epsilons]
        low = [m - min(found[e]) for m, e in zip(means, epsilons, strict=True)]
        high = [max(found[e]) - m for m, e in zip(means, epsilons, strict=True)]
        style = {"linestyle": "--" if kind == "claimed" else "-", "marker": "o", "capsize": 2}
        axes.errorbar(epsilons, means, yerr=[low, high], **style, label=_short(name, dataset, kind))
    theirs = sorted(published.TABLE1.get(dataset, {}).get("dpvd-zcdp", {}).items())
    if theirs:
        axes.plot(*zip(*theirs, strict=True), "kx")
    axes.set(xlabel="epsilon", xscale="log", ylabel="test accuracy (%)", ylim=(0, 102))
    epsilons = sorted({epsilon for found in rows.values() for epsilon in found})
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    _finish(axes, f"{dataset.upper()}: {_KINDS[kind]}")


PLOTS = {
    "ermis_table1": plot_table,
    "ermis_figure1": plot_progress,
    "ermis_figure2": plot_progress,
    "ermis_figure4": plot_progress,
    "ermis_figure5": plot_options,
    "ermis_settings": plot_table,
}
