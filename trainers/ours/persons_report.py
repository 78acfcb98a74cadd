"""Table and plot of training on several rows of a person, made from records."""

import statistics

from tfdpnorm.privacy.rounding import ceil_text
from trainers.ours.persons_runs import KINDS, WAYS, Way
from trainers.report import figure as figures
from trainers.report.markdown import runs_text, table

_PANEL = (4.8, 3.6)  # inches
_LEGEND_WIDTH = 8.0


def persons_text(records):
    """Returns the tables, in Markdown, one for each data set and kind of persons."""
    parts = [
        f"Made from {len(records)} records by `python -m trainers.per_person --nocompute "
        "--output_dir=...`. Test accuracy in percent: mean +- standard deviation over runs, which "
        "differ in persons, weights and noise. Epsilon is that of a person with up to 10 rows, but "
        "for the last line, which is NOT COMPARABLE: there it is that of a row, and the epsilon "
        "of a person with 10 rows is in brackets."
    ]
    for (dataset, kind), group in _by(records, "dataset", "persons").items():
        epsilons = _epsilons(group)
        rows = [
            (_name(way), *(_entry(of_way, epsilon) for epsilon in epsilons))
            for way, of_way in _by_way(group)
        ]
        largest = max(record["num_rows"] for record in group)
        persons = sorted({record["num_persons"] for record in group})
        count = " to ".join(f"{number:,}" for number in dict.fromkeys((persons[0], persons[-1])))
        parts += [
            f"**{dataset}, {KINDS[kind]}** ({largest:,} rows of {count} persons)",
            table(("way", *(f"epsilon {epsilon:g}" for epsilon in epsilons)), rows),
        ]
    return "\n\n".join(parts)


def plot_persons(records, path):
    """Draws test accuracy against epsilon, a panel for each data set and kind; returns the path."""
    panels = _by(records, "dataset", "persons")
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    legend = 0.25 * -(-len(WAYS) // columns) + 0.2  # inches
    width = max(_PANEL[0] * columns, _LEGEND_WIDTH)
    figure = figures.new(width, _PANEL[1] * rows + legend)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel, ((dataset, kind), group) in zip(axes, panels.items(), strict=False):
        for way, of_way in _by_way(group):
            _draw(panel, way, of_way)
        epsilons = _epsilons(group)
        panel.set(xscale="log", xlabel="epsilon of a person", ylabel="test accuracy (%)")
        panel.set_title(f"{dataset}: {KINDS[kind]}", fontsize="medium")
        panel.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=columns)
    figure.suptitle(
        "Several rows of a person: accuracy at equal epsilon of a person\n"
        "(mean of the runs; error bars: least to largest run)",
        fontsize="medium",
    )
    return figures.save(figure, path)


def _draw(panel, way, records):
    epsilons = _epsilons(records)
    runs = [[r["test_accuracy"] for r in _at(records, epsilon)] for epsilon in epsilons]
    means = [statistics.mean(values) for values in runs]
    low = [mean - min(values) for mean, values in zip(means, runs, strict=True)]
    high = [max(values) - mean for mean, values in zip(means, runs, strict=True)]
    per_person = way.unit == "person"
    panel.errorbar(
        epsilons,
        means,
        yerr=[low, high],
        capsize=3,
        linestyle=":" if way.is_for_row else "-" if per_person else "--",
        marker="s" if per_person else "o",
        color="grey" if way.is_for_row else f"C{WAYS.index(way)}",
        label=_name(way),
    )


def _entry(records, epsilon):
    runs = _at(records, epsilon)
    if not runs:
        return ""
    text = runs_text([record["test_accuracy"] for record in runs])
    if not runs[0]["way"]["is_for_row"]:
        return text
    return f"{text} [{ceil_text(max(record['epsilon_of_person'] for record in runs))}]"


def _name(way):
    return f"{way.name}: NOT COMPARABLE" if way.is_for_row else way.name


def _epsilons(records):
    return sorted({record["epsilon_target"] for record in records})


def _at(records, epsilon):
    return [record for record in records if record["epsilon_target"] == epsilon]


def _by_way(records):
    """Pairs (way, its records) in the order of the ways."""
    pairs = [(way, [r for r in records if Way(**r["way"]) == way]) for way in WAYS]
    return [(way, of_way) for way, of_way in pairs if of_way]


def _by(records, *fields):
    """Dict from values of the fields, sorted, to records."""
    found = {}
    for record in sorted(records, key=lambda record: [record[field] for field in fields]):
        found.setdefault(tuple(record[field] for field in fields), []).append(record)
    return found
