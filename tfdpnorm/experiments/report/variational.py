"""The figures of Ermis & Cemgil (2017), made from records and nothing else."""

import collections
import statistics

from tfdpnorm.experiments.report.plots import figure_and_axes, saved


def plot_progress(records, path, title, networks=()):
    """Draws test accuracy against passes over the data, one line for each cell; returns the path.

    Args:
        records: Records of one experiment, of kind "variational".
        path: File to write.
        title: Title of the plot.
        networks: Networks in their order; others follow.
    """
    figure, axes = figure_and_axes()
    order = {name: place for place, name in enumerate(networks)}
    by_cell = collections.defaultdict(list)
    for record in sorted(records, key=lambda r: order.get(r["network"], len(order))):
        by_cell[record["cell"]].append(record)
    for name, group in by_cell.items():
        points = collections.defaultdict(list)
        for record in group:
            for point in record["curve"]:
                passes = point["updates"] * record["sampling_rate"]
                points[round(passes, 3)].append(point["test_accuracy"])
        line = sorted((passes, statistics.mean(values)) for passes, values in points.items())
        if line:
            claimed = group[0]["epsilon_claimed"] is not None
            label = f"{name} (claimed, no guarantee)" if claimed else name
            axes.plot(*zip(*line, strict=True), "--" if claimed else "-", label=label)
    axes.set(xlabel="passes over the data", ylabel="test accuracy (%)", title=title)
    return saved(figure, axes, path)


def plot_knobs(records, path, title, networks=()):
    """Draws test accuracy against one setting in each panel, others fixed; returns the path.

    Args:
        records: Records whose columns are "name=value", the network being the name.
        path: File to write.
        title: Title of the plot.
        networks: Names in their order; others are left out.
    """
    from matplotlib.figure import Figure  # not pyplot: it would look for a screen

    names = [n for n in networks if any(record["network"] == n for record in records)]
    figure = Figure(figsize=(4 * len(names), 3.6), layout="constrained")
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
    figure.savefig(path, dpi=110)
    return path


PLOTS = {
    "ermis_figure1": plot_progress,
    "ermis_figure2": plot_progress,
    "ermis_figure4": plot_progress,
    "ermis_figure5": plot_knobs,
}
