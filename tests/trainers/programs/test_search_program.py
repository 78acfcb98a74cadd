"""The search program: what its flags come to, what it shows and rejects."""

import pytest

from tfdpnorm.privacy.selection import NumberOfRuns
from trainers import registry

CELL = "--cell=digits-layer/eps=3"
# Full lots: their divergences are known at once.
OVER = "--over=learning_rate=0.1:0.3,expected_batch_size=809"


@pytest.fixture
def program(main, monkeypatch, tmp_path):
    """Returns a function of arguments -> outcome of the program, run in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    arguments = ["--experiment=private_search", CELL]
    return lambda *more, base=arguments: main("search", *base, *more)


@pytest.fixture
def trained(monkeypatch):
    """The specs that the program would have trained; each raises."""
    specs = []

    def record(spec, **options):
        specs.append(spec)
        raise ValueError("not trained here")

    monkeypatch.setattr(registry, "run_cell", record)
    return specs


def test_flags_reach_the_spec(program, trained):
    given = ["--tuner=bayesian", "--expected_trials=5", "--epsilon=2", "--score_examples=99"]
    assert "not trained here" in program(OVER, *given, "--seed=3").err
    (spec,) = trained
    assert spec.kind == "search" and spec.cell == "digits-layer-bayesian/eps=2"
    assert (spec.tuner, spec.expected_trials, spec.run.epsilon) == ("bayesian", 5.0, 2.0)
    assert (spec.score_examples, spec.seed, spec.run.paper_value) == (99, 3, None)
    assert spec.run.search.startswith("bayesian over") and spec.run.contact is None


def test_what_the_user_declares_reaches_the_spec(program, trained):
    given = ["--search=ranges by guess", "--contact=Jane", "--nosettings_used_private_data"]
    assert "not trained here" in program(OVER, *given).err
    run = trained[0].run
    assert (run.search, run.contact) == ("ranges by guess", "Jane")
    assert run.settings_used_private_data is False


def test_a_dry_run_shows_the_cost_and_the_alternatives(program):
    shown = program(OVER, "--dry_run").out
    for part in ("epsilon of the search", "no search", "all of which may be", "0.1, 0.3"):
        assert part in shown
    assert "Nothing was trained" in shown


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([OVER, "--cell=none"], "Expected --cell to be one of"),
        (["--over=epsilon"], "a name in over"),
        ([OVER, "--expected_trials=0.5"], "at least 1"),
    ],
)
def test_mistakes_end_in_a_line(program, arguments, message):
    outcome = program(*arguments)
    assert outcome.code and message in outcome.err


@pytest.mark.slow
def test_a_search_from_flags_to_files(program, monkeypatch, tmp_path):
    monkeypatch.setattr(NumberOfRuns, "draw", lambda self, rng: 2)
    shown = program(OVER, "--recorded_trials=all").out
    assert "NOT FOR RELEASE" in shown and "the winner" in shown
    names = {path.suffix for path in (tmp_path / "outputs" / "results").iterdir()}
    assert names == {".json", ".md", ".png"}
