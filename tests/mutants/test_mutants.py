"""The mutants fit the source, and the command tells the killed from those that survived."""

import ast
import re

import pytest

from tests.each import each
from tests.mutants import run
from tests.mutants.mutant import AnchorLost, Mutant
from tests.mutants.registry import ALL, named

MEAN = "def mean(values):\n    return sum(values) / len(values)\n"
TESTS = """import sys

sys.path.insert(0, ".")
from tfdpnorm.sums import mean


def test_the_mean_of_equal_numbers():
    assert mean([3.0, 3.0]) == 3.0
"""


def mutant(name, *edits, file="tfdpnorm/sums.py"):
    return Mutant(name, file, edits, f"harm of {name}", ("tests/test_sums.py",))


# Of edits to `MEAN` above.
OUTCOMES = {
    "killed": mutant("a", ("/ len(values)", "/ 7")),
    "survived": mutant("b", ("sum(values)", "len(values) * max(values)")),
    "anchor lost": mutant("c", ("median", "mean")),
    "broken": mutant("d", ("def mean", "def median")),
}


@each("one", ALL, ids=lambda one: one.name)
def test_each_mutant_fits_the_source_and_changes_it(one):
    source = (run.ROOT / one.file).read_text("utf-8")
    changed = one.applied(source)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))
    for test in one.tests:
        file, *names = test.partition("[")[0].split("::")
        text = (run.ROOT / file).read_text("utf-8")
        for name in names:
            (found,) = re.findall(rf"^((?: *@.*\n)*) *(?:def|class) {name}\b", text, re.MULTILINE)
            assert "@pytest.mark.slow\n" not in found  # the command runs quick tests alone
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", one.name) and one.harm.endswith(".")


def test_names_are_unique_and_unknown_ones_are_rejected():
    assert len({one.name for one in ALL}) == len(ALL) == len(named([]))
    assert named([ALL[1].name, ALL[0].name]) == list(ALL[:2])
    with pytest.raises(ValueError, match="Expected names of mutants, got nobody"):
        named([ALL[0].name, "nobody"])


@each("times", [0, 2])
def test_text_that_is_not_there_once_is_said(times):
    with pytest.raises(AnchorLost, match=f"'x' once in .*, got it {times} times"):
        mutant("a", ("x", "y")).applied("x" * times)


def test_later_edits_see_the_earlier_ones():
    assert mutant("a", ("x", "y"), ("y", "z")).applied("-x-") == "-z-"


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A checkout of one function and one test, in place of the real one."""
    for name, text in (("tfdpnorm/sums.py", MEAN), ("tests/test_sums.py", TESTS)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "tfdpnorm" / "__init__.py").touch()
    monkeypatch.setattr(run, "ROOT", tmp_path)
    return tmp_path


@each(
    ("status", "text", "outcome"),
    [
        (0, "3 passed", ("survived", "harm of a")),
        (
            1,
            "FAILED tests/test_sums.py::test_it - assert",
            ("killed", "tests/test_sums.py::test_it"),
        ),
        (
            1,
            "ERROR tests/test_sums.py::test_it - fixture",
            ("killed", "tests/test_sums.py::test_it"),
        ),
        (2, "ERROR tests/test_sums.py", ("broken", "ERROR tests/test_sums.py")),
        (5, "no tests ran", ("broken", "no tests ran")),
    ],
)
def test_exit_code_of_pytest_decides(status, text, outcome, toy, tmp_path_factory, monkeypatch):
    """Tests that could not be collected, or none at all, kill nothing."""
    copy = run.Copy(tmp_path_factory.mktemp("copy"))
    seen = []

    def tested(self, *arguments):
        seen.append((arguments, (self._root / "tfdpnorm" / "sums.py").read_text()))
        return status, text

    monkeypatch.setattr(run.Copy, "_tested", tested)
    found = copy.outcome(mutant("a", ("/ len(values)", "/ 7")))
    assert found == outcome
    assert seen == [((("tests/test_sums.py",), "-x"), MEAN.replace("len(values)", "7"))]
    assert (copy._root / "tfdpnorm" / "sums.py").read_text() == MEAN


@pytest.mark.slow
def test_outcomes_and_exit_status(toy, monkeypatch, capsys):
    monkeypatch.setattr(run, "named", lambda names: [OUTCOMES[name] for name in names])
    assert run.main(["killed"]) == 0
    for word in ("survived", "anchor lost", "broken"):
        assert run.main([word, "killed"]) == 1
        out = capsys.readouterr().out
        assert re.search(rf"^{word} .* {OUTCOMES[word].name} ", out, re.MULTILINE)
        assert re.search("^killed .*::test_the_mean_of_equal_numbers$", out, re.MULTILINE)
        assert f"2 mutants: 1 {word}, 1 killed." in out
    assert (toy / "tfdpnorm" / "sums.py").read_text() == MEAN


@pytest.mark.slow
def test_tests_must_pass_without_a_mutant(toy, monkeypatch):
    (toy / "tfdpnorm" / "sums.py").write_text(MEAN.replace("len(values)", "7"))
    monkeypatch.setattr(run, "named", lambda names: [OUTCOMES["survived"]])
    with pytest.raises(RuntimeError, match="Expected the tests to pass without any mutant"):
        run.main([])


def test_the_list_is_shown(capsys):
    assert run.main(["--list"]) == 0
    shown = capsys.readouterr().out
    assert all(one.name in shown and one.harm in shown for one in ALL)
