"""What a paper claims of two rows of its table, beside what our runs show of it."""

import math
import statistics
from typing import NamedTuple

from trainers.report.markdown import table
from trainers.report.tables import by_cell

_LEVEL, _POWER = 0.05, 0.8
_POINTS = 2.0  # a difference that a test has to notice, to say anything by not doing so
FEWEST_RUNS = 3  # that contradict a paper


class Claim(NamedTuple):
    """A claim, in words, on pairs of networks, in whatever columns both have runs.

    The first of a pair is said to be ahead, or level, in a field of the records.
    """

    words: str
    pairs: tuple
    expected: str = "ahead"
    field: str = "test_accuracy"


class _Difference(NamedTuple):
    """Of two groups of runs; `points` is what a test at a level would notice, None without any."""

    mean: float
    p: float | None
    runs: tuple
    is_full: bool = False
    error: float = 0.0
    freedom: float = 0.0

    def half_interval(self, level=_LEVEL):
        """Half the length of the confidence interval; None without a test."""
        from scipy import stats

        return None if self.p is None else self.error * float(stats.t.isf(level / 2, self.freedom))

    def points(self, level):
        """The difference that a test at this level notices in four of five cases."""
        from scipy import stats

        both = stats.t.ppf([1 - level / 2, _POWER], self.freedom)
        return self.error * float(sum(both))


def difference(first, second, is_full=False):
    """Returns the `_Difference` of the means of two groups, by Welch's two-sided test.

    Variances may differ. p is None if a group has fewer than two values, or neither has a spread.
    """
    mean = statistics.mean(first) - statistics.mean(second)
    runs = (len(first), len(second))
    if min(runs) < 2 or not any(map(statistics.variance, (first, second))):
        return _Difference(mean, None, runs, is_full)
    from scipy import stats  # takes a while to load

    p = float(stats.ttest_ind(first, second, equal_var=False).pvalue)
    parts = [statistics.variance(group) / len(group) for group in (first, second)]
    freedom = sum(parts) ** 2 / sum(v**2 / (n - 1) for v, n in zip(parts, runs, strict=True))
    return _Difference(mean, p, runs, is_full, math.sqrt(sum(parts)), freedom)


def claim_texts(records, claims):
    """Returns, for each claim, whether our runs confirm it, and a table of differences; Markdown.

    One without runs of both networks in a column is left out. The level of the tests is divided by
    the number of all of them.
    """
    found = [(claim, compared(records, claim)) for claim in claims]
    tests = sum(d.p is not None for _, differences in found for d in differences.values())
    return [_text(claim, differences, tests) for claim, differences in found if differences]


def _text(claim, found, tests):
    columns = sorted({column for _, column in found}, key=_largest_first)
    rows = [
        (f"{first} - {second}", *(_entry(found.get(((first, second), c))) for c in columns))
        for first, second in dict.fromkeys(pair for pair, _ in found)
    ]
    of = "weight average: " if claim.field.endswith("_ema") else ""
    verdict = _verdict([d for d in found.values() if d.p is not None], claim, tests)
    made = table((f"{of}difference in points", *columns), rows, rule="---")
    return f"**The paper: {claim.words}.** {verdict}\n\n{made}"


def compared(records, claim):
    """Returns the differences that a claim is about, a dict from (pair, column)."""
    known = [record for record in records if record[claim.field] is not None]
    groups = by_cell(known) if known else {}
    columns = sorted({column for _, column in groups}, key=_largest_first)
    # Beside budgets, what is trained without privacy is no part of a claim.
    columns = [column for column in columns if column != "eps=inf"] or columns
    return {
        (pair, column): difference(
            *([r[claim.field] for r in groups[network, column]] for network in pair),
            all(r["scale"] == "full" for network in pair for r in groups[network, column]),
        )
        for pair in claim.pairs
        for column in columns
        if all((network, column) in groups for network in pair)
    }


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


def _verdict(tested, claim, tests):
    """Whether a claim is confirmed, by tests of which one page in twenty errs once."""
    if not tested:
        return "Not tested here: no two networks have several runs each."
    real = [d for d in tested if d.p < _LEVEL / tests]
    able = [d for d in tested if d in real or d.points(_LEVEL / tests) <= _POINTS]
    ahead, behind = (sum(sign * d.mean > 0 for d in real) for sign in (1, -1))
    is_level = claim.expected == "level"
    against = [d for d in real if is_level or d.mean < 0]
    if against and all(d.is_full and min(d.runs) >= FEWEST_RUNS for d in against):
        said = "Contradicted here" + (" in part" if ahead and not is_level else "")
    elif against:
        said = "Otherwise here, in runs that are smaller than the paper's and contradict nothing"
    elif ahead:
        said = "Supported here" + (" in part" if ahead < len(tested) else "")
    elif not able:
        said = "Undecided here"
    else:
        said = "Not contradicted here" if is_level else "Not supported here"
    return (
        f"{said}: beyond chance (Welch's two-sided test, p < {_LEVEL:g} / {tests} for all tests "
        f"below this table) {ahead} of {len(tested)} differences are above 0, and {behind} below. "
        f"{len(able)} of these tests would notice {_POINTS:g} points in four of five cases."
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
            _entry(difference(found[first], found[second])),
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
