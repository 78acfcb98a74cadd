"""What Davody et al. (2020) claim of their tables, compared with ours: notes below each table.

Every figure in them is computed from the records, or is the paper's own.
"""

import statistics

from trainers.davody import published, slowdown
from trainers.davody.weight_noise_settings import network_name
from trainers.report import captions
from trainers.report.claims import FEWEST_RUNS, Claim, claim_texts, difference
from trainers.report.tables import by_cell

_POINTS = 5.0  # so many more than the paper's, and a loss of accuracy is worth a word
_LEVEL = 0.05  # of all tests together
_LEARNT = 20.0  # percent: an accuracy below, of ten classes, has learnt next to nothing
_CONVERGED = 0.5  # of the accuracy without noise: one below is not called convergence


def _of_table2(records):
    return [
        f"Standard errors: ours of {captions.runs(records)}, the paper's of ten.",
        _small_noise(records, 0.3),
        *_robustness(records, published.TABLE2),
    ]


def _of_table3(records):
    name, means = "batch-resnet18-hidden", _means(records)
    at_1 = {network: mean for (network, at), mean in means.items() if at == "stddev=1"}
    others = [
        f"{mean:.1f} % with {network.removeprefix(name + '-').replace('_', ' ')}"
        for network, mean in at_1.items()
        if network.startswith(f"{name}-")
    ]
    less = ""
    if others and name in at_1:
        less = (
            f" Less reduced, at the same rate, {name} has {', '.join(others)} at 1, in place of "
            f"{at_1[name]:.1f} %; one run each."
        )
    return [
        "Standard errors: the paper's; of how many runs it does not say.",
        *_robustness(records, published.TABLE3),
        "Where the logits are not normalised, the noise in their weights reaches the output in "
        "full, and their means have to outgrow it. results/SEARCH.md has the rates that were "
        f"tried.{less}",
    ]


def _of_table4(records):
    return [
        *_robustness(records, published.TABLE4),
        "The paper stops early and adapts its learning rate on 24,000 validation texts. Rows "
        "ending in `-validated` do both, on 6,000 of the 30,034 texts at hand. In the other ones "
        "the rate falls along a cosine over a fixed number of epochs.",
    ]


def _better(*pairs):
    """The claims that a network improves on another one, from (words, network, others)."""
    return [
        Claim(f"{words} improves the accuracy", tuple((n, other) for n in networks.split()))
        for words, networks, other in pairs
    ]


_TABLE5 = _better(
    ("layer normalisation", "layer layer-all", "none"),
    (
        "batch normalisation by public examples",
        "public_batch public_batch-128_rows public_batch-128_rows-all",
        "layer",
    ),
)
_TABLE6 = _better(
    ("layer normalisation", "layer", "none"),
    ("batch normalisation by public examples", "public_batch", "layer"),
    ("the larger network", "public_batch-vgg", "public_batch"),
)
_TABLE7 = _better(("layer normalisation", "layer", "none"))


def _of_table5(records):
    return [
        *claim_texts(records, _TABLE5),
        "Rows ending in `-all` have the networks of the paper's Section 2, which normalises the "
        "logits too; in the others they are not normalised. Rows with `128_rows` have as many "
        "public images as the paper, and one view of each private one. Nothing was searched for "
        "these rows; the network without normalisation has another activation (tanh).",
        *(_lot(records) or [_without_lot(records)]),
    ]


def _of_table6(records):
    found = {
        column: (mean, _means(records).get(("public_batch-vgg", column)))
        for (network, column), mean in _means(records).items()
        if network == "none-vgg"
    }
    learns = [c for c, (mean, _) in found.items() if c != "eps=inf" and mean >= _LEARNT]
    behind = [f"{b - mean:.1f} points at {c}" for c, (mean, b) in found.items() if b is not None]
    plain = (
        "The paper says that VGG cannot be trained privately without batch normalisation. In our "
        f"smaller runs it learns at {' and '.join(learns) or 'no budget'}, with its convolutions "
        "pre-trained on public images and two dense layers trained privately, one run each. Behind "
        f"the network with public-batch normalisation: {', '.join(behind)}."
    )
    return [*claim_texts(records, _TABLE6), *([plain] if found else [])]


def _means(records):
    """Dict from (network, column) to the mean test accuracy, in percent."""
    return {
        cell: statistics.mean(record["test_accuracy"] for record in group)
        for cell, group in by_cell(records).items()
    }


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
    """Where a row loses much more by noise of 1 or 2 than the paper's does, a list of notes.

    It contradicts the paper in three runs or more at the paper's scale, beyond chance.
    """
    cells, compared = by_cell(records), []
    for place, figures in table.items():
        network = network_name(*place)
        for stddev in (1, 2):
            both = [cells.get((network, f"stddev={value:g}")) for value in (0, stddev)]
            if not isinstance(figures[stddev], str) and all(both):
                compared.append((network, stddev, figures[0] - figures[stddev], *both))
    firm, loose = [], []
    for network, stddev, theirs, quiet, noisy in compared:
        before, after = ([r["test_accuracy"] for r in group] for group in (quiet, noisy))
        found = difference(before, [value + theirs for value in after])
        if found.mean <= _POINTS:
            continue
        is_firm = min(found.runs) >= FEWEST_RUNS and (found.p or 0) < _LEVEL / len(compared)
        is_firm &= all(r["scale"] == "full" for r in quiet + noisy)
        lost = f"{found.mean + theirs:.1f} points at {stddev} (paper {theirs:.1f})"
        (firm if is_firm else loose).append(f"{network} {lost}")
    if not firm + loose:
        return [
            f"Under noise of 1 or 2, no row loses {_POINTS:g} points more than the paper's, where "
            "that converges."
        ]
    notes = [f"**This table contradicts the paper's.** Losses: {'; '.join(firm)}."] if firm else []
    if loose:
        scales = " or ".join(dict.fromkeys(r["scale"] for r in records if r["scale"] != "full"))
        notes.append(
            f"Losses that exceed the paper's by more than {_POINTS:g} points: {'; '.join(loose)}. "
            f"They contradict nothing, with {captions.runs(records)} a cell"
            + (f", smaller than the paper's ({scales})." if scales else ".")
        )
    return notes


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
    "davody_table2": _of_table2,
    "davody_table3": _of_table3,
    "davody_table4": _of_table4,
    "davody_table5": _of_table5,
    "davody_table6": _of_table6,
    "davody_table7": lambda records: claim_texts(records, _TABLE7),
    "davody_figure1": slowdown.notes,
    "davody_statistics": _lot,
}
