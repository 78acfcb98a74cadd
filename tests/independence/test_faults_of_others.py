"""Externally reported faults, and later ones: none is trained."""

import pytest

from tests.independence.faults_of_others import FAULTS, proved
from tests.independence.later_faults import LATER

ALL = FAULTS | LATER
QUICK = ["gradient_quantized", "expert_capacity", "class_counts", "mixup_tenth", "missing_numbers"]


@pytest.mark.filterwarnings("ignore:There is no gradient rule")
def test_reported_faults_are_stopped_quickly():
    assert {name: proved(ALL[name]) for name in QUICK} == dict.fromkeys(QUICK, "stopped")


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
@pytest.mark.filterwarnings("ignore:There is no gradient rule")
def test_a_fault_is_verified_only_if_it_has_become_sound(name):
    assert (proved(ALL[name]) == "PROVED") == ALL[name].is_sound_now


def test_all_reported_faults_are_included():
    assert (len(FAULTS), len(LATER)) == (32, 22)
