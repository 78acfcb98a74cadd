"""Every planted fault is stopped before it trains, with the name of its layer."""

import pytest

from tests.independence.planted_faults import FAULTS, checked_at_random, stopped
from tfdpnorm.keras_compat.variables import KERAS_3

# What a few examples do not show: state from other data, losses on the side, constants of a run.
_NOT_AT_RANDOM = {
    "activity_regularizer",
    "adapted_discretization",
    "adapted_integer_lookup",
    "adapted_normalization",
    "adapted_string_lookup",
    "adapted_text_vectorization",
    "add_loss_in_a_call",
    "add_loss_to_a_functional_model",
    "stateful_recurrent_layer",
    *(name for name, fault in FAULTS.items() if fault.is_constant),
}
# What cannot be run on a batch: the library, or the check itself, rejects its values.
_REJECTED = {
    "contrastive_loss": "treats each example separately",
    "loss_less_the_batch_s_mean": "treats each example separately",
    "loss_over_the_batch_s_maximum": "treats each example separately",
    "outputs_without_rows": "8 examples gave shapes [(3,)]",
    "reduced_loss": "one value per",
}


def test_every_planted_fault_is_stopped_or_a_constant_of_the_run():
    missed = {}
    for name, fault in FAULTS.items():
        said = stopped(fault)
        if fault.is_constant:
            as_expected = said is None
        else:
            as_expected = said is not None and (fault.where is None or fault.where in said)
        if not as_expected:
            missed[name] = said
    assert not missed
    assert len(FAULTS) == (44 if KERAS_3 else 46)
    assert sum(fault.is_constant for fault in FAULTS.values()) == 5


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_the_randomized_check_finds_a_planted_fault(name):
    checked = checked_at_random(FAULTS[name])
    assert bool(checked.found) == (name not in _NOT_AT_RANDOM | set(_REJECTED)), checked
    if name in _REJECTED:
        assert _REJECTED[name] in checked.not_run
