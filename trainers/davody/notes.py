"""What Davody et al. (2020) claim of their tables, compared with ours: notes below each table.

`of_table2` and the like return lists of notes. Every figure in them is computed from the records,
or is the paper's own.
"""

import statistics

from trainers.davody import published, slowdown
from trainers.report import captions
from trainers.report.tables import by_cell

_POINTS = 5.0  # so many more than the paper's, and a loss of accuracy contradicts it
_LEARNT = 2.0  # times chance: an accuracy below has learnt next to nothing
_CONVERGED = 0.5  # of the accuracy without noise: one below is not called convergence
_CHANCE = 10.0  # percent, of ten classes
_SMALLER = (
    "These runs are smaller than the paper's ({scale}), so they cannot show whether scale explains "
    "the difference."
)


def of_table2(records):
    return [
        f"Standard errors: ours of {captions.runs(records)}, the paper's of ten.",
        _small_noise(records, 0.3),
        *_robustness(records, published.TABLE2),
    ]


def of_table3(records):
    return [
        "Standard errors: the paper's; of how many runs it does not say.",
        *_robustness(records, published.TABLE3),
        "Where the logits are not normalised, the noise in their weights reaches the output in "
        "full, and their means have to outgrow it. results/SEARCH.md has the rates that were "
        f"tried. {_less_reduced(records)}",
    ]


def _less_reduced(records):
    """What longer or wider ResNet-18s do, whose names continue that of the reduced one."""
    name, means = "batch-resnet18-hidden", _means(records)
    found = {network: mean for (network, at), mean in means.items() if at == "stddev=1"}
    others = [
        f"{mean:.1f} % with {network.removeprefix(name + '-').replace('_', ' ')}"
        for network, mean in found.items()
        if network.startswith(f"{name}-")
    ]
    if not others or name not in found:
        return "We did not try whether more updates or wider networks would reach the paper's."
    theirs = published.TABLE3["resnet18", "batch", "hidden"][1]
    return (
        f"Is scale the reason why {name} has {found[name]:.1f} % at 1, where the paper's has "
        f"{theirs:.1f} %? Less reduced, at the same rate, it has {', '.join(others)}."
    )


def of_table4(records):
    halved = {record["flags"].get("plateau", "none") for record in records} != {"none"}
    notes = _robustness(records, published.TABLE4)
    if not halved:
        notes.append(
            "The paper stops early and adapts its learning rate on 24,000 validation texts. These "
            "runs do neither: their rate falls along a cosine over a fixed number of epochs. "
            "`--plateau=validation` and `--early_stopping` do both, as `--scale=paper` does."
        )
    return notes


def of_table5(records):
    figures = _private_figures(published.TABLE5)
    return [
        *_better("layer", "none", records, figures),
        *_better("public_batch", "layer", records, figures),
        *_better("layer-all", "none", records, figures),
        "Rows ending in `-all` have the networks of the paper's Section 2, which normalises the "
        "logits too; in the others they are not normalised. Rows with `128_rows` have as many "
        "public images as the paper, and one view of each private one. Nothing was searched for "
        "these rows; the network without normalisation has another activation (tanh).",
        *(_lot(records) or [_without_lot(records)]),
    ]


def of_table6(records):
    rows = by_cell(records)
    figures = _private_figures(published.TABLE6)
    return [
        *_better("layer", "none", records, figures),
        *_better("public_batch", "layer", records, figures),
        *_better("public_batch-vgg", "public_batch", records, figures),
        *(_plain_vgg(records) if any(name == "none-vgg" for name, _ in rows) else []),
    ]


def _means(records):
    """Dict from (network, column) to the mean test accuracy, in percent."""
    return {
        cell: statistics.mean(record["test_accuracy"] for record in group)
        for cell, group in by_cell(records).items()
    }


# --- noise in the weights ---


def _small_noise(records, stddev):
    """Whether plain networks converge under a noise at which the paper says that none does."""
    means = _means(records)
    found = {
        network: mean
        for (network, column), mean in means.items()
        if column == f"stddev={stddev:g}" and "-" not in network
    }
    said = f"Section 2: networks without normalisation do not converge at a noise of {stddev:g}"
    if not found:
        return f"{said}; not trained here."
    shown = ", ".join(f"{network} {mean:.2f} %" for network, mean in found.items())
    converged = [n for n, mean in found.items() if mean >= _CONVERGED * means[n, "stddev=0"]]
    verdict = f"{', '.join(converged)} does here" if converged else "nor do they here"
    return f"{said}; {verdict} ({shown})."


