"""Plots, made from records and nothing else."""

import math
import statistics
from typing import NamedTuple

import numpy as np

from trainers.report import bars, captions
from trainers.report import figure as figures
from trainers.report.figure import label_lines
from trainers.report.tables import TableForm, by_cell, mean_curve

_PANEL, _LABELS, _HEADER = (4.8, 3.6), 1.7, 0.8  # inches; of labels beside a panel, of a title
_MOST_LINES = 6  # in a panel
_COLOURS, _MARKERS = 10, "os^Dv"  # Matplotlib's colours come round again
# Accuracies in percent that an axis names, and where its logarithm ends.
_TICKS = (0, 20, 40, 60, 70, 80, 90, 95, 98, 99, 99.5, 100)
_TOP = 100.2
_PAPER = dict(linestyle="--", marker="x")  # How the paper's figures are drawn.


class Series(NamedTuple):
    """A network's accuracies, as they are drawn."""

    network: str
    label: str  # its name in the plot, with what has to be said of its epsilon
    ours: list  # of (epsilon, middle, least, largest), ascending
    paper: list  # of (epsilon, the paper's figure), ascending


def plot_experiment(records, path, title, networks=(), form=None):
    """Draws test accuracy against epsilon, with the paper's figures; returns the path.

    Panels with one or two budgets have bars. Many networks, or several data sets, have panels.
    `networks` come first, in their order. `form` sums up the runs; by default their mean.
    """
    form = form or TableForm()
    experiment = records[0]["experiment"] if records else ""
    every = _series(records, networks, form)
    panels = {}
    for one in every:
        name = captions.panel_of(experiment, one.network, len(every) > _MOST_LINES)
        panels.setdefault(name, []).append(one)
    budgets = {n: len({p[0] for one in s for p in one.ours}) for n, s in panels.items()}
    are_bars = {name: 0 < count <= bars.MOST_BUDGETS for name, count in budgets.items()}
    heights = [bars.height(s) if are_bars[n] else _PANEL[1] for n, s in panels.items()]
    columns = 1 if len(panels) == 1 or all(are_bars.values()) else 2
    rows = [heights[i : i + columns] for i in range(0, len(heights), columns)] or [[_PANEL[1]]]
    size = ((_PANEL[0] + _LABELS) * columns, sum(map(max, rows)) + _HEADER)
    figure = figures.new(*size)
    ratios = [max(row) for row in rows]
    grid = figure.subplots(len(rows), columns, squeeze=False, height_ratios=ratios).ravel()
    for axes in grid[max(len(panels), 1) :]:
        axes.remove()
    for axes, (name, series) in zip(grid, panels.items(), strict=False):
        labels = captions.in_panel([one.label for one in series], name)
        named = [one._replace(label=label) for one, label in zip(series, labels, strict=True)]
        if are_bars[name]:
            bars.draw(axes, named)
        else:
            _draw_lines(axes, named)
        if len(panels) > 1:
            axes.set_title(name, fontsize="medium", loc="left")
    _make_room_at_the_top([axes for axes, n in zip(grid, panels, strict=False) if not are_bars[n]])
    has_paper = any(one.paper for series in panels.values() for one in series)
    figures.entitle(figure, title, captions.note(form.summary, records, has_paper))
    return figures.save(figure, path)


