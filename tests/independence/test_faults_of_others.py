"""Externally reported faults, and later ones: none is trained."""

import pytest

from tests.independence.faults_of_others import FAULTS, at_random, proved
from tests.independence.later_faults import LATER

ALL = FAULTS | LATER
# Which ones the randomized check misses, of those whose model itself mixes examples.
MISSED_AT_RANDOM = {
    "a_counter",  # from a certain call on
    "gradient_centred_by_chance",
    "gradient_dropped_if_any_overflows",
    "large_numbers",  # beyond a trigger
    "missing_numbers",
    "mixup_half",  # by chance
    "mixup_layer",
    "mixup_tenth",
    "positions_from_the_longest",  # by lengths of sequences
    "trimmed_to_the_longest",
}
QUICK = ["gradient_quantized", "expert_capacity", "class_counts", "mixup_tenth", "missing_numbers"]


@pytest.mark.filterwarnings("ignore:There is no gradient rule")
def test_reported_faults_are_stopped_quickly():
    assert {name: proved(ALL[name]) for name in QUICK} == dict.fromkeys(QUICK, "stopped")


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
@pytest.mark.filterwarnings("ignore:There is no gradient rule")
def test_a_fault_is_verified_only_if_it_has_become_sound(name):
    assert (proved(ALL[name]) == "PROVED") == ALL[name].is_sound_now


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:There is no gradient rule")
def test_randomized_check_misses_only_the_known_faults():
    mixing = {name: fault for name, fault in ALL.items() if fault.kind != "other rows"}
    assert {n for n, fault in mixing.items() if at_random(fault) == "missed"} == MISSED_AT_RANDOM


def test_all_reported_faults_are_included():
    assert (len(FAULTS), len(LATER)) == (32, 22)
