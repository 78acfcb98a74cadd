"""Faults in the ledger: what is entered, when, and what a reader of the file accepts."""

from tests.mutants.mutant import Mutant, tests_in

_ENTRIES = "tfdpnorm/training/step/ledger_entries.py"
_LEDGER = "tfdpnorm/privacy/ledger.py"
_FILE = "tfdpnorm/privacy/ledger_file.py"

MUTANTS = (
    Mutant(
        "one-step-of-an-execution-recorded",
        _ENTRIES,
        (("ledger.record_updates(count)", "ledger.record_updates(1)"),),
        "Of the updates of an execution only one is counted.",
        tests_in("tests/training/test_fit.py", "TestPlan"),
    ),
    Mutant(
        "entry-after-the-noise",
        _ENTRIES,
        (
            ("            ledger.record_updates(count)\n", ""),
            (
                "                return train_function(iterator)\n",
                "                logs = train_function(iterator)\n"
                "                ledger.record_updates(count)\n"
                "                return logs\n",
            ),
        ),
        "A process that dies in between has released an update that no ledger knows.",
        tests_in(
            "tests/training/resume/test_run_folder.py",
            "test_a_ledger_that_cannot_be_written_stops_before_the_update",
        ),
    ),
    Mutant(
        "execution-beyond-the-plan",
        _ENTRIES,
        (
            (
                "with exchanged_steps_per_execution(private, count):",
                "with exchanged_steps_per_execution(private, steps_per_execution(private)):",
            ),
        ),
        "The last execution makes more updates than are left and recorded.",
        tests_in("tests/training/test_fit.py", "TestPlan"),
    ),
    Mutant(
        "ended-run-goes-on",
        _LEDGER,
        (
            ("if self._is_finished:\n            raise", "if False:\n            raise"),
            (
                "return 0 if self._is_finished else self._plan.steps",
                "return self._plan.steps",
            ),
        ),
        "A run that was ended makes further updates.",
        ("tests/privacy/test_ledger_resume.py",),
    ),
    Mutant(
        "void-forgotten",
        _LEDGER,
        (
            (
                "return not self.no_guarantee_because",
                "return not self._plan.no_guarantee_because",
            ),
        ),
        "Epsilon stays finite, whatever was found at run time.",
        ("tests/privacy/test_ledger.py",),
    ),
    Mutant(
        "held-run-costs-what-it-made",
        _LEDGER,
        (("plan.steps if whole_plan else self._updates, asked", "self._updates, asked"),),
        "A run that stopped by its results states the epsilon of its updates alone.",
        ("tests/privacy/test_ledger.py",),
    ),
    Mutant(
        "plan-is-no-limit",
        _LEDGER,
        (("if count > self.remaining_updates:", "if False:"),),
        "A run makes more updates than its noise was calibrated for.",
        ("tests/privacy/test_ledger.py",),
    ),
    Mutant(
        "entry-after-the-change",
        _LEDGER,
        (
            (
                '        self._append({"kind": "updates", "count": count})\n'
                "        self._updates += count\n",
                "        self._updates += count\n"
                '        self._append({"kind": "updates", "count": count})\n',
            ),
        ),
        "The ledger in memory and its file disagree after a failed write.",
        ("tests/privacy/test_ledger.py",),
    ),
    Mutant(
        "cut-ledger-accepted",
        _FILE,
        (("if known != checksum:", "if known is not None and known != checksum:"),),
        "Lines that were cut off at the end are forgotten, and what they spent.",
        ("tests/privacy/test_ledger_file_damage.py",),
    ),
    Mutant(
        "checksum-without-the-line-before",
        "tfdpnorm/privacy/ledger_format.py",
        (("hashlib.sha256(before.encode() + text)", "hashlib.sha256(text)"),),
        "Lines can be exchanged for those of another ledger.",
        tests_in(
            "tests/privacy/test_ledger_file_damage.py", "test_lines_of_another_ledger_are_refused"
        ),
    ),
    Mutant(
        "another-plan-accepted",
        _FILE,
        (("if before != now:", 'if before != now and name != "noise_multiplier":'),),
        "A resumed run has another noise than its ledger counts by.",
        ("tests/privacy/test_ledger_file.py",),
    ),
    Mutant(
        "ledger-not-on-the-disk",
        "tfdpnorm/files.py",
        (
            (
                "    _write_bytes(descriptor, data)\n    _TO_DISK",
                "    _write_bytes(descriptor, data)\n    str",
            ),
        ),
        "What was announced is lost with the power, and was released.",
        ("tests/privacy/test_ledger_file.py",),
    ),
    Mutant(
        "other-settings-accepted",
        "tfdpnorm/privacy/ledger_file.py",
        (("        (ledger.settings, settings),", "        ({}, {}),"),),
        "A run is resumed with noise on no grid, or a bound on rounding that is not its own.",
        ("tests/privacy/test_ledger_file.py",),
    ),
    Mutant(
        "ledger-not-locked",
        "tfdpnorm/privacy/ledger_file.py",
        (("        _lock(descriptor, path)\n", ""),),
        "Two processes make the same updates, and only one is counted.",
        ("tests/privacy/test_ledger_file_writing.py",),
    ),
)