def _series(records, networks, form):
    """List of `Series`, in the order of the networks."""
    cells = by_cell(records, networks)
    # Where nothing is private, there is one column; next to budgets, infinity has no place.
    some_private = any(record["kind"] != "non_private" for record in records)
    found, drawn = [], set()  # of the paper's: variants of a network have its figures
    for norm in dict.fromkeys(norm for norm, _ in cells):
        ours, paper, holds, claimed = [], [], True, False
        for (name, _), group in cells.items():
            # Infinite without privacy; None if the noise was given.
            is_private = group[0]["kind"] != "non_private"
            epsilon = group[0]["epsilon_target"] if is_private else math.inf
            if name != norm or epsilon is None or (some_private and math.isinf(epsilon)):
                continue
            cell = group[0]["cell"]
            values = [record[form.field(cell)] for record in group]
            holds = holds and all(record["guarantee_holds"] for record in group)
            claimed = claimed or any(record["epsilon_claimed"] is not None for record in group)
            ours.append((epsilon, form.middle(values), min(values), max(values)))
            theirs = group[0]["paper_value"] if form.paper is None else form.paper.get(cell)
            if isinstance(theirs, float):
                paper.append((epsilon, theirs))
        if drawn.issuperset(paper):
            paper = []
        drawn.update(paper)
        label = norm if holds else f"{norm}, NO GUARANTEE"
        label += " (epsilon claimed by the paper)" if claimed else ""
        if ours:
            found.append(Series(norm, label, sorted(ours), sorted(paper)))
    return found


