"""Every planted fault is stopped before it trains, with the name of its layer."""

from tests.independence.planted_faults import FAULTS, stopped
from tfdpnorm.keras_compat.variables import KERAS_3


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
