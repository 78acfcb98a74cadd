"""The search program: what its flags come to, what it shows and rejects."""

import pytest

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


def test_a_dry_run_shows_the_cost_and_the_alternatives(program):
    shown = program(OVER, "--dry_run").out
    for part in ("epsilon of the search", "no search", "all of which may be", "0.1, 0.3"):
        assert part in shown
    assert "Nothing was trained" in shown
