"""The lists in docs/keras_conformance.md: what trains as in Keras, and what is refused.

python -m tests.keras_conformance.table            # prints them
python -m tests.keras_conformance.table --write    # puts them into the page

Every case is run, which takes about ten minutes of one core. With --only and names (shell-style
patterns) these are run, and the other rows are left as they stand on the page.
"""

import argparse
import fnmatch
import tempfile
from pathlib import Path

from tensorflow import keras

from tests.keras_conformance.cases import GROUPS
from tests.keras_conformance.compare import EQUAL, outcome_of
from tests.keras_conformance.metrics import METRICS, metric_outcome

PAGE = Path(__file__).resolve().parents[2] / "docs" / "keras_conformance.md"
BEGIN, END = "<!-- begin: made by tests/keras_conformance/table.py -->", "<!-- end -->"


def lists(only=("*",)):
    """The markdown of all lists, a str.

    Args:
        only: Shell-style patterns of the names whose rows are made; others are read off the page.
    """
    before = rows_of(written())

    def made(row, name, *arguments):
        if name in before and not any(fnmatch.fnmatchcase(name, each) for each in only):
            return f"| {name} |{before[name]}"
        keras.backend.clear_session()
        keras.utils.set_random_seed(0)
        return f"| {name} | {row(*arguments)} |"

    found = []
    for title, cases in GROUPS.items():
        found += ["", f"**{title}**", "", "| case | engine | result |", "|---|---|---|"]
        found += [made(_result, case.name, case) for case in cases]
    found += ["", "**Metrics**", "", "| metric | result | with weights |", "|---|---|---|"]
    found += [made(_results_of_metric, name, *metric) for name, *metric in METRICS]
    return "\n".join([*found, ""])


def written():
    """What stands on the page, as `lists` gives it."""
    return PAGE.read_text("utf-8").partition(BEGIN + "\n")[2].partition(END)[0].rstrip("\n") + "\n"


def rows_of(markdown):
    """The rows of all lists, a dict by what stands in their first column."""
    rows = [line.split("|", 2) for line in markdown.splitlines() if line.startswith("| ")]
    named = {name.strip(): rest for _, name, rest in rows}
    return {name: rest for name, rest in named.items() if name not in ("case", "metric")}


def _result(case):
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = outcome_of(case, Path(folder))
        except Exception as error:  # one row says it, the others are made all the same
            known = case.differs and isinstance(error, AssertionError)
            return f"| differs: {case.differs}" if known else f"| {_fault(error)}"
    if found.refusal is None:
        return f"{found.engine} | {EQUAL}"
    return f"| refused in `{found.refused_by}`: {_in_one_line(found.refusal)}"


def _results_of_metric(make, kind):
    results = []
    for weighted in (False, True):
        try:
            results.append(metric_outcome(make, kind, weighted))
        except Exception as error:
            results.append(_fault(error))
    return " | ".join(results)


def _fault(error):
    return f"**not as Keras**: {type(error).__name__}: {_in_one_line(error)[:300]}"


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
