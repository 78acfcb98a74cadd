"""Faults in resumed runs: what is repeated, what is counted again, and the secret key."""

from tests.mutants.mutant import Mutant, tests_in

_REPETITIONS = "tfdpnorm/privacy/repetitions.py"
_LOT_USES = "tfdpnorm/privacy/lot_uses.py"
_FOLDER = "tfdpnorm/training/resume/run_folder.py"
_RESUMED = ("tests/privacy/test_ledger_resume.py",)

MUTANTS = (
    Mutant(
        "last-announced-not-counted",
        _REPETITIONS,
        (
            (
                "return range(max(first, self._free_to + 1), self.position + 1)",
                "return range(max(first, self._free_to + 1), max(self.position, first + 1))",
            ),
        ),
        "Of several updates that are announced together the last one is not counted.",
        ("tests/privacy/test_ledger.py",),
    ),
    Mutant(
        "repetition-that-differs-free",
        _REPETITIONS,
        (("counted = self._leave_unconfirmed()\n            if", "if"),),
        "Updates that came out otherwise on the same lots are not counted.",
        _RESUMED,
    ),
    Mutant(
        "other-keys-free",
        _REPETITIONS,
        (
            (
                "if not same_randomness:\n            self._begin",
                "if False:\n            self._begin",
            ),
        ),
        "After the loss of a key, updates with new noise pass for repetitions.",
        _RESUMED,
    ),
    Mutant(
        "chain-goes-on-after-a-difference",
        _REPETITIONS,
        (("if known is not None:", "if False:"),),
        "After an update that differed, those that follow pass for repetitions.",
        _RESUMED,
    ),
    Mutant(
        "interrupted-repetition-free",
        _REPETITIONS,
        (("counted, self._pending = self.rely(), None", "counted, self._pending = _NONE, None"),),
        "What was shown after an interrupt is repeated with another result for free.",
        _RESUMED,
    ),
    Mutant(
        "copy-takes-the-key",
        _FOLDER,
        (("is_copy = may_be_copy(self.ledger, key)", "is_copy = False"),),
        "Two copies of a run train on the same lots, and two ledgers count them apart.",
        tests_in("tests/training/resume/test_copies.py", "test_a_copy_shares_no_lot_and_says_so"),
    ),
    Mutant(
        "announced-and-seen-free",
        _REPETITIONS,
        (
            (
                "self._shown_to = max(self._shown_to, self.position)\n"
                "        return self._leave_unconfirmed()",
                "return self._leave_unconfirmed()",
            ),
        ),
        "An update that may have left the dead process is repeated for free.",
        _RESUMED,
    ),
    Mutant(
        "lots-used-twice-forgotten",
        _LOT_USES,
        (("self._uses[position] = uses + 1", "self._uses[position] = 2"),),
        "The fourth release of a lot costs no more than the third.",
        ("tests/privacy/test_ledger_model.py",),
    ),
    Mutant(
        "new-key-passes-for-the-old",
        _FOLDER,
        (
            (
                "return secret_key.new_key(self.path), False",
                "return secret_key.new_key(self.path), True",
            ),
        ),
        "Updates made again with new noise are not counted.",
        tests_in(
            "tests/training/resume/test_run_folder.py",
            "test_without_its_key_a_run_counts_repeated_updates",
        ),
    ),
    Mutant(
        "key-for-everybody",
        "tfdpnorm/training/resume/secret_key.py",
        (("os.O_EXCL, 0o600", "os.O_EXCL, 0o644"),),
        "Every user of the machine can subtract the noise.",
        tests_in(
            "tests/training/resume/test_run_folder.py",
            "test_the_key_is_for_its_owner_alone_and_goes_with_the_last_update",
        ),
    ),
    Mutant(
        "key-stays",
        _FOLDER,
        (("secret_key.delete_key(self.path)", "self.path.exists()"),),
        "Whoever finds the folder of an ended run can subtract the noise.",
        tests_in(
            "tests/training/resume/test_run_folder.py",
            "test_the_key_is_for_its_owner_alone_and_goes_with_the_last_update",
        ),
    ),
    Mutant(
        "tail-unchecked",
        _FOLDER,
        (('self.ledger.check_reaches(tuple(self.checkpoint["ledger"]))', "pass"),),
        "A ledger that was cut short is accepted beside its checkpoint.",
        tests_in("tests/training/resume/test_run_folder.py", "test_a_shortened_ledger_is_refused"),
    ),
    Mutant(
        "update-count-not-saved",
        "tfdpnorm/training/resume/checkpointing.py",
        (("[self._noise.update_count, self._noise.release]", "[self._noise.release]"),),
        "A resumed run draws the first lots once more.",
        tests_in(
            "tests/training/resume/test_run_folder.py",
            "test_secret_noise_is_repeated_and_counted_once",
        ),
    ),
    Mutant(
        "digest-of-the-release-not-saved",
        "tfdpnorm/training/resume/checkpointing.py",
        (("[self._noise.update_count, self._noise.release]", "[self._noise.update_count]"),),
        "Repeated updates look different, and count twice.",
        tests_in(
            "tests/training/resume/test_run_folder.py",
            "test_secret_noise_is_repeated_and_counted_once",
        ),
    ),
    Mutant(
        "recounted-beyond-the-plan",
        "tfdpnorm/privacy/allowance.py",
        (("    return _largest(fits_after, left)", "    return left"),),
        "Updates on lots that were used before cost no more than others.",
        _RESUMED,
    ),
    Mutant(
        "difference-beyond-the-plan-shown",
        "tfdpnorm/privacy/ledger.py",
        (("        self._check_countable_again(self._run.counted_if_made(digest), how)\n", ""),),
        "A repetition that differs is shown, though the budget has no room for it.",
        _RESUMED,
    ),
    Mutant(
        "discarded-weights-stay",
        "tfdpnorm/training/step/ledger_entries.py",
        (("        private.discard()\n", ""),),
        "Weights that the ledger does not count are left to the caller.",
        tests_in(
            "tests/training/resume/test_run_folder.py",
            "test_where_the_budget_is_too_small_what_differs_is_thrown_away",
        ),
    ),
    Mutant(
        "variables-of-nadam-forgotten",
        "tfdpnorm/keras_compat/optimizers.py",
        (("            found.setdefault(variable.ref(), variable)\n", "            continue\n"),),
        "A resumed run with Nadam repeats nothing, and spends its budget on that.",
        tests_in("tests/training/resume/test_all_state.py", "test_every_optimizer"),
    ),
    Mutant(
        "loss-not-compared",
        "tfdpnorm/training/resume/checkpointing.py",
        (
            (
                "        self._folder.check_training(self._private.training_settings())\n",
                "",
            ),
        ),
        "A run is resumed with its loss negated, and may repeat its noise on another sum.",
        tests_in(
            "tests/training/resume/test_described.py",
            "test_a_run_is_not_resumed_with_its_loss_negated",
        ),
    ),
)
