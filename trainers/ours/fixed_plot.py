"""Heads on fixed features next to published figures, a point for each of their sources."""

import statistics

from trainers.ours.fixed_cells import PUBLISHED
from trainers.report import captions
from trainers.report import figure as figures
from trainers.report.tables import by_cell

_PANEL, _LABELS = (3.6, 3.6), 2.2  # inches; of labels beside a panel
_MARKERS = "xsD^vP"


def plot_published(records, path, title, networks=()):
    """Draws test accuracy against epsilon, a panel for each data set; returns the path."""
    groups = by_cell(records, networks)
    panels = list(dict.fromkeys(network.partition("-")[0] for network, _ in groups))
    figure = figures.new((_PANEL[0] + _LABELS) * len(panels), _PANEL[1] + 0.8)
    for axes, dataset in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
    ):
        ours = {
            group[0]["epsilon_target"]: [record["test_accuracy"] for record in group]
            for (network, _), group in groups.items()
            if network.startswith(f"{dataset}-")
        }
        epsilons = sorted(ours)
        means = [statistics.mean(ours[e]) for e in epsilons]
        low = [mean - min(ours[e]) for e, mean in zip(epsilons, means, strict=True)]
        high = [max(ours[e]) - mean for e, mean in zip(epsilons, means, strict=True)]
        axes.errorbar(epsilons, means, yerr=[low, high], capsize=3, marker="o", label="ours")
        theirs = [entry[1:] for entry in PUBLISHED if entry[0] == dataset]
        for place, (epsilon, accuracy, source, weights) in enumerate(theirs):
            size = "" if weights is None else f" ({weights:,} weights)"
            look = dict(marker=_MARKERS[place], color=f"C{place + 1}", linestyle="")
            axes.plot([epsilon], [accuracy], label=source + size, **look)
        axes.set(xscale="log", xlabel="epsilon", ylabel="test accuracy (%)")
        axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.set_title(dataset, fontsize="medium", loc="left")
        figures.label_lines(axes)
    figures.entitle(figure, title, captions.note("mean", records, paper=False))
    return figures.save(figure, path)


PLOTS = {"without_public_data": plot_published}
