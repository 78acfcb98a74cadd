"""A plan, and ledgers with entries of every kind, for the tests of ledger files."""

from tfdpnorm.privacy import PrivacyLedger, make_plan
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.entries import Answer, Declaration, Query, Resume, Updates

SETTINGS = {
    "num_examples": 1000,
    "expected_batch_size": 50,
    "steps": 100,
    "most_per_batch": 1000,
    "l2_norm_clip": 1.5,
    "noise_multiplier": 2.0,
    "delta": 1e-5,
}
PLAN = make_plan(**SETTINGS)
RUN_SETTINGS = {"engine": "bk", "depth": 16, "noise_generator": "openssl", "seed": None, "w": 0.1}


def ledger_after(*blocks, plan=PLAN):
    """A ledger in memory of a process that announced updates in blocks of these sizes."""
    ledger = PrivacyLedger(plan)
    for count in blocks:
        ledger.record(Updates(count))
    return ledger


def announced(ledger, updates):
    for _ in range(updates):
        ledger.record(Updates())


def fill(ledger):
    """Entries of every kind."""
    announced(ledger, 3)
    ledger.record(Query("accuracy", noise_multiplier=5.0, examples=50, queries_planned=7))
    ledger.record(Answer("accuracy", 41.25))
    ledger.record(Resume(1))
    announced(ledger, 3)
    ledger.record(caveat("not_covered", sentence="Caf\u00e9 \u2014 \u201cvocabulary\u201d."))
    ledger.record(Query("overlap", noise_multiplier=9.0, examples=50, disjoint=False))
    ledger.record(caveat("held_to_plan", sentence="results decide"))
    ledger.record(caveat("established", sentence="Proved."))
    ledger.record(Updates(2))
    ledger.record(Resume(2))
    ledger.record(caveat("foreign_weights", sentence="Loaded."))
    ledger.record(Declaration("Jane Doe", search="not searched"))
    ledger.record(Updates(5))
    return ledger
