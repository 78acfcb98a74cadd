"""Every planted fault is found, by each check that ought to."""

import pytest

from tests.audit.row_independence.planted_faults import FAULTS, caught

RESULTS = {}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught(name):
    is_caught, found = caught(FAULTS[name])
    RESULTS[name] = is_caught
    assert is_caught, [(finding.check, finding.where) for finding in found]


def test_how_many_faults_are_caught_is_shown(capsys):
    with capsys.disabled():
        print(f"\n{len(RESULTS)} faults planted, {sum(RESULTS.values())} caught")
    assert all(RESULTS.values())
