"""What a search found, and what it is worth: tables and a plot, made from records."""

import statistics

from tfdpnorm.privacy.rounding import ceil_text
from trainers.records.store import file_name
from trainers.report.markdown import table
from trainers.report.plots import figure_and_axes, saved


def has_search(record):
    """Whether a record is that of the winner of a search."""
    return record["trials"] is not None


def name_of(record):
    """A name for files about a record."""
    return f"{file_name(record['experiment'] + '-' + record['cell'])}-seed{record['seed']}"


def trials_table(record):
    """Returns a Markdown table of the trials in a search's record, the best first."""
    rows = record["trials"]["rows"]
    names = list(dict.fromkeys(name for row in rows for name in row["settings"]))
    cells = [
        (
            *(_text(row["settings"].get(name, "")) for name in names),
            f"{100 * row['score']:.1f}",
            f"{row['test_accuracy']:.2f}",
            ("NOT FOR RELEASE" if row["not_for_release"] else "yes")
            + (", the winner" if row["is_winner"] else ""),
        )
        for row in rows
    ]
    header = [*names, "score %", "test accuracy %", "release"]
    head = f"{record['cell']}, seed {record['seed']}: {record['search']}. {in_epsilons(record)}."
    note = record["trials"]["note"]
    parts = [head, *([note] if note else []), table(header, cells, rule="---")]
    return "\n\n".join(parts) + "\n"


def in_epsilons(record):
    """The epsilons of a search's record, in words."""
    if not record["guarantee_holds"]:
        return f"NO GUARANTEE: {'; '.join(record['no_guarantee_because'])}"
    return (
        f"Epsilon of the search {ceil_text(record['epsilon'])}, of one trial alone "
        f"{ceil_text(record['epsilon_of_a_trial'])}, of as many trials as are expected, all "
        f"released, {ceil_text(record['epsilon_of_trials_composed'])}; delta {record['delta']:g}"
    )


def searches_table(records):
    """Returns a Markdown table of searches: the winners, and how the trials' accuracies spread."""
    header = (
        "search", "epsilon", "of one trial", "of all composed", "winner: settings", "score %",
        "test accuracy %", "trials: median test accuracy % (least to largest)",
    )  # fmt: skip
    lines = []
    for record in filter(has_search, records):
        rows = record["trials"]["rows"]
        (winner,) = [row for row in rows if row["is_winner"]]
        settings = ", ".join(f"{name} {_text(value)}" for name, value in winner["settings"].items())
        accuracies = [row["test_accuracy"] for row in rows]
        spread = (
            f"{statistics.median(accuracies):.2f} ({min(accuracies):.2f} to {max(accuracies):.2f})"
        )
        epsilons = ("epsilon", "epsilon_of_a_trial", "epsilon_of_trials_composed")
        cells = [
            f"{record['cell']} seed {record['seed']}",
            *("none" if record[name] is None else ceil_text(record[name]) for name in epsilons),
            settings,
            f"{100 * winner['score']:.1f}",
            f"{winner['test_accuracy']:.2f}",
            f"{len(rows)}: {spread}" if len(rows) > 1 else "not recorded",
        ]
        lines.append(cells)
    return table(header, lines, rule="---")


def _text(value):
    return value if isinstance(value, str) else f"{value:g}"


def plot_searches(records, path, title, networks=()):
    """Draws the test accuracy of runs, and of searches with their trials; returns the path.

    Arguments are as in `trainers.report.plots.plot_experiment`.
    """
    figure, axes = figure_and_axes()
    known = [*networks, *(record["network"] for record in records)]
    present = {record["network"] for record in records}
    places = {name: i for i, name in enumerate(dict.fromkeys(n for n in known if n in present))}
    labelled = set()

    def point(record, accuracy, label, shift=0.0, **style):
        label = None if label in labelled else labelled.add(label) or label
        x = places[record["network"]] + 0.15 * (record["seed"] - 1) + shift
        axes.plot([x], [accuracy], linestyle="none", label=label, **style)

    for record in records:
        if not has_search(record):
            point(record, record["test_accuracy"], "one run", marker="o", color="C0")
            continue
        for row in record["trials"]["rows"]:
            if row["is_winner"]:
                style = dict(marker="*", markersize=11, color="C3", zorder=3)
                point(record, row["test_accuracy"], "selected trial of a search", **style)
            else:
                style = dict(marker="x", markersize=4, color="grey")
                label = "its other trials\n(not for release, had\nthe data been private)"
                point(record, row["test_accuracy"], label, shift=0.05, **style)
    axes.set_xticks(range(len(places)), list(places), rotation=20, ha="right")
    axes.set_xlim(-0.6, len(places) - 0.4)
    axes.set(ylabel="test accuracy (%)")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), fontsize="small")
    return saved(figure, axes, path, title, skip=axes.get_legend_handles_labels()[1])
