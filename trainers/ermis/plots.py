"""The figures of Ermis & Cemgil (2017), made from records and nothing else."""

import collections
import math
import statistics

from trainers.ermis import published
from trainers.report import figure as figures


def plot_progress(records, path, title, networks=()):
    """Draws test accuracy against passes, a panel for each epsilon and data set; returns the path.

    Args:
        records: Records of one experiment.
        path: File to write.
        title: Title of the plot.
        networks: Networks in their order; others follow.
    """
    from matplotlib import colormaps
    from matplotlib.ticker import LogFormatter

    order = {name: place for place, name in enumerate(networks)}
    cells = collections.defaultdict(lambda: collections.defaultdict(list))
    for record in sorted(records, key=lambda r: order.get(r["network"], len(order))):
        if record["curve"]:
            panel = (record["column"], _dataset(record["network"]))
            cells[panel][record["network"]].append(record)
    shown = sorted(cells, key=lambda panel: (float(panel[0].partition("=")[2]), panel[1]))
    colors = _colors(order, colormaps["tab20"])
    figure = figures.new(4.5 * len(shown), 7)
    panels = figure.subplots(1, len(shown), squeeze=False)[0]
    for axes, (column, dataset) in zip(panels, shown, strict=True):
        for name, group in cells[column, dataset].items():
            claimed = group[0]["epsilon_claimed"] is not None
            label = f"{name} (claimed, no guarantee)" if claimed else name
            style = "--" if claimed else "-"
            axes.plot(*_curve(group), style, marker=".", color=colors.get(name), label=label)
        # From two updates to 200 passes.
        axes.set(xlabel="passes over the data", xscale="log", ylabel="test accuracy (%)")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(LogFormatter())
        axes.set_title(f"{dataset}, {column}")
        axes.grid(alpha=0.3)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize="small")
    figure.suptitle(title)
    return figures.save(figure, path)


def _dataset(network):
    return network.partition("-")[0]


def _colors(networks, colormap):
    """Dict from a network to its color, others for each of the same data set."""
    places = collections.Counter()
    colors = {}
    for name in networks:
        colors[name] = colormap(places[_dataset(name)] % 20)
        places[_dataset(name)] += 1
    return colors


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
    figure = figures.new(4 * len(names), 3.6)
    all_axes = figure.subplots(1, len(names), squeeze=False)
    for axes, name in zip(all_axes[0], names, strict=True):
        found = collections.defaultdict(list)
        for record in records:
            if record["network"] == name:
                value = float(record["column"].partition("=")[2])
                found[value].append(record["test_accuracy"])
        line = sorted((value, statistics.mean(values)) for value, values in found.items())
        axes.plot(*zip(*line, strict=True), marker="o")
        axes.set(xlabel=name, ylabel="test accuracy (%)")
        axes.grid(alpha=0.3)
    figure.suptitle(title)
    return figures.save(figure, path)


def plot_table(records, path, title, networks=()):
    """Draws test accuracy against epsilon, a panel for each data set; returns the path.

    Claims are dashed: there is no guarantee of their epsilon. The crosses are the paper's figures
    of its own method by zCDP. Arguments are as in `plot_progress`; networks are "dataset-row".
    """
    present = [record["network"] for record in records]
    networks = [n for n in dict.fromkeys([*networks, *present]) if n in present]
    found = collections.defaultdict(list)
    for record in records:
        if record["epsilon_target"] not in (None, math.inf):
            found[record["network"], record["epsilon_target"]].append(record)
    rows = {n: sorted(e for name, e in found if name == n) for n in networks}
    datasets = list(dict.fromkeys(map(_dataset, networks)))
    figure = figures.new(5.5 * len(datasets), 7)
    panels = figure.subplots(1, len(datasets), squeeze=False)[0]
    for axes, dataset in zip(panels, datasets, strict=True):
        shown = [n for n in networks if rows[n] and _dataset(n) == dataset]
        for place, name in enumerate(shown):
            groups = [found[name, epsilon] for epsilon in rows[name]]
            means = [statistics.mean(r["test_accuracy"] for r in group) for group in groups]
            claimed = groups[0][0]["epsilon_claimed"] is not None
            label = name.removeprefix(f"{dataset}-") + (" (claimed)" if claimed else "")
            style = {"linestyle": "--" if claimed else "-", "marker": "os^"[place // 10 % 3]}
            axes.plot(rows[name], means, **style, label=label)  # Ten colours, then other markers.
        theirs = sorted(published.TABLE1.get(dataset, {}).get("dpvd-zcdp", {}).items())
        if theirs:
            axes.plot(*zip(*theirs, strict=True), "kx", label="dpvd-zcdp, the paper (claimed)")
        axes.set(xlabel="epsilon", xscale="log", ylabel="test accuracy (%)", title=dataset)
        axes.grid(alpha=0.3)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, fontsize="small")
    figure.suptitle(title)
    return figures.save(figure, path)


PLOTS = {
    "ermis_table1": plot_table,
    "ermis_figure1": plot_progress,
    "ermis_figure2": plot_progress,
    "ermis_figure4": plot_progress,
    "ermis_figure5": plot_options,
}
