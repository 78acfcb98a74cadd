"""Privacy accounting: events, accountants, calibration, plan, ledger and statement.

Importing this package loads no TensorFlow. Everything here is about add-or-remove-one adjacency
and Poisson-sampled lots; a run that departs from them has no guarantee and says so.
"""

from tfdpnorm.privacy.accountants import ACCOUNTANTS, RDP_ORDERS, dp_sgd_event, epsilon_of
from tfdpnorm.privacy.budget import PrivacyBudget
from tfdpnorm.privacy.calibration import calibrate_noise_multiplier
from tfdpnorm.privacy.epsilon_curve import EpsilonCurve
from tfdpnorm.privacy.ledger import BudgetExhaustedError, PrivacyLedger
from tfdpnorm.privacy.ledger_file import (
    LedgerCorruptError,
    create_ledger,
    read_ledger,
    reopen_ledger,
)
from tfdpnorm.privacy.plan import PrivacyPlan, make_plan
from tfdpnorm.privacy.statement import privacy_statement

__all__ = [
    "ACCOUNTANTS",
    "RDP_ORDERS",
    "BudgetExhaustedError",
    "EpsilonCurve",
    "LedgerCorruptError",
    "PrivacyBudget",
    "PrivacyLedger",
    "PrivacyPlan",
    "calibrate_noise_multiplier",
    "create_ledger",
    "dp_sgd_event",
    "epsilon_of",
    "make_plan",
    "privacy_statement",
    "read_ledger",
    "reopen_ledger",
]
