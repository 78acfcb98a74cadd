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
            ("ledger.record_updates(count)\n", "pass\n"),
            (
                "                _record_made(private, noise)\n",
                "                ledger.record_updates(count)\n"
                "                _record_made(private, noise)\n",
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
        "digest-constant",
        _ENTRIES,
        (("int(noise.release.numpy())", "0"),),
        "Every repeated update passes for equal, and is free.",
        tests_in(
            "tests/training/resume/test_run_folder.py",
            "test_with_another_learning_rate_the_noise_is_another_and_counted",
        ),
    ),
    Mutant(
        "interrupt-not-entered",
        _ENTRIES,
        (("settle_interrupted(private, noise)\n                raise", "raise"),),
        "What a process shows after an interrupt passes for never shown.",
        tests_in(
            "tests/training/resume/test_interrupts.py",
            "test_what_was_shown_and_then_repeated_otherwise_is_counted",
        ),
    ),
    Mutant(
        "lots-of-interrupted-updates-used-again",
        _ENTRIES,
        (("noise.update_count.assign(ledger.position)", "pass"),),
        "A further fit draws lots that interrupted updates have used, and counts them as new.",
        tests_in(
            "tests/training/resume/test_interrupts.py",
            "test_a_further_fit_uses_no_lot_of_the_interrupted_updates",
        ),
    ),
    Mutant(
        "weights-that-no-ledger-knows",
        _ENTRIES,
        (
            (
                "    except BaseException:\n        private.erase()",
                "    except BaseException:\n        pass",
            ),
        ),
        "Weights of updates that could not be entered are left for anybody to take.",
        tests_in(
            "tests/training/resume/test_interrupts.py",
            "test_if_it_cannot_be_entered_the_weights_are_erased",
        ),
    ),
    Mutant(
        "made-that-was-not-entered",
        _ENTRIES,
        (
            (
                "        private.erase()\n        raise\n\n\ndef _warn",
                "        raise\n\n\ndef _warn",
            ),
        ),
        "An update that was made is entered as cut short, and counted twice when it is repeated.",
        tests_in(
            "tests/training/resume/test_interrupts.py",
            "test_if_it_cannot_be_entered_the_weights_are_erased",
        ),
    ),
    Mutant(
        "ended-run-goes-on",
        _LEDGER,
        (
            ("if self._is_finished:\n            raise", "if False:\n            raise"),
            ("if self._is_finished:\n            return 0", "if False:\n            return 0"),
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
        (
            (
                "return max(spent, self._planned_formula(plan)) if whole_plan else spent",
                "return spent",
            ),
        ),
        "A run that stopped by its results states the epsilon of its updates alone.",
        ("tests/privacy/test_ledger.py",),
    ),
    Mutant(
        "plan-is-no-limit",
        _LEDGER,
        (("        if count <= left:\n            return\n", "        return\n"),),
        "A run makes more updates than its noise was calibrated for.",
        ("tests/privacy/test_ledger.py",),
    ),
    Mutant(
        "entry-after-the-change",
        _LEDGER,
        (
            (
                '        self._append({"kind": "updates", "count": count})\n'
                "        self._lots.count(self._run.rely())\n"
                "        self._lots.count(self._run.announce(count))\n",
                "        self._lots.count(self._run.rely())\n"
                "        self._lots.count(self._run.announce(count))\n"
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
        "What was announced is lost with the power, and its repetition is free.",
        ("tests/privacy/test_ledger_file.py",),
    ),
    Mutant(
        "other-settings-accepted",
        "tfdpnorm/privacy/ledger_file.py",
        (("        (ledger.settings, settings),", "        ({}, {}),"),),
        "A run is resumed with another clipping or engine.",
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
