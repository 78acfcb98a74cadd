"""The lists in docs/keras_conformance.md: what trains as in Keras, and what is rejected.

python -m tests.keras_conformance.table            # prints them
python -m tests.keras_conformance.table --write    # puts them into the page

Every case is run with the installed Keras, which takes about ten minutes of one core; the column of
the other Keras stays as it is on the page. With --only and names (shell-style patterns), only these
are run.
"""

import argparse
import fnmatch
import functools
import re
import sys
import tempfile
from pathlib import Path

from tensorflow import keras

from tests.keras_conformance.cases import GROUPS
from tests.keras_conformance.compare import EQUAL, outcome_of
from tests.keras_conformance.metrics import METRICS, metric_outcome
from tfdpnorm.keras_compat.variables import KERAS_3

PAGE = Path(__file__).resolve().parents[2] / "docs" / "keras_conformance.md"
HEAD, COLUMN, ABSENT = ("case", "Keras 2.15", "Keras 3.15"), int(KERAS_3), "not available"
BEGIN, END = "<!-- begin: made by tests/keras_conformance/table.py -->", "<!-- end -->"


def lists(only=("*",)):
    """The markdown of all lists, a str.

    Args:
        only: Shell-style patterns of the names whose cells are made; others are read off the page.
    """
    before, found = rows_of(written()), []
    for title, cells in _cells().items():
        rows = {name: list(row) for name, row in before.get(title, {}).items()}
        for name, make in cells.items():
            row = rows.setdefault(name, [ABSENT, ABSENT])
            if row[COLUMN] == ABSENT or any(fnmatch.fnmatchcase(name, each) for each in only):
                keras.backend.clear_session()
                keras.utils.set_random_seed(0)
                print(f"{title}: {name}", file=sys.stderr, flush=True)
                row[COLUMN] = make()
        for name in set(rows) - set(cells):
            rows[name][COLUMN] = ABSENT
        found += ["", f"**{title}**", "", f"| {' | '.join(HEAD)} |", "|---|---|---|"]
        found += [f"| {name} | {' | '.join(row)} |" for name, row in rows.items()]
    return "\n".join([*found, ""])


def _cells():
    """For each list a dict from the names of its rows to functions that make the cell."""
    found = {
        title: {case.name: functools.partial(_result, case) for case in cases}
        for title, cases in GROUPS.items()
    }
    found["Metrics"] = {
        name: functools.partial(_results_of_metric, *metric) for name, *metric in METRICS
    }
    return found


def written():
    """What stands on the page, as `lists` gives it."""
    return PAGE.read_text("utf-8").partition(BEGIN + "\n")[2].partition(END)[0].rstrip("\n") + "\n"


def rows_of(markdown):
    """The rows of all lists: a dict by their titles of dicts by the first cell of the others."""
    found, title = {}, None
    for line in markdown.splitlines():
        if line.startswith("**"):
            title = line.strip("*")
        elif line.startswith("| ") and not line.startswith(f"| {HEAD[0]} |"):
            name, *row = (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
            found.setdefault(title, {})[name] = row
    return found


def _result(case):
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = outcome_of(case, Path(folder))
        except Exception as error:  # one row says it, the others are made all the same
            known = case.differs and isinstance(error, AssertionError)
            return f"differs: {case.differs}" if known else _fault(error)
    if found.refusal is None:
        return f"{EQUAL} (`{found.engine}`)"
    return f"rejected in `{found.refused_by}`: {_in_one_line(found.refusal)}"


def _results_of_metric(make, kind):
    results = []
    for weighted in (False, True):
        try:
            results.append(metric_outcome(make, kind, weighted))
        except Exception as error:
            results.append(_fault(error))
    return f"{results[0]}; with weights {results[1]}"


def _fault(error):
    return f"**not equal**: {type(error).__name__}: {_in_one_line(error)[:300]}"


def _in_one_line(text):
    return " ".join(str(text).split()).replace("|", r"\|")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the lists into the page")
    parser.add_argument("--only", nargs="+", default=["*"], help="names of cases to run")
    arguments = parser.parse_args()
    made = lists(arguments.only)
    if not arguments.write:
        print(made)
        return
    text = PAGE.read_text("utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{made}{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