def _draw_lines(axes, series):
    """Draws lines with bars from the least to the largest run, and the paper's dashed.

    A line ends where a network has no run at a budget that others have.
    """
    theirs, epsilons = [], sorted({point[0] for one in series for point in one.ours})
    for place, one in enumerate(series):
        color, runs = f"C{place}", {point[0]: point[1:] for point in one.ours}
        middle, low, high = np.array([runs.get(e, 3 * (np.nan,)) for e in epsilons]).T
        look = dict(capsize=3, color=color, marker=_MARKERS[place // _COLOURS % len(_MARKERS)])
        spread = np.abs([low - middle, high - middle])
        axes.errorbar(epsilons, middle, yerr=spread, **look, label=one.label)
        if one.paper:
            theirs.append(f"{one.label}, the paper")
            line = zip(*one.paper, strict=True)
            axes.plot(*line, **_PAPER, color=color, label=theirs[-1])
    axes.set(xscale="log", xlabel="epsilon", ylabel="test accuracy (%)")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    label_lines(axes, skip=theirs)


def plot_weight_noise(records, path, title, networks=()):
    """Draws test accuracy against the noise in the weights, with the paper's figures.

    The levels of the noise are drawn at equal distances. The paper's curve leaves out what did not
    converge. Arguments are as in `plot_experiment`; all records have a `weight_noise_stddev`.
    """
    figure, axes = figure_and_axes()
    cells = by_cell(records, networks)
    steps = sorted({record["weight_noise_stddev"] for record in records})
    for index, network in enumerate(dict.fromkeys(network for network, _ in cells)):
        color = f"C{index}"
        groups = [group for (name, _), group in cells.items() if name == network]
        groups.sort(key=lambda group: group[0]["weight_noise_stddev"])
        places = [steps.index(group[0]["weight_noise_stddev"]) for group in groups]
        ours = [[record["test_accuracy"] for record in group] for group in groups]
        axes.plot(places, list(map(statistics.mean, ours)), marker="o", color=color, label=network)
        for place, values in zip(places, ours, strict=True):
            axes.vlines(place, min(values), max(values), color=color)
        paper = [
            (place, group[0]["paper_value"])
            for place, group in zip(places, groups, strict=True)
            if isinstance(group[0]["paper_value"], float)
        ]
        if paper:
            axes.plot(*zip(*paper, strict=True), **_PAPER, color=color, alpha=0.6)
    if any(isinstance(record["paper_value"], float) for record in records):
        axes.plot([], [], **_PAPER, color="grey", label="the paper")
    axes.set(xlabel="standard deviation of the weights", ylabel="test accuracy (%)")
    axes.set_xticks(range(len(steps)), [f"{step:g}" for step in steps])
    has_paper = "the paper" in axes.get_legend_handles_labels()[1]
    note = captions.note("mean", records, has_paper)
    return saved(figure, axes, path, title, note, ["the paper"])


def plot_training(records, path, title, networks=()):
    """Draws test accuracy against the epoch, a line for each network: the mean over its runs.

    Each data set, the first part of a network's name, has a panel. Where the runs of a network were
    evaluated after different updates, each has a line of its own. Arguments are as in
    `plot_experiment`; records are of one column, and their "curve" has updates.
    """
    panels = {}
    for (network, _), group in by_cell(records, networks).items():
        panels.setdefault(network.partition("-")[0], {})[network] = group
    figure = figures.new((_PANEL[0] + _LABELS) * len(panels), _PANEL[1] + _HEADER)
    for axes, (name, groups) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
    ):
        for index, (network, group) in enumerate(groups.items()):
            runs = [_curve(record) for record in group]
            said = f" ({len(runs)} run{'s' * (len(runs) > 1)})"
            if len({epochs for epochs, _ in runs}) > 1:
                said = f" ({len(runs)} runs, a line each)"
            else:
                runs = [(runs[0][0], np.mean([accuracies for _, accuracies in runs], axis=0))]
            for run, curve in enumerate(runs):
                label = network + said if run == 0 else None
                axes.plot(*curve, marker="o", markersize=3, color=f"C{index}", label=label)
        axes.set(xlabel="epoch", ylabel="test accuracy (%)")
        axes.set_title(name if len(panels) > 1 else "", fontsize="medium", loc="left")
        axes.grid(alpha=0.3)
        label_lines(axes)
    figures.entitle(figure, title)
    return figures.save(figure, path)


def _curve(record):
    """Epochs and test accuracies of a record's curve, a pair of tuples."""
    epochs = tuple(point["updates"] * record["sampling_rate"] for point in record["curve"])
    return epochs, tuple(point["test_accuracy"] for point in record["curve"])


def plot_curves(records, path, title):
    """Draws validation accuracy against the epoch, a line for each cell: the mean over its runs.

    Arguments are as in `plot_experiment`; the "curve" of the records has epochs.
    """
    figure, axes = figure_and_axes()
    for (network, column), group in sorted(
        by_cell(records).items(), key=lambda item: item[1][0]["weight_noise_stddev"]
    ):
        means = mean_curve(group, lambda _, point: point["epoch"], "validation_accuracy")
        label = f"{network}, {column}"
        axes.plot(*zip(*means.items(), strict=True), marker="o", markersize=3, label=label)
    axes.set(xlabel="epoch", ylabel="validation accuracy (%)")
    return saved(figure, axes, path, title)


def figure_and_axes():
    """Returns a figure of one panel, and the panel."""
    figure = figures.new(_PANEL[0] + _LABELS, _PANEL[1] + _HEADER)
    return figure, figure.subplots()


def saved(figure, axes, path, title, note="", skip=()):
    """Adds grid and labels to a panel of accuracies, saves its figure and returns the path.

    `note` says what points and bars are; labels of lines in `skip` are left out.
    """
    _make_room_at_the_top([axes])
    axes.grid(alpha=0.3)
    label_lines(axes, skip)
    figures.entitle(figure, title, note)
    return figures.save(figure, path)


def _make_room_at_the_top(panels):
    """Scales axes by the log of the error where accuracies range from low to nearly 100 %.

    98 and 99 % are then as far apart as 80 and 90 %; a linear axis would draw them as one line. All
    panels of a figure are scaled alike.
    """
    limits = [axes.dataLim.intervaly for axes in panels]
    if not any(high > 85 and high - low > 15 for low, high in limits):
        return
    for axes, (low, high) in zip(panels, limits, strict=True):
        ticks = [
            tick
            for index, tick in enumerate(_TICKS)
            if _TICKS[min(index + 1, len(_TICKS) - 1)] > low and _TICKS[max(index - 1, 0)] < high
        ]
        axes.set_yscale(
            "function", functions=(lambda y: -np.log10(_TOP - y), lambda v: _TOP - 10.0**-v)
        )
        axes.set_ylim(ticks[0], ticks[-1])
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_ylabel(f"{axes.get_ylabel()}, log scale of the error")
