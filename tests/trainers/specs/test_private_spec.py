"""PrivateSpec: what it rejects, with the value and the remedy, and how many updates it means."""

import dataclasses
import math

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


@pytest.mark.parametrize("first, second", [("epsilon", "noise_multiplier"), ("epochs", "steps")])
def test_exactly_one_of_two_ways_to_say_it(first, second):
    with pytest.raises(ValueError, match=f"exactly one of {first} and {second}, got {first} and"):
        make_spec(**{first: 1, second: 1})
    with pytest.raises(ValueError, match=f"exactly one of {first} and {second}, got neither"):
        make_spec(**{first: None, second: None})
    assert getattr(make_spec(**{second: 1, first: None}), second) == 1


def test_zero_noise_counts_as_given():
    assert make_spec(noise_multiplier=0.0).epsilon is None
    with pytest.raises(ValueError, match="epsilon and noise_multiplier"):
        make_spec(epsilon=1.0, noise_multiplier=0.0)


@pytest.mark.parametrize(
    "name",
    [
        "norm",
        "model",
        "accountant",
        "optimizer",
        "learning_rate_schedule",
        "statistics",
        "statistics_gradient",
    ],
)
@pytest.mark.parametrize("value", ["", "banana", "Public_Batch", None])
def test_unknown_names_are_rejected_with_the_known_ones(name, value):
    known = getattr(make_spec(), name)
    with pytest.raises(ValueError) as error:
        make_spec(**{name: value})
    for part in (f"Expected {name} to be one of", repr(known), f"got {value!r}"):
        assert part in str(error.value)


@pytest.mark.parametrize("value", ["", "banana", "Book_Keeping"])
def test_unknown_engines_are_rejected_with_the_known_ones(value):
    with pytest.raises(ValueError, match=f"engine to be one of .*'book_keeping'.*got '{value}'"):
        make_spec(engine=value)


def test_ordinary_batch_normalisation_is_rejected_with_a_remedy():
    with pytest.raises(ValueError, match=r'norm="batch".*Use norm="public_batch", "group"'):
        make_spec(norm="batch")


@pytest.mark.parametrize("value", [0, -1, -INF, float("nan")])
@pytest.mark.parametrize(
    "name",
    [
        "epsilon",
        "epochs",
        "steps",
        "learning_rate",
        "expected_batch_size",
        "l2_norm_clip",
        "physical_batch_size",
        "max_examples",
        "evaluations",
    ],
)
def test_values_that_are_not_positive_are_rejected(name, value):
    expected = f"Expected {name} (> 0( and finite)?|to be a whole number >= 1), got {value!r}"
    with pytest.raises(ValueError, match=expected):
        make_spec(**{name: value})


@pytest.mark.parametrize(
    "name", ["epochs", "steps", "learning_rate", "expected_batch_size", "evaluations"]
)
def test_infinity_is_rejected_where_it_means_nothing(name):
    expected = f"Expected {name} (> 0 and finite|to be a whole number >= 1), got inf"
    with pytest.raises(ValueError, match=expected):
        make_spec(**{name: INF})


@pytest.mark.parametrize(
    "fields, part",
    [
        ({"seed": -1}, "seed to be a whole number >= 0, got -1"),
        ({"insecure_seed": -3}, "insecure_seed to be a whole number >= 0, got -3"),
        ({"ema_decay": 1.0}, "ema_decay in [0, 1), got 1.0"),
        ({"ema_decay": -0.1}, "ema_decay in [0, 1), got -0.1"),
        ({"ema_decay": float("nan")}, "ema_decay"),
        ({"public_batch_size": 1}, "public_batch_size to be a whole number >= 2, got 1"),
    ],
)
def test_values_out_of_range_are_rejected(fields, part):
    with pytest.raises(ValueError) as error:
        make_spec(**fields)
    assert part in str(error.value)


def test_a_spec_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        make_spec().epsilon = 100.0


@pytest.mark.parametrize(
    "fields, unclipped",
    [({"epsilon": INF}, True), ({"epsilon": 8.0}, False), ({"noise_multiplier": 0.0}, False)],
)
def test_only_infinite_epsilon_switches_clipping_off(fields, unclipped):
    assert make_spec(**fields).is_unclipped is unclipped


@pytest.mark.parametrize("norm", ["none", "layer", "group", "public_batch"])
def test_public_rows_are_for_public_batch_normalisation(norm):
    assert make_spec(norm=norm).needs_public_rows is (norm == "public_batch")


@settings(deadline=None)  # the machine may be busy
@given(steps=st.integers(1, 10**6), count=st.integers(1, 10**6), lot=st.integers(1, 10**5))
def test_steps_are_the_updates_whatever_the_data(steps, count, lot):
    assert make_spec(steps=steps, expected_batch_size=lot).updates(count) == steps


@settings(deadline=None)  # the machine may be busy
@given(epochs=st.floats(1e-3, 1e3), count=st.integers(1, 10**6), lot=st.integers(1, 10**5))
def test_epochs_are_passes_over_the_data_to_half_a_lot(epochs, count, lot):
    updates = make_spec(epochs=epochs, expected_batch_size=lot).updates(count)
    assert isinstance(updates, int) and updates >= 1
    wanted = epochs * count / lot
    if wanted >= 1:
        assert abs(updates - wanted) <= 0.5 + 1e-9 * wanted


def test_updates_of_the_design_document():
    # 20 passes over 60,000 examples in lots of 1024.
    assert make_spec(epochs=20, expected_batch_size=1024).updates(60_000) == 1172
    assert math.isclose(1172 * 1024 / 60_000, 20, rel_tol=1e-3)


def test_a_share_of_the_budget_is_for_noised_statistics_only():
    spec = make_spec(norm="noised_batch", statistics_budget_share=0.3)
    assert spec.statistics_budget_share == 0.3
    with pytest.raises(ValueError, match="noised_batch.*got 0.3 with norm='layer'"):
        make_spec(norm="layer", statistics_budget_share=0.3)
