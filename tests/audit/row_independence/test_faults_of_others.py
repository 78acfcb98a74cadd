"""Faults that others found, and later ones: none is trained, and the probe finds most."""

import pytest

from tests.audit.row_independence.faults_of_others import FAULTS, probed, proved
from tests.audit.row_independence.later_faults import LATER

ALL = FAULTS | LATER
QUICK = ["gradient_quantized", "expert_capacity", "class_counts", "mixup_tenth", "missing_numbers"]
PARAMETERS = [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.slow]) for n in ALL]


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.filterwarnings("ignore:There is no gradient rule")
def test_the_probe_makes_of_a_fault_what_the_table_says(name):
    fault = ALL[name]
    assert probed(fault, batch_size=fault.rows) == fault.after


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
@pytest.mark.filterwarnings("ignore:There is no gradient rule")
def test_a_fault_is_proved_only_if_it_has_become_sound(name):
    assert (proved(ALL[name]) == "PROVED") == ALL[name].is_sound_now


def test_no_fault_of_others_is_missed_but_those_that_show_in_no_model():
    """Where layers are trained on other rows than the examples, the model itself is sound."""
    missed = {fault.kind for fault in FAULTS.values() if fault.after == "missed"}
    assert missed == {"other rows"}
