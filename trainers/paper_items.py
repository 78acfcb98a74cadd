"""Counts what is replicated of the papers: the states of docs/paper_items.md, from the records.

    python -m trainers.paper_items

An item that a rule below names is done once each of its cells has so many runs at the paper's
scale. The others are no runs, and their states and all remarks are written by hand.
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

import collections
import fnmatch
import functools
import pathlib
import re

from absl import flags

from trainers import registry
from trainers.records.store import KEPT, read_records

FLAGS = flags.FLAGS
PAGE = KEPT.parent / "docs" / "paper_items.md"
_T2, _T3, _T4, _T5, _T6, _T7 = (f"davody_table{number}" for number in range(2, 8))
_ERMIS, _PAPERS = "ermis_table1", "*-papers_settings/*"
# By item: an experiment, its cells, how many runs of each, and the state until all are there.
RULES = {
    15: (_T5, "*-all/*", 3, "reduced"),
    16: (_T2, "*", 1, "reduced"),
    17: (_T2, "*", 10, "reduced"),
    18: (_T2, "*/stddev=0.3", 1, "missing"),
    19: (_T3, "*", 1, "reduced"),
    22: (_T4, "*-validated/*", 1, "reduced"),
    23: (_T4, "*", 1, "reduced"),
    25: ("davody_figure1", "batch-lenet5/*", 1, "reduced"),
    26: ("davody_figure1", "batch-resnet18/*", 1, "reduced"),
    42: (_T5, "[nl][ao]*[er]/*", 1, "reduced"),
    43: (_T5, "public_batch-128_rows/*", 3, "differs"),
    44: (_T5, "public_batch-128_rows/*", 3, "reduced"),
    47: (_T6, "*", 1, "reduced"),
    48: (_T6, "public_batch-vgg/*", 1, "reduced"),
    51: (_T6, "none-vgg/*", 1, "reduced"),
    52: (_T7, "*", 1, "reduced"),
    69: ("klause_table1", "*", 1, "reduced"),
    71: ("klause_table1", "cifar10-*/eps=7.42", 3, "reduced"),
    72: ("klause_table1", "cifar10-*", 3, "reduced"),
    73: ("klause_table1", "imagenette-*", 3, "reduced"),
    74: ("klause_table1", "tiny_imagenet-*/eps=10", 3, "reduced"),
    75: ("klause_table1", "tiny_imagenet-*/eps=5", 3, "reduced"),
    78: ("klause_table2", "cifar10-wrn_16_4-scale_norm/*", 1, "reduced"),
    79: ("klause_table2", "cifar10-wrn_16_4/*", 1, "reduced"),
    89: ("klause_appendix_b", "*", 1, "reduced"),
    90: ("klause_table3", "*", 1, "reduced"),
    91: ("klause_table4", "cifar10-*", 3, "reduced"),
    92: ("klause_table4", "*imagenet*", 3, "reduced"),
    93: ("klause_table1", "*", 3, "reduced"),
    106: (_ERMIS, "*-as_printed-*", 10, "reduced"),
    116: (_ERMIS, "mnist-none-papers_settings/*", 10, "reduced"),
    117: (_ERMIS, "digits-none-papers_settings/*", 10, "differs"),
    118: (_ERMIS, _PAPERS, 1, "differs"),
    119: (_ERMIS, _PAPERS, 1, "reduced"),
    120: (_ERMIS, _PAPERS, 10, "reduced"),
    121: (_ERMIS, f"mnist-{_PAPERS}", 10, "reduced"),
    122: (_ERMIS, f"digits-{_PAPERS}", 10, "differs"),
    124: (_ERMIS, _PAPERS, 10, "reduced"),
    125: (_ERMIS, "*-papers_settings/eps=0.1", 10, "reduced"),
    126: ("ermis_figure5", "*", 10, "reduced"),
    127: ("ermis_settings", "*-delta_*", 10, "reduced"),
    128: (_ERMIS, f"*-dpsgd{_PAPERS[1:]}", 10, "reduced"),
}
_ROW = re.compile(r"\| (\d+) \|(.*?\|.*?\|) (\w+|-) \| ([\w*-]+) \|")
_STATES = ("done", "reduced", "differs", "missing", "-")


def define_flags():
    flags.DEFINE_string("page", str(PAGE), "The page, whose states and counts are written anew.")


@functools.cache
def _whole(experiment):
    """Dict from each cell of an experiment to how many kept runs it has at the paper's scale."""
    sources = registry.sources(experiment)
    records = [r for source in sources for r in read_records(KEPT, source)]
    whole = collections.Counter(r["cell"] for r in records if r["scale"] == "full")
    return {spec.cell: whole[spec.cell] for spec in registry.cells(experiment)}


def state(experiment, pattern, runs, until_then):
    """Returns the state of an item by the kept records of the cells of an experiment."""
    cells = [n for cell, n in _whole(experiment).items() if fnmatch.fnmatchcase(cell, pattern)]
    if not cells:
        raise ValueError(f"Expected cells of {experiment}, got {pattern!r}, which matches none.")
    return "done" if min(cells) >= runs else until_then


def counted(page):
    """Returns the text of the page with the states by the rules, and with how many there are."""
    found = {"before": collections.Counter(), "now": collections.Counter()}

    def row(match):
        number, item, before, now = match.groups()
        rule = RULES.get(int(number))
        now = now.strip("*") if rule is None else state(*rule)
        found["before"][before] += 1
        found["now"][now] += 1
        return f"| {number} |{item} {before} | {now if now == before else f'**{now}**'} |"

    page = _ROW.sub(row, page)
    for name in _STATES:
        both = " | ".join(str(found[when][name]) for when in ("before", "now"))
        page = re.sub(rf"(?m)^\| {name} \| \d+ \| \d+ \|$", f"| {name} | {both} |", page)
    return page


def main():
    path = pathlib.Path(FLAGS.page)
    path.write_text(counted(path.read_text("utf-8")), "utf-8")
    print(f"Written: {path}")


if __name__ == "__main__":
    common.run(__name__)
