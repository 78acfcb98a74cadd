"""What is added to delta stays small beside it, or no guarantee is stated."""

import json
import math
import warnings

import numpy as np
import pytest
from scipy import stats

from tests.each import each
from tests.statements import summary
from tfdpnorm.errors import PrivacyError, PrivacyWarning
from tfdpnorm.privacy import (
    PrivacyBudget,
    PrivacyLedger,
    added_delta,
    create_ledger,
    make_plan,
    privacy_statement,
    read_ledger,
)
from tfdpnorm.privacy.added_delta import (
    GRID_NUMBERS,
    cell_loss,
    check_plan,
    floating_point_loss,
    pair_loss,
    rounding_loss,
)
from tfdpnorm.privacy.command import main
from tfdpnorm.privacy.entries import Updates
from tfdpnorm.privacy.statement_as_json import statement_json

SIZES = dict(num_examples=2000, expected_batch_size=100, l2_norm_clip=1.0, steps=40)
GRID = {"noise_grid": "stddev / 32", "noise_generator": "openssl", "sum_rounding": 1e-3}


def planned(epsilon, delta=1e-5):
    return make_plan(**SIZES, budget=PrivacyBudget(epsilon, delta))


def ledger_of(epsilon, delta=1e-5, updates=40, **settings):
    ledger = PrivacyLedger(planned(epsilon, delta), {**GRID, **settings})
    ledger.record(Updates(updates))
    return ledger


@each("epsilon, delta", [(35.0, 1e-5), (25.0, 1e-10)])
def test_no_guarantee_beyond_a_tenth_of_delta(epsilon, delta):
    ledger = ledger_of(epsilon, delta)
    assert not ledger.guarantee_holds and ledger.epsilon() == math.inf
    lines = summary(privacy_statement(ledger))
    assert lines[0].startswith("NO GUARANTEE: ")
    assert f"can add to delta = {delta!r} is " in lines[1] and "more than a tenth of it" in lines[1]
    said = statement_json(ledger)
    assert said["guarantee"] is None and len(said["no_guarantee_because"]) == 1
    assert ledger.as_phase().reasons == ledger.no_guarantee_because


def test_what_was_spent_so_far_counts():
    ledger = ledger_of(50.0, updates=1)
    assert ledger.guarantee_holds and ledger.epsilon(whole_plan=True) == math.inf


def test_budgets_are_rejected_before_training():
    with pytest.raises(
        PrivacyError, match="No guarantee would hold: at epsilon = 49.*a smaller eps"
    ):
        check_plan(PrivacyLedger(planned(50.0), GRID))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_plan(PrivacyLedger(planned(30.0), GRID))
        check_plan(PrivacyLedger(planned(math.inf), GRID))
    given = make_plan(**SIZES, noise_multiplier=0.2, delta=1e-5)
    with pytest.warns(PrivacyWarning, match="No guarantee would hold.*Choose more noise"):
        check_plan(PrivacyLedger(given, GRID))


def test_rounding_counts_the_noisy_numbers_of_all_phases(tmp_path):
    first = create_ledger(tmp_path / "first.jsonl", planned(1.0), GRID)
    first.record(Updates(40))
    first.close()
    noise = dict(delta=1e-5, noise_multiplier=5.0, after=tmp_path / "first.jsonl")
    ledger = PrivacyLedger(make_plan(**SIZES, **noise), GRID)
    of_both = floating_point_loss(2 * GRID_NUMBERS, 2.0, 1e-5)
    assert rounding_loss(ledger, 2.0) == of_both
    assert of_both[0] > 1.4 * floating_point_loss(GRID_NUMBERS, 2.0, 1e-5)[0]


def composed(tmp_path, capsys, epsilon):
    paths = [tmp_path / f"{name}.jsonl" for name in ("first", "second")]
    for path in paths:
        ledger = create_ledger(path, planned(epsilon), GRID)
        ledger.record(Updates(40))
        ledger.close()
        assert read_ledger(path).guarantee_holds
    assert main([*(f"--ledger={path}" for path in paths), "--json", "--accountant=rdp"]) == 0
    return json.loads(capsys.readouterr().out)


