"""Tables, made from records and nothing else."""

import collections
import math
import statistics
from typing import NamedTuple

from tfdpnorm.privacy.rounding import ceil_text
from trainers.records.fields import paper_text
from trainers.report.markdown import mean_text, table
from trainers.runs.settings import differing

_GUARANTEE = {True: "yes", False: "NO GUARANTEE"}
_MOST_NAMES = 3  # of settings in an entry


class TableForm(NamedTuple):
    """How a table is made from records. Its dicts are from the names of cells, or of networks."""

    # "mean": over runs, and their standard deviation; "median": and mean, deviation, least and
    # largest behind it; "best": the largest.
    summary: str = "mean"
    paper: dict | None = None  # the paper's figures, in place of those of the records
    top5: dict | None = None  # those for the label among the five largest logits, shown as well
    by_top5: tuple = ()  # cells of which these are shown in place of the accuracy
    minutes: dict | None = None  # training times by network: two more columns have them, and ours
    beside: str = "paper"  # what is said before the figures beside ours
    errors: dict | None = None  # the paper's standard errors, in place of deviations; so are ours

    def field(self, cell):
        """The field of the records whose accuracies stand for a cell."""
        return "test_top5" if cell in self.by_top5 else "test_accuracy"

    def caption(self):
        """What an entry of the table is, in words."""
        spread = "deviation" if self.errors is None else "error"
        return {
            "mean": f"mean +- standard {spread} over runs [weight average]",
            "median": "median over runs (mean +- standard deviation, least to largest) "
            "[weight average]",
            "best": "the best of all runs [weight average]",
        }[self.summary]

    def summed_up(self, values):
        """The accuracies of a cell's runs, in words."""
        if self.summary == "best":
            return f"{max(values):.2f}"
        if self.errors is not None and len(values) > 1:
            error = statistics.stdev(values) / math.sqrt(len(values))
            return f"{statistics.mean(values):.2f} +- {error:.2f}"
        if self.summary == "mean" or len(values) == 1:
            return mean_text(values)
        around = f"{mean_text(values)}, {min(values):.2f} to {max(values):.2f}"
        return f"{statistics.median(values):.2f} ({around})"

    def of_the_paper(self, record):
        """The paper's figure for a record's cell, with its standard error if it prints one."""
        cell = record["cell"]
        figure = paper_text(record) if self.paper is None else self.paper.get(cell)
        error = (self.errors or {}).get(cell)
        return figure if error is None else f"{figure} +- {error:.2f}"

    def middle(self, values):
        """One number for the accuracies of a cell's runs."""
        middles = {"mean": statistics.mean, "median": statistics.median, "best": max}
        return middles[self.summary](values)


def run_table(records):
    """Returns a text table of runs: accuracy, epsilon, and whether a guarantee holds."""
    header = ("run", "test accuracy %", "weight average %", "epsilon spent", "guarantee holds")
    rows = [
        (
            record["cell"],
            f"{record['test_accuracy']:.2f}",
            "-" if record["test_accuracy_ema"] is None else f"{record['test_accuracy_ema']:.2f}",
            ceil_text(record["epsilon"]) if record["guarantee_holds"] else "-",
            _GUARANTEE[record["guarantee_holds"]],
        )
        for record in records
    ]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, ["-" * width for width in widths], *rows)
    ]
    return "\n".join(lines)


def experiment_table(records, networks=(), more=None, form=None):
    """Returns a Markdown table of one experiment: a row per network, a column per epsilon.

    Or a column per standard deviation of the noise in the weights. An entry sums the last weights'
    test accuracies up over seeds, as the form says, has the weight average's in brackets where
    there is one, and the paper's figure. `networks` come first, in their order. `more` has further
    columns: a dict from a heading to a dict from a network to its entry.
    """
    form = form or TableForm()
    more = {**(more or {}), **(_minutes(records, form.minutes) if form.minutes else {})}
    cells = by_cell(records, networks)
    rows = list(dict.fromkeys(network for network, _ in cells))
    columns = sorted({column for _, column in cells}, key=_column_order)
    lines = [
        (
            network,
            *(_entry(cells.get((network, column), []), form) for column in columns),
            *(column.get(network, "") for column in more.values()),
        )
        for network in rows
    ]
    return table(("network", *columns, *more), lines, rule="---")


def caption(records):
    """Returns what the table of an experiment's records says first; "" for nothing."""
    if records[0]["kind"] != "non_private":
        return ""
    if records[0]["weight_noise_stddev"] is None:
        return "Trained without privacy. "
    return "Trained without privacy, with noise in the weights. "


