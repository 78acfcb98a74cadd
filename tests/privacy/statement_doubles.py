"""Ledgers of runs with the settings that the tests of statements share."""

from tfdpnorm.privacy import PrivacyLedger, make_plan
from tfdpnorm.privacy.entries import Resume, Updates

SETTINGS = {
    "num_examples": 60_000,
    "expected_batch_size": 600,
    "steps": 4000,
    "l2_norm_clip": 1.25,
    "noise_multiplier": 2.684,
    "delta": 1e-5,
}


TRIAL = (0.01, SETTINGS["noise_multiplier"], SETTINGS["steps"])


def ledger_of(updates, **changes):
    ledger = PrivacyLedger(make_plan(**{**SETTINGS, **changes}))
    if updates:
        ledger.record(Updates(updates))
    return ledger


def with_settings(**settings):
    grid = {"noise_generator": "philox", "noise_grid": "stddev / 32", "sum_rounding": 0.01}
    ledger = PrivacyLedger(make_plan(**SETTINGS), {**grid, **settings})
    ledger.record(Updates(4000))
    return ledger


def resumed():
    ledger = PrivacyLedger(make_plan(**SETTINGS))
    ledger.record(Updates(10))
    ledger.record(Resume(8))
    ledger.record(Updates())
    return ledger
