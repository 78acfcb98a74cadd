"""What the records of Klause et al. show of the paper's claims, below each table."""

from trainers.klause import published
from trainers.report.claims import Claim, claim_texts, curve_text
from trainers.report.tables import by_cell

_WORDS = "ScaleNorm improves the accuracy"
_DURING = "Does ScaleNorm lead early, or at the end? Test accuracy of"


def _pairs(table):
    return tuple(
        dict.fromkeys(
            (f"{dataset}-{model}-scale_norm", f"{dataset}-{model}") for dataset, model, _ in table
        )
    )


def _of(*pairs, curves=False):
    """The function that says of records what they show of the claims on some pairs of rows."""

    claims = [
        Claim(_WORDS, pairs),
        Claim(f"{_WORDS}, of averaged weights", pairs, field="test_accuracy_ema"),
    ]

    def notes(records):
        of_curves = _curves(records, pairs) if curves else []
        return [*claim_texts(records, claims), *of_curves]

    return notes


def _of_table1(records):
    notes = _of(*_pairs(published.TABLE1), curves=True)(records)
    if not any(record["network"].startswith("tiny_imagenet") for record in records):
        return notes
    scaled, plain = (
        published.TABLE1["tiny_imagenet", "resnet9", scale_norm][70.0]
        for scale_norm in (True, False)
    )
    return [
        *notes,
        f"**Tiny ImageNet at epsilon 70 has no cell** (the paper: {scaled} with ScaleNorm, {plain} "
        "without). At so large an epsilon, what the rounding of the noise can add to delta exceeds "
        "delta, and this library rejects the budget.",
    ]


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


_WIDE = ("cifar10-wrn_16_1-scale_norm-16px", "cifar10-wrn_16_1-16px")
_NARROW = (
    "cifar10-resnet9-scale_norm-width_16-standardized-16px",
    "cifar10-resnet9-width_16-standardized-16px",
)
_WITHOUT_PRIVACY = Claim(
    f"{_WORDS} without privacy, too",
    (("cifar10-resnet9-scale_norm-batch", "cifar10-resnet9-batch"),),
)
NOTES = {
    "klause_table1": _of_table1,
    "klause_table2": _of(*_pairs(published.TABLE2)),
    "klause_table3": _of(*_pairs(published.TABLE3)),
    "klause_appendix_b": lambda records: claim_texts(records, [_WITHOUT_PRIVACY]),
    "klause_wide": _of(_WIDE, curves=True),
    "klause_norms_narrow": _of(_NARROW),
}
