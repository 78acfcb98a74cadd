"""Faults in the ledger: what is entered, when, and what a reader of the file accepts."""

from tests.mutants.mutant import Mutant, fault, tests_in

_ENTRIES = "tfdpnorm/training/announced_updates.py"
_LEDGER = "tfdpnorm/privacy/ledger.py"
_STATE = "tfdpnorm/privacy/state.py"
_SPENDING = "tfdpnorm/privacy/epsilons.py"
_JOURNAL = "tfdpnorm/privacy/journal.py"

MUTANTS = (
    fault(
        "one-step-of-an-execution-recorded",
        _ENTRIES,
        "ledger.record(Updates(count))",
        "ledger.record(Updates(1))",
        "Of the updates of an execution only one is counted.",
        tests_in("tests/training/test_fit.py", "TestPlan"),
    ),
    Mutant(
        "entry-after-the-noise",
        _ENTRIES,
        (
            ("            ledger.record(Updates(count))\n", ""),
            (
                "                return train_function(iterator)\n",
                "                logs = train_function(iterator)\n"
                "                ledger.record(Updates(count))\n"
                "                return logs\n",
            ),
        ),
        "A process that dies in between has released an update that no ledger knows.",
        tests_in(
            "tests/training/resume/test_run_folder.py",
            "test_a_ledger_that_cannot_be_written_stops_before_the_update",
        ),
    ),
    fault(
        "execution-beyond-the-plan",
        _ENTRIES,
        "with exchanged_steps_per_execution(private, count):",
        "with exchanged_steps_per_execution(private, steps_per_execution(private)):",
        "The last execution makes more updates than are left and recorded.",
        tests_in("tests/training/test_fit.py", "TestPlan"),
    ),
    Mutant(
        "ended-run-goes-on",
        _STATE,
        (
            ("if state.is_finished:\n        raise", "if False:\n        raise"),
            (
                "return 0 if self.is_finished else self.plan.steps",
                "return self.plan.steps",
            ),
        ),
        "A run that was ended makes further updates.",
        ("tests/privacy/test_ledger.py",),
    ),
    fault(
        "void-forgotten",
        _STATE,
        'return (*self.sentences("no_guarantee"), *trained)',
        "return (*self.plan.no_guarantee_because, *trained)",
        "Epsilon stays finite, whatever was found at run time.",
        ("tests/privacy/test_ledger.py",),
    ),
    fault(
        "held-run-costs-what-it-made",
        _SPENDING,
        "updates = plan.steps if whole_plan else state.updates\n    return",
        "updates = state.updates\n    return",
        "A run that stopped by its results states the epsilon of its updates alone.",
        ("tests/privacy/test_ledger.py",),
    ),
    fault(
        "plan-is-no-limit",
        _STATE,
        "if count > left:",
        "if False:",
        "A run makes more updates than its noise was calibrated for.",
        ("tests/privacy/test_ledger.py",),
    ),
    fault(
        "entry-after-the-change",
        _LEDGER,
        "            self.file.append(entries.to_json(entry))\n        self._state = state\n",
        "            self._state = state\n"
        "            self.file.append(entries.to_json(entry))\n"
        "        self._state = state\n",
        "The ledger in memory and its file disagree after a failed write.",
        ("tests/privacy/test_ledger.py",),
    ),
    fault(
        "forged-fields-read",
        "tfdpnorm/privacy/entries.py",
        "if to_json(entry) != fields:",
        "if False:",
        "A file may hold entries that this library does not write.",
        tests_in(
            "tests/privacy/test_ledger_file_damage.py",
            "test_entries_that_contradict_each_other_are_rejected",
        ),
    ),
    fault(
        "reopened-ledger-not-resumed",
        _LEDGER,
        "if self._must_resume and isinstance",
        "if False and isinstance",
        "A process counts its updates as those after the weights of another one.",
        tests_in(
            "tests/privacy/test_ledger_file.py", "test_a_reopened_ledger_has_to_be_resumed_first"
        ),
    ),
    fault(
        "cut-ledger-accepted",
        _JOURNAL,
        "if known != checksum:",
        "if known is not None and known != checksum:",
        "Lines that were cut off at the end are forgotten, and what they spent.",
        ("tests/privacy/test_ledger_file_damage.py",),
    ),
    fault(
        "checksum-without-the-line-before",
        _JOURNAL,
        "hashlib.sha256(before.encode() + text)",
        "hashlib.sha256(text)",
        "Lines can be exchanged for those of another ledger.",
        tests_in(
            "tests/privacy/test_ledger_file_damage.py", "test_lines_of_another_ledger_are_rejected"
        ),
    ),
    fault(
        "another-plan-accepted",
        _LEDGER,
        "if before != after:",
        'if before != after and name != "noise_multiplier":',
        "A resumed run has another noise than its ledger counts by.",
        ("tests/privacy/test_ledger_file.py",),
    ),
    fault(
        "ledger-not-on-the-disk",
        "tfdpnorm/files.py",
        "    _write_bytes(descriptor, data)\n    _TO_DISK",
        "    _write_bytes(descriptor, data)\n    str",
        "What was announced is lost with the power, and was released.",
        ("tests/privacy/test_ledger_file.py",),
    ),
    fault(
        "other-settings-accepted",
        _LEDGER,
        "        (ledger.settings, now.settings),",
        "        ({}, {}),",
        "A run is resumed with noise on no grid, or a bound on rounding that is not its own.",
        ("tests/privacy/test_ledger_file.py",),
    ),
    fault(
        "ledger-read-before-it-is-locked",
        _JOURNAL,
        "if hashlib.sha256(file.read()).digest() != self._digest:",
        "if False:",
        "What another process wrote after the file was read is cut off, and not counted.",
        tests_in(
            "tests/privacy/test_ledger_file_writing.py",
            "test_file_changed_between_reading_and_locking",
        ),
    ),
    fault(
        "ledger-not-locked",
        _JOURNAL,
        "            _lock(descriptor, self.path)\n",
        "",
        "Two processes make the same updates, and only one is counted.",
        ("tests/privacy/test_ledger_file_writing.py",),
    ),
)