def test_runs_composed(tmp_path, capsys):
    """Each of two runs may be within a tenth of delta, and both together not."""
    record = composed(tmp_path, capsys, 25.0)
    assert record["claimed_epsilon"] > 32 and record["epsilon"] == "inf"
    assert not record["guarantee_holds"] and "tenth" in record["no_guarantee_because"][0]
    assert record["added_to_delta"] > 1e-6


def test_runs_composed_to_an_ordinary_epsilon(tmp_path, capsys):
    record = composed(tmp_path, capsys, 3.0)
    assert record["guarantee_holds"] and 0 < record["added_to_delta"] < 1e-7


# --- rounding in float64 ---


@pytest.mark.parametrize("steps", [32, 45, 64])
@pytest.mark.parametrize("error", [1e-3, 1e-2])
def test_cells_change_by_at_most_the_bound(steps, error):
    """Cells are symmetric about any number: their centres are anywhere within 11.9 stddevs."""
    centres = np.linspace(0, 11.9 * steps, 5001)

    def log_mass(half):
        return np.log(
            stats.norm.sf((centres - half) / steps) - stats.norm.sf((centres + half) / steps)
        )

    exact = log_mass(0.5)
    for moved in (log_mass(0.5 + error), log_mass(0.5 - error)):
        assert np.abs(moved - exact).max() <= cell_loss(error, steps)
    # Both ends in one direction, which the bound covers too.
    shifted = np.log(
        stats.norm.sf((centres - 0.5 - error) / steps)
        - stats.norm.sf((centres + 0.5 - error) / steps)
    )
    assert np.abs(shifted - exact).max() <= cell_loss(error, steps)


def hockey_stick(pairs, c, a):
    """sup_E P(E) - e^a Q(E), exactly, of `pairs` bits whose probabilities differ by e^(+-c)."""
    p = 1 / (1 + math.exp(-c))
    heads = np.arange(pairs + 1)
    one, other = stats.binom.pmf(heads, pairs, p), stats.binom.pmf(heads, pairs, 1 - p)
    return np.maximum(one - math.exp(a) * other, 0).sum()


@pytest.mark.parametrize("pairs, c", [(1, 0.3), (50, 0.1), (2000, 0.01), (20_000, 0.003)])
@pytest.mark.parametrize("epsilon, delta", [(0.0, 1e-2), (1.0, 1e-5), (6.0, 1e-3)])
def test_composition_covers_the_worst_bits(pairs, c, epsilon, delta, monkeypatch):
    """Randomised response is the worst of all pairs of distributions within e^(+-c)."""
    monkeypatch.setattr(added_delta, "pair_loss", lambda: c)
    more, more_delta = floating_point_loss(2 * pairs, epsilon, delta)
    lost = hockey_stick(pairs, c, more / 2)
    assert (1 + math.exp(more / 2 + epsilon)) * lost + math.expm1(more / 2) * delta <= more_delta
    if pairs > 50:
        assert more < 2 * pairs * c  # it is of use


def test_the_figures_of_the_documentation():
    """ResNet-9 of benchmarks/, for 1,000 updates."""
    assert pair_loss() < 3.3e-11
    more, more_delta = floating_point_loss(2_447_946 * 1000, 8.0, 1e-5)
    assert 1e-5 < more < 3e-5
    assert more_delta < 1.2e-3 * 1e-5


def test_its_ends():
    assert floating_point_loss(0, 1.0, 1e-5) == (0.0, 0.0)
    assert floating_point_loss(10, math.inf, 1e-5) == (0.0, 0.0)
    for epsilon in (0.0, 800.0, 1e5):
        more, more_delta = floating_point_loss(1e9, epsilon, 1e-5)
        assert 0 < more < 1e-2 and 0 < more_delta <= 1
    with pytest.raises(ValueError, match="Expected numbers"):
        floating_point_loss(-1, 1.0, 1e-5)
    larger = [floating_point_loss(n, 1.0, 1e-5)[0] for n in (1e3, 1e6, 1e9, 1e12)]
    assert larger == sorted(larger)
