"""The epochs of a resumed run count from its start: the same program ends where it would."""

import warnings

import pytest

from tfdpnorm.errors import PrivacyWarning


def test_epochs_that_are_trained_already_are_said(start, data, tmp_path):
    first = start(tmp_path)
    first.fit(*data, verbose=0, epochs=2)
    first.ledger.close()
    again = start(tmp_path, resume=True)
    with pytest.warns(PrivacyWarning, match="^Nothing is trained: epochs=1 .* trained 2 epochs.*4"):
        again.fit(*data, verbose=0, epochs=1)
    assert again.ledger.updates == 8
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Nothing is trained")
        again.fit(*data, verbose=0, epochs=1)  # the second in a process counts from itself
    assert again.ledger.updates == 12
