"""What a paper claims of two rows of its table, beside what our runs show of it."""

import math
import statistics
from typing import NamedTuple

from trainers.report.markdown import table
from trainers.report.tables import by_cell

_LEVEL = 0.05


class Claim(NamedTuple):
    """A claim, in words, on pairs of networks, in whatever columns both have runs.

    The first of a pair is said to be ahead, or level, in a field of the records.
    """

    words: str
    pairs: tuple
    expected: str = "ahead"
    field: str = "test_accuracy"


def welch_p_value(first, second):
    """Returns the two-sided p-value of Welch's test, that the means of two groups are equal.

    Variances may differ. None if a group has fewer than two values, or neither has a spread.
    """
    groups = (first, second)
    if min(map(len, groups)) < 2 or not any(map(statistics.variance, groups)):
        return None
    from scipy import stats  # takes a while to load

    return float(stats.ttest_ind(first, second, equal_var=False).pvalue)


def claim_text(records, claim):
    """Returns a claim, whether our runs confirm it, and a table of the differences; Markdown.

    "" if no pair has runs in a common column.
    """
    found = _compared(records, claim)
    if not found:
        return ""
    columns = sorted({column for _, column in found}, key=_largest_first)
    rows = [
        (f"{first} - {second}", *(_entry(found.get(((first, second), c))) for c in columns))
        for first, second in dict.fromkeys(pair for pair, _ in found)
    ]
    of = "weight average: " if claim.field.endswith("_ema") else ""
    return "\n\n".join(
        (
            f"**The paper: {claim.words}.** {_verdict(found.values(), claim)}",
            table((f"{of}difference in points", *columns), rows, rule="---"),
        )
    )


class _Difference(NamedTuple):
    mean: float
    p: float | None
    runs: tuple


def _compared(records, claim):
    """Dict from (pair, column) to `_Difference`."""
    known = [record for record in records if record[claim.field] is not None]
    groups = by_cell(known) if known else {}
    values = {cell: [r[claim.field] for r in group] for cell, group in groups.items()}
    columns = sorted({column for _, column in values}, key=_largest_first)
    return {
        (pair, column): _difference(*(values[network, column] for network in pair))
        for pair in claim.pairs
        for column in columns
        if all((network, column) in values for network in pair)
    }


def _difference(first, second):
    mean = statistics.mean(first) - statistics.mean(second)
    return _Difference(mean, welch_p_value(first, second), (len(first), len(second)))


def _largest_first(column):
    return -float(column.partition("=")[2])


def _entry(difference):
    if difference is None:
        return ""
    runs = "{} and {} runs".format(*difference.runs)
    p = "no test"
    if difference.p is not None:
        p = f"p = {difference.p:.2g}" if difference.p >= 1e-4 else "p < 0.0001"
    return f"{round(difference.mean, 2) + 0.0:+.2f} ({p}, {runs})"


def _verdict(differences, claim):
    """Whether a claim is confirmed, by tests of which one in twenty tables errs once."""
    tested = [d for d in differences if d.p is not None]
    if not tested:
        return "Not tested here: no two networks have several runs each."
    real = [d for d in tested if d.p < _LEVEL / len(tested)]
    ahead, behind = (sum(sign * d.mean > 0 for d in real) for sign in (1, -1))
    if claim.expected == "level":
        said = "Contradicted here" if real else "Not contradicted here"
    elif behind:
        said = "Contradicted here" if not ahead else "Contradicted here in part"
    elif ahead == len(tested):
        said = "Supported here"
    else:
        said = "Supported here in part" if ahead else "Not supported here"
    return (
        f"{said}: beyond chance (Welch's two-sided test, p < {_LEVEL:g} / {len(tested)}) {ahead} "
        f"of {len(tested)} differences are above 0, and {behind} below."
    )


def curve_text(records, first, second, words):
    """Returns the difference of two networks during training, a table by updates; Markdown.

    `words` stand above the table. "" unless both have curves with common points.
    """
    points = {}
    for record in records:
        for point in record["curve"] or ():
            at = points.setdefault(point["updates"], {})
            at.setdefault(record["network"], []).append(point["test_accuracy"])
    both = {n: at for n, at in sorted(points.items()) if first in at and second in at}
    # Runs of other numbers of updates have points of their own.
    fewest = {n: min(len(at[first]), len(at[second])) for n, at in both.items()}
    needed = min(2, max(fewest.values(), default=0))
    rows = [
        (
            updates,
            *(f"{statistics.mean(found[name]):.2f}" for name in (first, second)),
            _entry(_difference(found[first], found[second])),
        )
        for updates, found in both.items()
        if fewest[updates] >= needed
    ]
    if not rows:
        return ""
    return f"{words}\n\n{table(('updates', first, second, 'difference'), rows, rule='---')}"


def below_text(records, points=5):
    """Returns the cells whose mean is so many per cent below the paper's figure; "" for none."""
    known = [record for record in records if isinstance(record["paper_value"], (int, float))]
    parts = {}
    for (network, column), group in (by_cell(known) if known else {}).items():
        ours = statistics.mean(record["test_accuracy"] for record in group)
        theirs = group[0]["paper_value"]
        if theirs - ours > points and math.isfinite(ours):
            parts.setdefault(network, []).append(f"{column} {ours:.1f} for {theirs:.1f}")
    if not parts:
        return ""
    listed = "; ".join(f"{network} ({', '.join(of)})" for network, of in parts.items())
    return f"More than {points} points below the paper's figure: {listed}."
