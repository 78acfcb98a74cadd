"""What a statement says of slots, of noise and of rounding, its own included."""

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.privacy.statement_doubles import SETTINGS, TRIAL, ledger_of
from tests.statements import section
from tfdpnorm.privacy import PrivacyLedger, make_plan, privacy_statement
from tfdpnorm.privacy.entries import Search, Updates
from tfdpnorm.privacy.floating_point import floating_point_loss
from tfdpnorm.privacy.rounding import ceil_float, ceil_text
from tfdpnorm.privacy.search import SearchPlan

ADDED = re.compile(r"To this delta, at most (\S+) is added: (.*)\.")


OF_SLOTS = re.compile(r"(\S+) for batches that do not fit into their slots")


OF_NOISE = re.compile(r"(\S+) for noise rounded to a grid")


@pytest.mark.parametrize("grid", ["stddev / 32", None])
@pytest.mark.parametrize("engine", ["book_keeping", "tfp_model"])
def test_batches_that_do_not_fit_add_to_delta(grid, engine):
    """A thousandth of delta a run, and what the noise adds only where it lies on a grid."""
    settings = {"engine": engine, "noise_grid": grid}
    ledger = PrivacyLedger(make_plan(**SETTINGS), settings)
    ledger.record(Updates(2))
    (total, parts) = ADDED.search(privacy_statement(ledger)).groups()
    assert float(OF_SLOTS.search(parts)[1]) == pytest.approx(1e-8, rel=1e-3)
    of_noise = OF_NOISE.search(parts)
    assert (of_noise is not None) == (grid is not None)
    expected = 1e-8 + (float(of_noise[1]) if of_noise else 0.0)
    assert expected <= float(total) * (1 + 1e-9) and float(total) < 1.002 * expected


def test_a_batch_of_all_examples_always_fits():
    ledger = ledger_of(2, expected_batch_size=SETTINGS["num_examples"])
    assert "To this delta" not in privacy_statement(ledger)


@pytest.mark.parametrize("shape", [None, 1.0])
def test_all_trials_of_a_search_have_batches(shape):
    ledger = ledger_of(0)
    ledger.record(Search(SearchPlan(20, shape, (TRIAL,))))
    ledger.record(Updates(2))
    _, parts = ADDED.search(privacy_statement(ledger)).groups()
    assert float(OF_SLOTS.search(parts)[1]) == pytest.approx(20 * 1e-8, rel=1e-3)


@pytest.mark.parametrize("generator", [None, "openssl", "philox", "another"])
def test_the_noise_generator_is_the_runs(generator):
    settings = None if generator is None else {"noise_generator": generator}
    ledger = PrivacyLedger(make_plan(**SETTINGS), settings)
    text = privacy_statement(ledger)
    weak = "The noise generator, Philox, is not cryptographic" in text
    assert weak == (generator != "openssl")
    assert ("is cryptographic: that of OpenSSL" in text) != weak
    for part in ("Floating-point effects (Mironov 2012)", "float32", "noise key"):
        assert part in text
    assert any("noise generator" in line for line in section(text, "Numerical safety"))


@pytest.mark.parametrize("grid", [None, "stddev / 32"])
def test_noise_without_a_grid_tells_sums_apart(grid):
    """Runs of older versions have no entry of that name."""
    for settings in (
        {"noise_generator": "openssl", "noise_grid": grid},
        {"noise_generator": "philox"},
    ):
        ledger = PrivacyLedger(make_plan(**SETTINGS), settings)
        ledger.record(Updates(2))
        exact = settings.get("noise_grid") is not None
        text = privacy_statement(ledger)
        assert ("can tell from the bits of the release" in text) != exact
        assert ("have the distribution that the accountant assumes" in text) == exact
        more, _ = floating_point_loss(1e11, ledger.epsilon(), ledger.plan.delta)
        assert (f"add at most {ceil_text(more)} to epsilon" in text) == exact


@pytest.mark.parametrize("rounding", [None, 0.01234])
def test_rounding_of_sums_is_in_the_noise_or_not_covered(rounding):
    settings = {"noise_generator": "philox", "noise_grid": "stddev / 32", "sum_rounding": rounding}
    ledger = PrivacyLedger(make_plan(**SETTINGS), settings)
    ledger.record(Updates(2))
    text = privacy_statement(ledger)
    paid = rounding is not None
    settled, excluded, safe = (
        " ".join(section(text, heading))
        for heading in ("Mechanism and settings", "Not covered", "Numerical safety")
    )
    assert ("the standard deviation of the noise is z C (1 + 0.013)" in settled) == paid
    assert ("For this engine no bound is known" in excluded) != paid
    assert ("round each operation according to IEEE 754" in safe) == paid


@given(st.floats(1e-12, 1e12), st.integers(1, 9))
def test_rounding_is_upwards_and_close(value, digits):
    text = ceil_text(value, digits)
    exact = Decimal(value)
    assert exact <= Decimal(text) < exact * (1 + Decimal(10) ** (1 - digits))
    assert ceil_float(value, digits) >= value


def test_rounding_of_the_ends():
    assert ceil_text(0.0) == "0" and ceil_text(float("inf")) == "inf"
    assert ceil_text(0.99991) == "1.000" and ceil_text(12345.6) == "12350"
