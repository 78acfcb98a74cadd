"""Ledger files."""

import pytest

from tests.privacy.ledger_doubles import PLAN, RUN_SETTINGS, fill
from tfdpnorm.privacy import create_ledger


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def whole(path):
    """A closed ledger file of entries of every kind but void."""
    fill(create_ledger(path, PLAN, RUN_SETTINGS)).close()
    return path