def _robustness(records, table):
    """Where a row loses much more by noise of 1 or 2 than the paper's does, a list of notes."""
    means = _means(records)
    worse = []
    for (model, norm, placement), figures in table.items():
        placed = "" if norm == "none" or placement == "all" else f"-{placement}"
        network = f"{model}{placed}" if norm == "none" else f"{norm}-{model}{placed}"
        for stddev in (1, 2):
            theirs = figures[stddev]
            cells = [(network, f"stddev={value:g}") for value in (0, stddev)]
            if isinstance(theirs, str) or not all(cell in means for cell in cells):
                continue
            ours_lost, theirs_lost = means[cells[0]] - means[cells[1]], figures[0] - theirs
            if ours_lost > theirs_lost + _POINTS:
                worse.append(
                    f"{network} loses {ours_lost:.1f} points at {stddev} (paper {theirs_lost:.1f})"
                )
    if not worse:
        return [
            f"Under noise of 1 or 2, no row loses {_POINTS:g} points more than the paper's, where "
            "that converges."
        ]
    notes = [f"**This table contradicts the paper's.** {'; '.join(worse)}."]
    scales = dict.fromkeys(r["scale"] for r in records if r["scale"] != "full")
    return notes + ([_SMALLER.format(scale=" or ".join(scales))] if scales else [])


# --- private training ---


def _private_figures(table):
    """The paper's accuracies by network, as records name it, and column, a dict."""
    own = next(iter(table))[0]
    return {
        (norm if model == own else f"{norm}-{model}", f"eps={epsilon:g}"): figure
        for (model, norm), row in table.items()
        for epsilon, figure in row.items()
    }


def _better(network, other, records, figures):
    """Notes on where a network is no better than another one, which the paper says it is."""
    ours, theirs = (_not_better(network, other, found) for found in (_means(records), figures))
    if not ours:
        return []
    said = f"**Not as in the paper:** {network} is not above {other} at {' and '.join(ours)}."
    if both := [column for column in ours if column in theirs]:
        said += f" Nor is it in the paper's own table at {' and '.join(both)}."
    return [said]


def _not_better(network, other, found):
    """Columns of finite epsilon in which a network is not above another one, a list."""
    return [
        column
        for name, column in found
        if name == network
        and column != "eps=inf"
        and (other, column) in found
        and found[name, column] <= found[other, column]
    ]


def _plain_vgg(records):
    """What became of the network that the paper calls not feasible."""
    means = _means(records)
    shown = {
        column: (mean, means.get(("public_batch-vgg", column)))
        for (network, column), mean in means.items()
        if network == "none-vgg"
    }
    learns = [c for c, (mean, _) in shown.items() if c != "eps=inf" and mean >= _LEARNT * _CHANCE]
    verdict = (
        "**Not as in the paper,** which says that VGG cannot be trained privately without batch "
        f"normalisation: here it learns at {' and '.join(learns)}, with its convolutions "
        "pre-trained on public images, and two dense layers trained privately."
        if learns
        else "As in the paper, VGG without batch normalisation does not learn privately."
    )
    behind = [
        f"{other - mean:.1f} points at {column}"
        for column, (mean, other) in shown.items()
        if other is not None
    ]
    return [f"{verdict} Behind the network with public-batch normalisation: {', '.join(behind)}."]


def _without_lot(records):
    """Why Algorithm 1 as printed is in no row of Table 5."""
    size = max(record["expected_batch_size"] for record in records)
    rows = size + published.PUBLIC_ROWS
    return (
        "Algorithm 1 as printed (`--statistics=lot`) is not trained at this scale: each example's "
        f"gradient goes through all rows of its batch, so that {size:,} examples and "
        f"{published.PUBLIC_ROWS} public ones take {size:,} backward passes of {rows:,} rows an "
        "update. `davody_statistics` has it for small batches; its epsilon is not a guarantee."
    )


def _lot(records):
    """That the paper's claim of no further privacy loss does not hold for its own algorithm."""
    if not any(record["statistics"] == "lot" for record in records):
        return []
    return [
        '**The claim "without incurring an additional privacy loss" does not hold** for '
        "Algorithm 1 as printed (rows `lot`): the statistics of a batch carry each private example "
        "into the clipped gradients of the others. So one example moves the sum by more than C, "
        "and the epsilon is a claim of the paper only."
    ]


NOTES = {
    "davody_table2": of_table2,
    "davody_table3": of_table3,
    "davody_table4": of_table4,
    "davody_table5": of_table5,
    "davody_table6": of_table6,
    "davody_table7": lambda records: _better(
        "layer", "none", records, _private_figures(published.TABLE7)
    ),
    "davody_figure1": slowdown.notes,
    "davody_statistics": _lot,
}
