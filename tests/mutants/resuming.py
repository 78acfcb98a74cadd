"""Faults in resumed runs: what is charged, what goes on, and what copies say."""

from tests.mutants.mutant import fault, tests_in

_STATE = "tfdpnorm/privacy/state.py"
_SPENDING = "tfdpnorm/privacy/epsilons.py"
_FOLDER = "tfdpnorm/training/resume/run_folder.py"
_CHECKPOINTING = "tfdpnorm/training/resume/resumption.py"
_RESUMED = ("tests/privacy/test_ledger.py",)
_FOLDER_TESTS = "tests/training/resume/test_run_folder.py"
_COPY_TESTS = "tests/training/resume/test_copies.py"

MUTANTS = (
    fault(
        "lost-updates-free",
        _STATE,
        'return {"position": position, ',
        'return {"position": position, "updates": position, ',
        "Updates that a crash has lost were released, and are not charged.",
        _RESUMED,
    ),
    fault(
        "position-charged",
        _SPENDING,
        "updates = plan.steps if whole_plan else state.updates\n    return",
        "updates = plan.steps if whole_plan else state.position\n    return",
        "Epsilon is that of the updates in the weights, and not of those that were released.",
        _RESUMED,
    ),
    fault(
        "lost-updates-made-again",
        _STATE,
        "self.is_finished else self.plan.steps - self.updates",
        "self.is_finished else self.plan.steps - self.position",
        "A resumed run makes all updates of its plan, beside those that were lost.",
        _RESUMED,
    ),
    fault(
        "answers-about-lost-weights-shown-again",
        _STATE,
        "if key[1] <= position}",
        "}",
        "An answer about lost weights passes for one about others.",
        ("tests/privacy/test_ledger_queries.py",),
    ),
    fault(
        "resumes-unsaid",
        "tfdpnorm/privacy/statement_text.py",
        "[state.resumes] - The run",
        "[not run] - The run",
        "The statement does not say that updates were lost, and charged.",
        ("tests/privacy/test_statements.py",),
    ),
    fault(
        "copies-unsaid",
        "tfdpnorm/privacy/statement_text.py",
        "[state.resumes] - Copies",
        "[not run] - Copies",
        "Two copies of a run go on, and each states the epsilon of one.",
        tests_in(_COPY_TESTS, "test_resumed_runs_assume_that_no_copy_goes_on"),
    ),
    fault(
        "checkpoints-once-in-a-run",
        "tfdpnorm/training/resume/resumption.py",
        "_CHECKPOINTS = 50",
        "_CHECKPOINTS = 1",
        "A crash costs all updates.",
        tests_in(_FOLDER_TESTS, "test_a_fiftieth_of_the_plan_lies_between_checkpoints"),
    ),
    fault(
        "old-learning-rate-kept",
        _CHECKPOINTING,
        "(self._private.optimizer_settings, rate",
        "(None, rate",
        "A run that is resumed with another learning rate goes on with the old one, unsaid.",
        tests_in(_FOLDER_TESTS, "test_a_new_rate_holds_and_one_of_a_callback_is_kept"),
    ),
    fault(
        "optimizer-of-another-kind-restored",
        "tfdpnorm/training/resume/checkpoints.py",
        'if state["variables"].get(name) == _described(of, group)',
        "if True",
        "A run cannot be resumed with another optimizer.",
        tests_in(
            _FOLDER_TESTS,
            "test_settings_without_effect_on_the_guarantee_may_change",
        ),
    ),
    fault(
        "tail-unchecked",
        _FOLDER,
        'self.ledger.file.check_reaches(tuple(self.checkpoint["ledger"]))',
        "pass",
        "A ledger that was cut short is accepted beside its checkpoint.",
        tests_in("tests/training/resume/test_run_folder.py", "test_a_shortened_ledger_is_rejected"),
    ),
    fault(
        "variables-of-nadam-forgotten",
        "tfdpnorm/keras_compat/training.py",
        "            found.setdefault(id(variable), variable)\n",
        "            continue\n",
        "A resumed run with Nadam goes on with a wrong momentum.",
        tests_in("tests/training/resume/test_all_state.py", "test_every_optimizer"),
    ),
    fault(
        "steps-by-hand-after-an-interrupt",
        "tfdpnorm/training/announced_updates.py",
        "                made.assign(tf.maximum(made, ledger.updates))\n",
        "",
        "Updates by hand pass for those that an interrupted execution had announced.",
        tests_in(
            "tests/training/test_what_leaves_a_step.py",
            "TestStepsByHand::test_the_function_that_an_interrupted_fit_left",
        ),
    ),
)
