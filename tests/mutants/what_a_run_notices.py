"""Faults in what a run notices, and says, of weights, steps and metrics that are not its own."""

from tests.mutants.mutant import fault, tests_in

_HUB = "tests/hub_models/test_models.py"
MUTANTS = (
    fault(
        "used-initial-weights-look-fresh",
        "tfdpnorm/training/provenance.py",
        "if which is not None:",
        "if which is None and earlier:",
        "A model that was trained before, by whom is not known, begins as if it were fresh.",
        tests_in("tests/training/test_initial_weights.py", "test_the_statement_says_so"),
    ),
    fault(
        "trainings-of-any-delta",
        "tfdpnorm/training/make_private.py",
        "    check_plan(PrivacyLedger(plan, settings))\n",
        "",
        "A budget is spent on a training that can have no guarantee.",
        tests_in("tests/training/test_make_private.py", "test_a_budget_whose_delta_would_not_hold"),
    ),
    fault(
        "statement-of-a-trial-has-its-date",
        "tfdpnorm/training/resume/resumption.py",
        "if not state.remaining_updates and state.search is None:",
        "if not state.remaining_updates:",
        "The date in a winner's folder tells how many trials there were before it.",
        tests_in(
            "tests/training/resume/test_run_folder.py",
            "test_a_trial_of_a_search_has_no_statement_with_its_date",
        ),
    ),
    fault(
        "insecure-seed-guaranteed",
        "tfdpnorm/training/make_private.py",
        "    if insecure_seed is not None:\n        reasons",
        "    if insecure_seed == 0:\n        reasons",
        "A run whose noise everybody can repeat has a guarantee.",
        tests_in(
            "tests/training/test_fit.py",
            "TestUnknownSampling::test_settings_without_guarantee_say_so",
        ),
    ),
    fault(
        "lot-statistics-guaranteed",
        "tfdpnorm/training/make_private.py",
        'if streams.mode == "lot":',
        'if streams.rows_mix and streams.mode == "blend":',
        "Examples that move each other's gradients have a guarantee.",
        tests_in(
            "tests/training/test_fit.py",
            "TestUnknownSampling::test_lot_statistics_have_no_guarantee",
        ),
    ),
    fault(
        "unknown-sampling-guaranteed",
        "tfdpnorm/training/session.py",
        "            self._ledger.record(reason)\n",
        "            pass\n",
        "Lots that somebody else drew are accounted as Poisson-sampled ones.",
        tests_in(
            "tests/training/test_fit.py", "TestUnknownSampling::test_train_on_batch_voids_it_too"
        ),
    ),
    fault(
        "training-function-by-hand-guaranteed",
        "tfdpnorm/training/announced_updates.py",
        "if self.is_training and self._iterator is None",
        "if self._iterator is None",
        "Rows that were not sampled are accounted as Poisson-sampled.",
        tests_in("tests/training/test_what_leaves_a_step.py", "TestStepsByHand"),
    ),
    fault(
        "other-iterator-guaranteed",
        "tfdpnorm/training/announced_updates.py",
        "if self._are_given or self._iterator is not iterator:",
        "if self._are_given:",
        "A training function that is called by hand on one lot keeps the guarantee.",
        tests_in("tests/training/test_what_leaves_a_step.py", "TestStepsByHand"),
    ),
    fault(
        "step-by-hand-guaranteed",
        "tfdpnorm/training/announced_updates.py",
        "if not self.executes:",
        "if False:",
        "Updates that no ledger counts keep the guarantee.",
        tests_in("tests/training/test_what_leaves_a_step.py", "TestStepsByHand::test_train_step"),
    ),
    fault(
        "subclass-guaranteed",
        "tfdpnorm/training/fit_data.py",
        "return type(batches) is PoissonBatches and not replaced",
        "return True",
        "Lots that a class of the user's draws are accounted as Poisson-sampled ones.",
        tests_in(
            "tests/training/test_what_leaves_a_step.py",
            "TestStepsByHand::test_lots_that_others_sample",
        ),
    ),
    fault(
        "weights-from-elsewhere-unsaid",
        "tfdpnorm/training/provenance.py",
        "        elif self._model.built or replaced:\n",
        "        elif False:\n",
        "Weights that were loaded pass for those of the run, with epsilon = 0.",
        ("tests/training/test_provenance.py",),
    ),
    fault(
        "trained-before-unsaid",
        "tfdpnorm/training/provenance.py",
        'known = (caveat("trained_before", steps=steps),) if steps else ()',
        "known = ()",
        "What a model has learnt without privacy before the run is not mentioned.",
        tests_in("tests/training/test_provenance.py", "TestAtTheStart"),
    ),
    fault(
        "files-begin-fresh",
        "tfdpnorm/convert/convert.py",
        "    remember_training(loaded, _steps_in_file(path))\n",
        "",
        "A file that was trained without noise passes for a new model.",
        tests_in("tests/training/test_provenance.py", "TestAtTheStart"),
    ),
    fault(
        "metrics-among-the-weights",
        "tfdpnorm/training/private_model.py",
        "self._update_metrics = UpdateMetrics()\n",
        "self._update_metrics = UpdateMetrics()\n"
        "        self._nonfinite_metric = self._update_metrics.nonfinite\n",
        "Weights and checkpoints hold the sum of losses and the number of rows, without noise.",
        tests_in("tests/training/test_what_leaves_a_step.py", "TestMetrics"),
    ),
    fault(
        "phase-of-any-run-suppressed",
        "tfdpnorm/training/provenance.py",
        'known.fields.get("run") == phase.run and',
        "True and",
        "Weights of a run that is counted nowhere look counted.",
        tests_in("tests/training/test_make_private.py", "test_a_second_phase_counts_the_first"),
    ),
    fault(
        "tasks-begin-fresh",
        "tfdpnorm/training/make_private.py",
        "if given is not model and isinstance",
        "if conversion is not None and isinstance",
        "A task that was trained without noise passes for one that was not.",
        tests_in(_HUB, "test_a_task_that_was_trained_before_is_doubted"),
    ),
    fault(
        "texts-preprocessed-together",
        "tfdpnorm/training/tasks.py",
        ".batch(1)",
        ".batch(2)",
        "What a text becomes depends on the length of another one.",
        tests_in(_HUB, "test_rows_are_preprocessed_by_themselves"),
    ),
)