def public_knowledge(records):
    """Returns a line for each thing that was learnt before, on public data; "" if nothing was."""
    networks = collections.defaultdict(dict)
    for record in records:
        if record["pretrained"]:
            networks[record["pretrained"]][record["network"]] = None
    return "\n".join(
        f"Public data: {', '.join(names)} had {what}." for what, names in networks.items()
    )


def _minutes(records, theirs):
    """Two further columns: the median wall time of each network's runs, and the paper's.

    That of a resumed run is not known: its record has the time since it was last resumed. What a
    network costs is for `benchmarks/`: runs of a sweep share the machine.
    """
    seconds, devices = collections.defaultdict(list), collections.defaultdict(dict)
    for record in records:
        devices[record["network"]][record["device"] or "device not recorded"] = None
        if not record["resumes"]:
            seconds[record["network"]].append(record["seconds"])
    of_network = {
        name: f"{statistics.median(s) / 60:.0f} on {' and '.join(devices[name])}"
        for name, s in seconds.items()
    }
    return {"minutes a run, beside others": of_network, "paper: minutes": theirs}


def _entry(records, form):
    if not records:
        return ""
    cell = records[0]["cell"]
    if cell in form.by_top5:
        text = _figures(records, form, form.field(cell), (form.paper or {}).get(cell), "top-5 ")
    else:
        text = _figures(records, form, "test_accuracy", form.of_the_paper(records[0]))
        if cell in (form.top5 or {}):
            text += "; " + _figures(records, form, "test_top5", form.top5[cell], "top-5 ")
    text += f" ({len(records)} runs)" if len(records) > 1 else " (1 run)"
    if names := differing(records):
        more = [f"and {len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else []
        text += f"; settings differ: {', '.join([*names[:_MOST_NAMES], *more])}"
    if any(record["flags"].get("plateau") == "test" for record in records):
        text += "; learning rate halved by the test set"
    if any(record["scale"] != "full" for record in records):
        text += "; not as in the paper"
    if any(record["weights_from_elsewhere"] for record in records):
        text += "; the epsilon of an earlier run adds to it"
    if any(record["epsilon_claimed"] is not None for record in records):
        text += "; epsilon claimed by the paper, NOT A GUARANTEE"
        if all(record["guarantee_holds"] for record in records):
            spent = max(record["epsilon"] for record in records)
            text += f"; epsilon {ceil_text(spent)} spent ({records[0]['accountant']})"
        return text
    # Only private runs say that they are, and a search.
    private = [r for r in records if r["kind"] == "private" or r["epsilon_of_a_trial"] is not None]
    if not all(record["guarantee_holds"] for record in private):
        return f"{text}; NO GUARANTEE"
    # A resumed run may have spent more than its column's epsilon.
    over = [r["epsilon"] for r in records if r["epsilon"] > (r["epsilon_target"] or math.inf)]
    return f"{text}; epsilon {ceil_text(max(over))} spent" if over else text


def _figures(records, form, field, theirs, what=""):
    """One kind of accuracy of a cell's runs, its weight average's, and the paper's."""
    values, averages = (
        [record[name] for record in records if record[name] is not None]
        for name in (field, f"{field}_ema")
    )
    if not values:
        return f"{what}not measured"
    text = what + form.summed_up(values)
    if len(averages) == len(records):
        text += f" [{form.middle(averages):.2f}]"
    if theirs:
        text += f"; {form.beside} {theirs if isinstance(theirs, str) else f'{theirs:.2f}'}"
    return text


def by_cell(records, networks=()):
    """Returns a dict from (network, column) to the records of that cell, `networks` first."""
    if not records:
        raise ValueError("Expected at least one record, got none. Train a cell first.")
    cells = collections.defaultdict(list)
    for record in records:
        cells[record["network"], record["column"]].append(record)
    place = {network: index for index, network in enumerate(networks)}
    return dict(sorted(cells.items(), key=lambda item: place.get(item[0][0], len(place))))


def mean_curve(records, place, field):
    """Returns the mean of a field of the curves of runs, a dict by place, ascending.

    `place` is a function of a record and a point of its curve.
    """
    found = collections.defaultdict(list)
    for record in records:
        for point in record["curve"] or ():
            found[place(record, point)].append(point[field])
    return {at: statistics.mean(found[at]) for at in sorted(found)}


def _column_order(column):
    """Largest epsilon and least noise first, as in the papers; columns that are neither last."""
    name, _, value = column.partition("=")
    sign = {"eps": -1, "stddev": 1}.get(name)
    return (sign is None, sign * float(value) if sign else 0.0, column)
