"""Privacy accounting: events, accountants, calibration, plan, ledger and statement.

Importing this package loads no TensorFlow; the names below, most of which load SciPy, are imported
when they are first used. Everything here is for the neighbouring relation add_or_remove_one and for
Poisson-sampled lots; a run that departs from them has no guarantee and says so.
"""

import importlib

_NAMES = {
    "ACCOUNTANTS": "tfdpnorm.choices",
    "BudgetExhaustedError": "tfdpnorm.privacy.state",
    "Declaration": "tfdpnorm.privacy.entries",
    "EpsilonCurve": "tfdpnorm.privacy.epsilon_curve",
    "LedgerCorruptError": "tfdpnorm.privacy.journal",
    "PrivacyBudget": "tfdpnorm.privacy.budget",
    "PrivacyLedger": "tfdpnorm.privacy.ledger",
    "PrivacyPlan": "tfdpnorm.privacy.plan",
    "RDP_ORDERS": "tfdpnorm.privacy.accountants",
    "calibrate_noise_multiplier": "tfdpnorm.privacy.calibration",
    "create_ledger": "tfdpnorm.privacy.ledger",
    "dp_sgd_event": "tfdpnorm.privacy.accountants",
    "epsilon_of": "tfdpnorm.privacy.accountants",
    "make_plan": "tfdpnorm.privacy.plan",
    "privacy_statement": "tfdpnorm.privacy.statement",
    "read_ledger": "tfdpnorm.privacy.ledger",
    "reopen_ledger": "tfdpnorm.privacy.ledger",
    "statement_json": "tfdpnorm.privacy.statement_as_json",
}

__all__ = [*_NAMES]


def __getattr__(name):
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'tfdpnorm.privacy' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
