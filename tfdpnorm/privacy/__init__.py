"""Privacy accounting: events, accountants, calibration, plan, ledger and statement.

Importing this package loads no TensorFlow; the names below, most of which load SciPy, are imported
when they are first used. Everything here is for the neighbouring relation add_or_remove_one and for
Poisson-sampled batches; a run that departs from them has no guarantee and says so.
"""

from typing import TYPE_CHECKING

from tfdpnorm import lazy

_NAMES = {
    "ACCOUNTANTS": "tfdpnorm.choices",
    "BudgetExhaustedError": "tfdpnorm.privacy.state",
    "Declaration": "tfdpnorm.privacy.entries",
    "LedgerCorruptError": "tfdpnorm.privacy.journal",
    "PrivacyBudget": "tfdpnorm.privacy.budget",
    "PrivacyLedger": "tfdpnorm.privacy.ledger",
    "PrivacyPlan": "tfdpnorm.privacy.plan",
    "RDP_ORDERS": "tfdpnorm.privacy.accountants",
    "calibrate_noise_multiplier": "tfdpnorm.privacy.calibration",
    "create_ledger": "tfdpnorm.privacy.ledger",
    "dp_sgd_event": "tfdpnorm.privacy.accountants",
    "epsilon_of": "tfdpnorm.privacy.accountants",
    "make_plan": "tfdpnorm.privacy.planning",
    "privacy_statement": "tfdpnorm.privacy.statement",
    "privacy_summary": "tfdpnorm.privacy.statement",
    "read_ledger": "tfdpnorm.privacy.ledger",
    "reopen_ledger": "tfdpnorm.privacy.ledger",
    "statement_json": "tfdpnorm.privacy.statement_as_json",
}

__all__ = [*_NAMES]

if TYPE_CHECKING:
    from tfdpnorm.choices import ACCOUNTANTS as ACCOUNTANTS
    from tfdpnorm.privacy.accountants import RDP_ORDERS as RDP_ORDERS
    from tfdpnorm.privacy.accountants import dp_sgd_event as dp_sgd_event
    from tfdpnorm.privacy.accountants import epsilon_of as epsilon_of
    from tfdpnorm.privacy.budget import PrivacyBudget as PrivacyBudget
    from tfdpnorm.privacy.calibration import (
        calibrate_noise_multiplier as calibrate_noise_multiplier,
    )
    from tfdpnorm.privacy.entries import Declaration as Declaration
    from tfdpnorm.privacy.journal import LedgerCorruptError as LedgerCorruptError
    from tfdpnorm.privacy.ledger import PrivacyLedger as PrivacyLedger
    from tfdpnorm.privacy.ledger import create_ledger as create_ledger
    from tfdpnorm.privacy.ledger import read_ledger as read_ledger
    from tfdpnorm.privacy.ledger import reopen_ledger as reopen_ledger
    from tfdpnorm.privacy.plan import PrivacyPlan as PrivacyPlan
    from tfdpnorm.privacy.planning import make_plan as make_plan
    from tfdpnorm.privacy.state import BudgetExhaustedError as BudgetExhaustedError
    from tfdpnorm.privacy.statement import privacy_statement as privacy_statement
    from tfdpnorm.privacy.statement import privacy_summary as privacy_summary
    from tfdpnorm.privacy.statement_as_json import statement_json as statement_json
else:
    __getattr__, __dir__ = lazy.attributes(__name__, _NAMES)
