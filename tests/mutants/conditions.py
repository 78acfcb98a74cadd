"""Faults in what a statement says of its conditions, where a reader looks first."""

from tests.mutants.mutant import fault, tests_in

_TEXT = "tfdpnorm/privacy/statement_text.py"
_FACTS = "tfdpnorm/privacy/facts.py"
_TESTS = ("tests/privacy/test_statements.py",)

MUTANTS = (
    fault(
        "given-public-rows-go-unsaid",
        "tfdpnorm/training/make_private.py",
        'return caveat("given_public_rows", count=count)',
        "return None",
        "Nobody learns that rows were in the model without noise.",
        tests_in(
            "tests/training/test_synthetic_batch.py", "test_the_ledger_says_what_the_rows_are"
        ),
    ),
    fault(
        "public-rows-are-not-relied-on",
        _TEXT,
        "[caveat given_public_rows]; public",
        "[not holds]; public",
        "The ten lines do not say that the public rows are assumed to be public.",
        _TESTS,
    ),
    fault(
        "initial-weights-are-a-detail",
        _FACTS,
        '"weights_unconfirmed": relies and',
        '"weights_unconfirmed": False and',
        "The first line states an epsilon for weights that private data may have trained.",
        _TESTS,
    ),
    fault(
        "trained-on-private-data-is-guaranteed",
        "tfdpnorm/privacy/state.py",
        'return (*self.sentences("no_guarantee"), *trained)',
        'return self.sentences("no_guarantee")',
        "The holder says that private data trained the weights, and an epsilon is guaranteed.",
        _TESTS,
    ),
    fault(
        "known-runs-answer-for-all-weights",
        "tfdpnorm/privacy/state.py",
        "return not (self.has_weights_of_unknown_runs or",
        "return not (self.plan.earlier or self.has_weights_of_unknown_runs or",
        "After an earlier phase nobody asks what its own first weights were trained on.",
        _TESTS,
    ),
    fault(
        "weights-without-a-guarantee-are-known",
        "tfdpnorm/privacy/state.py",
        'any(x.kind == "foreign_weights" and x.code not in answered for x in self.caveats)',
        "False",
        "Weights of unknown origin pass for those of a run whose epsilon is known.",
        _TESTS,
    ),
    fault(
        "runs-without-a-guarantee-may-have-trained-the-weights",
        "tfdpnorm/privacy/state.py",
        '        if used is None or self.has_code("weights_replaced"):\n            runs',
        "        if False:\n            runs",
        "Weights that a run without noise trained on the same data get an epsilon.",
        _TESTS,
    ),
    fault(
        "declarations-answer-for-weights-that-came-later",
        "tfdpnorm/privacy/state.py",
        "            answered += _OF_INITIAL_WEIGHTS\n",
        "            return False\n",
        "What is declared of the initial weights passes for those that replaced them later.",
        _TESTS,
    ),
    fault(
        "early-end-is-a-detail",
        _TEXT,
        "[stopped_early][is_less_than_planned] If",
        "[not holds] If",
        "The first line of a run that private data ended gives the epsilon of its few updates.",
        _TESTS,
    ),
    fault(
        "stopping-callbacks-are-free",
        "tfdpnorm/training/callbacks/own_callbacks.py",
        "if self._names and self._private.stop_training and is_early:",
        "if False:",
        "A callback that ends training when the private loss is small costs what it saw.",
        tests_in("tests/training/callbacks/test_own_callbacks.py", "test_who_ends_training_early"),
    ),
    fault(
        "callbacks-may-write-weights",
        "tfdpnorm/training/callbacks/own_callbacks.py",
        'f"on_{of}_{when}" for of in ("train", "test", "predict")',
        'f"on_{of}_{when}" for of in ("predict",)',
        "Weights that a callback put in at the end of training pass for those of the run.",
        tests_in(
            "tests/training/callbacks/test_own_callbacks.py",
            "test_weights_that_callbacks_write_are_not_the_runs",
        ),
    ),
    fault(
        "callbacks-may-write-weights-at-updates",
        "tfdpnorm/training/callbacks/own_callbacks.py",
        'f"on_{of}_batch_{when}" for of in ("train", "test", "predict")',
        'f"on_{of}_batch_{when}" for of in ("predict",)',
        "Weights that a callback writes between the updates of an epoch pass for those of the run.",
        tests_in(
            "tests/training/callbacks/test_own_callbacks.py",
            "test_weights_that_callbacks_write_are_not_the_runs",
        ),
    ),
    fault(
        "weights-that-were-asked-for-are-the-runs",
        "tfdpnorm/training/session.py",
        "if self.batches.is_training and not self.provenance.is_watching:",
        "if self.batches.is_training:",
        "A callback that replaces weights and asks for a statement passes for the run.",
        tests_in(
            "tests/training/callbacks/test_own_callbacks.py",
            "test_a_private_model_that_is_asked_vouches_for_none",
        ),
    ),
    fault(
        "weights-of-a-callback-that-failed-are-the-runs",
        "tfdpnorm/training/session.py",
        "                    self.provenance.end_watch()\n",
        "                    pass\n",
        "Weights that a callback wrote before its error pass for those of the run.",
        tests_in(
            "tests/training/callbacks/test_own_callbacks.py",
            "test_weights_that_a_callback_writes_before_it_fails",
        ),
    ),
    fault(
        "odds-are-e-to-epsilon",
        "tfdpnorm/privacy/profiles.py",
        "losses = asked - np.log1p(-shares)",
        "losses = np.where(shares < 1, asked, np.inf)",
        "The factor by which odds change is exceeded with several times the probability stated.",
        tests_in("tests/privacy/test_profiles.py", "test_the_loss_of_the_exact_profile"),
    ),
    fault(
        "private-validation-is-a-detail",
        _TEXT,
        "[caveat acted_on_validation] Who",
        "[not holds] Who",
        "The ten lines do not say that people in the validation data are not protected.",
        _TESTS,
    ),
    fault(
        "settings-beside-a-search-are-confirmed",
        _TEXT,
        "[not settings_declared] Unconfirmed: that the settings\n",
        "[not settings_declared][not search] Unconfirmed: that the settings\n",
        "Of a search, nobody has to answer for what it did not choose.",
        _TESTS,
    ),
    fault(
        "number-of-trials-may-be-published",
        _FACTS,
        '"is_of_all_trials": in_secret and',
        '"is_of_all_trials": False and',
        "The statement of a search says that its ledger, with all trials, may be published.",
        _TESTS,
    ),
    fault(
        "missing-numbers-are-one-person",
        "tfdpnorm/data/persons.py",
        "is_missing = [value in missing for value in values.tolist()]",
        "is_missing = np.zeros(len(values), bool)",
        "The rows of all whose id is -1 are protected as those of one person.",
        tests_in("tests/data/test_persons.py", "test_numbers_that_missing_ids_become_are_rejected"),
    ),
    fault(
        "progress-shows-private-scores",
        "tfdpnorm/training/callbacks/progress.py",
        'public = "val_" if self.model.session.validation_is_public else NAME_PREFIX',
        'public = "val_"',
        "Exact metrics of private validation examples are in lines that may be shown.",
        tests_in(
            "tests/training/callbacks/test_progress.py",
            "TestProgress::test_exact_metrics_of_private_validation_examples_are_not_shown",
        ),
    ),
)
