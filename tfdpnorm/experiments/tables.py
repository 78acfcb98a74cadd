"""Tables and plots, made from records and nothing else."""

import collections
import math
import pathlib
import statistics

from tfdpnorm.privacy.rounding import ceil_text

_GUARANTEE = {True: "yes", False: "NO GUARANTEE"}
# In these the runs of one cell may differ and still be averaged.
_NO_SETTINGS = ("seed", "engine", "physical_batch_size")
# These concern networks with public-batch normalisation only.
_PUBLIC_SETTINGS = (
    "statistics",
    "statistics_gradient",
    "pull_back_weight",
    "public_dataset",
    "public_batch_size",
)


def run_table(records):
    """Returns a text table of runs: what was trained, accuracy, epsilon, does the guarantee hold.

    Args:
        records: List of records.
    """
    header = ("run", "test accuracy %", "weight average %", "epsilon spent", "guarantee holds")
    rows = [
        (
            record["cell"],
            f"{record['test_accuracy']:.2f}",
            _percent(record["test_accuracy_ema"]),
            ceil_text(record["epsilon"]) if record["guarantee_holds"] else "-",
            _GUARANTEE[record["guarantee_holds"]],
        )
        for record in records
    ]
    return _aligned([header, *rows])


def experiment_table(records):
    """Returns a Markdown table of one experiment: a row per network, a column per epsilon.

    An entry is the mean over seeds of the last weights' test accuracy, +- the standard deviation,
    the mean of the weight average's in brackets where there is one, and the paper's figure.

    Args:
        records: Records of one experiment.

    Raises:
        ValueError: if there are none.
    """
    cells = _by_cell(records)
    norms = list(dict.fromkeys(norm for norm, _ in cells))
    columns = sorted({column for _, column in cells}, key=_column_order)
    lines = [
        "| network | " + " | ".join(columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for norm in norms:
        entries = [_entry(cells.get((norm, column), [])) for column in columns]
        lines.append(f"| {norm} | " + " | ".join(entries) + " |")
    return "\n".join(lines)


def _entry(records):
    if not records:
        return ""
    accuracies = [record["test_accuracy"] for record in records]
    text = f"{statistics.mean(accuracies):.2f}"
    if len(records) > 1:
        text += f" +- {statistics.stdev(accuracies):.2f}"
    averages = [r["test_accuracy_ema"] for r in records if r["test_accuracy_ema"] is not None]
    if len(averages) == len(records):
        text += f" [{statistics.mean(averages):.2f}]"
    if records[0]["paper_value"] is not None:
        text += f"; paper {records[0]['paper_value']:.2f}"
    text += f" ({len(records)} runs)" if len(records) > 1 else " (1 run)"
    if any(_settings(record) != _settings(records[0]) for record in records):
        text += "; settings differ"
    if any(record["scale"] != "full" for record in records):
        text += "; reduced scale"
    if not all(record["guarantee_holds"] for record in records):
        text += "; NO GUARANTEE"
    return text


def _settings(record):
    left_out = set(_NO_SETTINGS)
    if record["flags"].get("norm") != "public_batch":
        left_out.update(_PUBLIC_SETTINGS)
    return {
        # 1.5 * 0.4 and 0.6 are the same setting.
        name: f"{value:.9g}" if isinstance(value, float) else value
        for name, value in record["flags"].items()
        if name not in left_out
    }


def plot_runs(curves, path, title):
    """Draws test accuracy against the epsilon spent and returns the path of the PNG.

    Args:
        curves: Dict from a name to a list of (updates, epsilon, test accuracy in percent). Curves
            without a finite epsilon are drawn against nothing and therefore left out.
        path: File to write.
        title: Title of the plot.
    """
    figure, axes = _figure()
    for name, points in curves.items():
        points = [(eps, accuracy) for _, eps, accuracy in points if math.isfinite(eps)]
        if not points:
            continue
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
    axes.set(xlabel="epsilon spent so far", ylabel="test accuracy (%)", title=title)
    return _saved(figure, axes, path)


def plot_experiment(records, path, title):
    """Draws test accuracy against epsilon, the paper's figures beside ours; returns the path."""
    figure, axes = _figure()
    cells = _by_cell(records)
    for index, norm in enumerate(dict.fromkeys(norm for norm, _ in cells)):
        color = f"C{index}"
        ours, paper, holds = [], [], True
        for (name, _), group in cells.items():
            epsilon = group[0]["epsilon_target"]
            if name != norm or epsilon is None or not math.isfinite(epsilon):
                continue
            values = [record["test_accuracy"] for record in group]
            holds = holds and all(record["guarantee_holds"] for record in group)
            ours.append((epsilon, statistics.mean(values), min(values), max(values)))
            if group[0]["paper_value"] is not None:
                paper.append((epsilon, group[0]["paper_value"]))
        if ours:
            x, mean, low, high = zip(*sorted(ours), strict=True)
            spread = [[m - a for m, a in zip(mean, low, strict=True)],
                      [b - m for m, b in zip(mean, high, strict=True)]]
            label = norm if holds else f"{norm}, NO GUARANTEE"
            axes.errorbar(x, mean, yerr=spread, marker="o", capsize=3, color=color, label=label)
        if paper:
            axes.plot(
                *zip(*sorted(paper), strict=True),
                linestyle="--", marker="x", color=color, label=f"{norm}, the paper",
            )
    axes.set(xscale="log", xlabel="epsilon", ylabel="test accuracy (%)", title=title)
    return _saved(figure, axes, path)


def _by_cell(records):
    if not records:
        raise ValueError("Expected at least one record, got none. Train a cell first.")
    cells = collections.defaultdict(list)
    for record in records:
        norm, _, column = record["cell"].partition("/")
        cells[norm, column].append(record)
    return dict(cells)


def _column_order(column):
    """Largest epsilon first, as in the papers; columns that are no epsilon last."""
    name, _, value = column.partition("=")
    return (name != "eps", -float(value) if name == "eps" else 0.0, column)


def _percent(value):
    return "-" if value is None else f"{value:.2f}"


def _aligned(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _figure():
    # Not pyplot: it would look for a screen.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    return figure, figure.subplots()


def _saved(figure, axes, path):
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return path
