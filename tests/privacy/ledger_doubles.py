"""A plan, and ledgers with entries of every kind, for the tests of ledger files."""

import copy

from tfdpnorm.privacy import make_plan

SETTINGS = {
    "num_examples": 1000,
    "expected_batch_size": 50,
    "steps": 100,
    "l2_norm_clip": 1.5,
    "noise_multiplier": 2.0,
    "delta": 1e-5,
}
PLAN = make_plan(**SETTINGS)
RUN_SETTINGS = {"engine": "bk", "depth": 16, "noise_generator": "shake256", "seed": None, "w": 0.1}
HIDDEN = ("path", "torn", "_checksums", "_size", "_descriptor", "_close", "_given", "_must_resume")


def state_of(ledger):
    """What the ledger says, as a copy that later entries do not change."""
    fields = {k: v for k, v in vars(ledger).items() if k not in (*HIDDEN, "_is_broken")}
    return copy.deepcopy(fields)


def announced(ledger, updates):
    for _ in range(updates):
        ledger.record_updates()


def fill(ledger):
    """Entries of every kind."""
    announced(ledger, 3)
    ledger.record_query("accuracy", noise_multiplier=5.0, examples=50, queries_planned=7)
    ledger.record_answer("accuracy", 41.25)
    ledger.resume(1)
    announced(ledger, 3)
    ledger.exclude("Caf\u00e9 \u2014 \u201cvocabulary\u201d.")
    ledger.record_query("overlap", noise_multiplier=9.0, examples=50, disjoint=False)
    ledger.hold_to_plan("results decide")
    ledger.establish("Proved.")
    ledger.record_updates(2)
    ledger.resume(2)
    ledger.declare_foreign("Loaded.")
    ledger.record_updates(5)
    return ledger
