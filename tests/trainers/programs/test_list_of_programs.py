"""`python -m trainers` names every program, with what it is for."""

import ast
import pathlib

from trainers.__main__ import programs

FOLDER = pathlib.Path(__file__).parents[3] / "trainers"


def runs_by_itself(path):
    tree = ast.parse(path.read_text())
    return any(isinstance(n, ast.If) and "__main__" in ast.unparse(n.test) for n in tree.body)


def test_every_program_is_listed_with_what_it_is_for():
    names = {path.stem for path in FOLDER.glob("*.py") if runs_by_itself(path)} - {"__main__"}
    assert set(programs()) == names and len(names) > 10
    assert all(line.endswith(".") for line in programs().values())


TRAINS_NOTHING = {
    "paper_items",
    "ermis_accountants",
    "klause_landscape",
    "prepare_tiny_imagenet",
    "table",
}


def test_every_program_that_trains_takes_mixed_precision(main):
    """absl names the first flag that it does not know."""
    for name in sorted(programs()):
        given = main(name, "--mixed_precision", "--no_such_flag")
        unknown = "mixed_precision" if name in TRAINS_NOTHING else "no_such_flag"
        assert given.code != 0 and f"flag '{unknown}'" in given.err + given.out, name
