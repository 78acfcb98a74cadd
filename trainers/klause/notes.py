"""What the records of Klause et al. show of the paper's claims, below each table."""

from trainers.klause import published
from trainers.report.claims import Claim, claim_text, curve_text
from trainers.report.tables import by_cell

_WORDS = "ScaleNorm improves the accuracy"
_DURING = "Does ScaleNorm lead early, or at the end? Test accuracy of"


def _claims(pairs):
    return [
        Claim(_WORDS, pairs),
        Claim(f"{_WORDS}, of averaged weights", pairs, field="test_accuracy_ema"),
    ]


def _pairs(table):
    return tuple(
        dict.fromkeys(
            (f"{dataset}-{model}-scale_norm", f"{dataset}-{model}") for dataset, model, _ in table
        )
    )


def _of(table):
    pairs = _pairs(table)

    def notes(records):
        return [*(claim_text(records, claim) for claim in _claims(pairs))]

    return notes


def _of_table1(records):
    notes = [*_of(published.TABLE1)(records), *_curves(records, _pairs(published.TABLE1))]
    tiny = [record for record in records if record["network"].startswith("tiny_imagenet")]
    return [*notes, _without_cells() if tiny else ""]


def _without_cells():
    scaled, plain = (
        published.TABLE1["tiny_imagenet", "resnet9", scale_norm][70.0]
        for scale_norm in (True, False)
    )
    return (
        f"**Tiny ImageNet at epsilon 70 has no cell** (the paper: {scaled} with ScaleNorm, {plain} "
        "without). At so large an epsilon, what the rounding of the noise can add to delta exceeds "
        "delta, and this library rejects the budget."
    )


def _curves(records, pairs):
    """Tables of curves, of cells with several runs: one run each shows no more than chance."""
    runs = by_cell(records) if records else {}
    columns = dict.fromkeys(record["column"] for record in records)
    return [
        curve_text(
            [*runs[pair[0], column], *runs[pair[1], column]],
            *pair,
            f"{_DURING} {pair[1]} during training at {column.replace('eps=', 'epsilon ')}:",
        )
        for pair in pairs
        for column in columns
        if all(len(runs.get((network, column), ())) > 1 for network in pair)
    ]


def _of_wide(records):
    pair = ("cifar10-wrn_16_1-scale_norm-16px", "cifar10-wrn_16_1-16px")
    return [*(claim_text(records, c) for c in _claims((pair,))), *_curves(records, (pair,))]


def _of_narrow(records):
    narrow = "width_16-standardized-16px"
    pair = (f"cifar10-resnet9-scale_norm-{narrow}", f"cifar10-resnet9-{narrow}")
    return [claim_text(records, claim) for claim in _claims((pair,))]


def _of_appendix_b(records):
    pair = ("cifar10-resnet9-scale_norm-batch", "cifar10-resnet9-batch")
    return [claim_text(records, Claim(f"{_WORDS} without privacy, too", (pair,)))]


NOTES = {
    "klause_table1": _of_table1,
    "klause_table2": _of(published.TABLE2),
    "klause_table3": _of(published.TABLE3),
    "klause_appendix_b": _of_appendix_b,
    "klause_wide": _of_wide,
    "klause_norms_narrow": _of_narrow,
}
