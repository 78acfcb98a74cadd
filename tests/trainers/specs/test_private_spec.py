"""PrivateSpec: what it rejects, with the value and the remedy, and how many updates it means."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainers.specs import PrivateSpec

INF = float("inf")


def make_spec(**fields):
    if "noise_multiplier" not in fields:
        fields.setdefault("epsilon", 1.0)
    if "steps" not in fields:
        fields.setdefault("epochs", 2.0)
    return PrivateSpec(experiment="e", network="n", column="c", dataset="digits", **fields)


@settings(deadline=None)  # the machine may be busy
@given(epochs=st.floats(1e-3, 1e3), count=st.integers(1, 10**6), lot=st.integers(1, 10**5))
def test_epochs_are_passes_over_the_data_to_half_a_lot(epochs, count, lot):
    updates = make_spec(epochs=epochs, expected_batch_size=lot).updates(count)
    assert isinstance(updates, int) and updates >= 1
    wanted = epochs * count / lot
    if wanted >= 1:
        assert abs(updates - wanted) <= 0.5 + 1e-9 * wanted


def test_a_share_of_the_budget_is_for_noised_statistics_only():
    spec = make_spec(norm="noised_batch", statistics_budget_share=0.3)
    assert spec.statistics_budget_share == 0.3
    with pytest.raises(ValueError, match="noised_batch.*got 0.3 with norm='layer'"):
        make_spec(norm="layer", statistics_budget_share=0.3)


@pytest.mark.parametrize(
    "fields, unclipped",
    [({"epsilon": INF}, True), ({"epsilon": 8.0}, False), ({"noise_multiplier": 0.0}, False)],
)
def test_only_infinite_epsilon_switches_clipping_off(fields, unclipped):
    assert make_spec(**fields).is_unclipped is unclipped
