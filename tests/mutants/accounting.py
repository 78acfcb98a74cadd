"""Faults in what is counted: rates, divergences, compositions, roundings and statements."""

from tests.mutants.mutant import Mutant, fault, tests_in

_ACCOUNTANTS = "tfdpnorm/privacy/accountants.py"
_COMPOSITION = "tfdpnorm/privacy/composition.py"
_COMPARISON = "tfdpnorm/privacy/comparison.py"
_CURVE = "tfdpnorm/privacy/epsilon_curve.py"
_PLAN = "tfdpnorm/privacy/plan.py"
_STATEMENT = "tfdpnorm/privacy/statement.py"
_ADDED = "tfdpnorm/privacy/added_delta.py"
_PLAN_TESTS = ("tests/privacy/test_plan.py",)
_STATEMENT_TESTS = ("tests/privacy/test_statement.py",)
_CURVE_TESTS = ("tests/privacy/test_epsilon_curve.py",)

MUTANTS = (
    fault(
        "zcdp-claim-guaranteed",
        _COMPARISON,
        "and not zcdp.holds(sampling_rate):",
        "and not sampling_rate:",
        "What the paper claims, and one update refutes, passes for a guarantee.",
        tests_in("tests/privacy/test_comparison.py", "test_which_hold"),
    ),
    fault(
        "replacing-counts-as-removing",
        _COMPARISON,
        '{"add_or_remove_one": 1, "replace_one": 2}',
        '{"add_or_remove_one": 1, "replace_one": 1}',
        "Advanced composition is half as careful about replaced examples as it must be.",
        tests_in("tests/privacy/test_comparison.py", "test_which_hold"),
    ),
    fault(
        "gaussian-theorem-beyond-its-range",
        "tfdpnorm/privacy/advanced_composition.py",
        "gaussian_epsilon(noise_ratio, step_delta) < 1",
        "noise_ratio < math.inf",
        "Advanced composition is guaranteed where the theorem under it does not hold.",
        tests_in("tests/privacy/test_comparison.py", "test_which_hold"),
    ),
    fault(
        "replaced-examples-point-nowhere",
        "tfdpnorm/privacy/replace_one.py",
        "special.log_ndtr((-1 - t) / z)",
        "special.log_ndtr(-t / z)",
        "The other example's gradient counts as zero: half of what replacing does.",
        tests_in("tests/privacy/test_replace_one.py", "test_delta_of_the_pair_by_integration"),
    ),
    fault(
        "rate-of-another-n",
        _PLAN,
        "return self.expected_batch_size / self.num_examples",
        "return self.expected_batch_size / (self.num_examples + 1)",
        "q is smaller than the chance of an example to be in a lot.",
        ("tests/privacy/test_plan.py",),
    ),
    fault(
        "epsilon-rounded-to-nearest",
        "tfdpnorm/privacy/rounding.py",
        "rounding=ROUND_CEILING",
        'rounding="ROUND_HALF_EVEN"',
        "Every other epsilon is printed smaller than it is.",
        ("tests/privacy/test_statement.py",),
    ),
    fault(
        "delta-doubled",
        _ACCOUNTANTS,
        "compute_epsilon(orders, rdp, delta)",
        "compute_epsilon(orders, rdp, 2 * delta)",
        "Epsilon is that of a delta twice as large.",
        tests_in("tests/privacy/test_accountants.py", "test_full_batches_by_rdp_are_the_formulas"),
    ),
    fault(
        "pld-of-deltas-lost-to-rounding",
        _ACCOUNTANTS,
        "if delta < 2 * lost:",
        "if False:",
        "With 50,000 updates and a delta of 1e-12, epsilon is below the true one.",
        tests_in(
            "tests/privacy/test_accountants.py",
            "test_pld_does_not_compose_deltas_that_rounding_takes",
        ),
    ),
    fault(
        "pld-delta-doubled",
        _ACCOUNTANTS,
        "pld.get_epsilon(delta)",
        "pld.get_epsilon(2 * delta)",
        "Epsilon is that of a delta twice as large.",
        tests_in(
            "tests/privacy/test_accountants.py", "test_full_batches_against_the_analytic_gaussian"
        ),
    ),
    fault(
        "divergences-of-lower-orders",
        _ACCOUNTANTS,
        "rdp = RdpAccountant(orders=orders).compose(event).rdp",
        "lower = [max(1.1, order - 0.5) for order in orders]\n"
        "    rdp = RdpAccountant(orders=lower).compose(event).rdp",
        "Divergences are converted as those of a higher order: epsilon is too small.",
        tests_in("tests/privacy/test_accountants.py", "test_full_batches_by_rdp_are_the_formulas"),
    ),
    fault(
        "orders-cut-off",
        _ACCOUNTANTS,
        "_EXTRA_ORDERS = (76, 91, 108, 152, 181, 215, 304, 362, 431, 724, 1448, 2048)",
        "_EXTRA_ORDERS = (76, 91)",
        "Small epsilons are reported larger than they have to be.",
        tests_in("tests/privacy/test_accountants.py", "test_added_orders_lower_a_small_epsilon"),
    ),
    fault(
        "unknown-divergence-counts-as-none",
        _ACCOUNTANTS,
        "return np.where(unknown, np.inf,",
        "return np.where(unknown, 0.0,",
        "Where the accountant does not know, it says that nothing was spent.",
        tests_in(
            "tests/privacy/test_accountants.py", "test_an_unknown_divergence_counts_as_infinite"
        ),
    ),
    fault(
        "rdp-without-floor",
        _ACCOUNTANTS,
        "np.maximum(np.minimum(rdp, unsampled), floor)",
        "np.minimum(rdp, unsampled)",
        "Tiny losses round to nothing, whatever their number.",
        tests_in(
            "tests/privacy/test_accountants.py", "test_rounding_noise_does_not_hide_a_tiny_loss"
        ),
    ),
    fault(
        "rdp-between-whole-orders-too-low",
        _ACCOUNTANTS,
        "np.append(0.0, rdp[whole] * (orders[whole] - 1))",
        "np.append(0.0, rdp[whole])",
        "Orders between whole ones are bounded as if the divergence itself were the moment.",
        tests_in(
            "tests/privacy/test_accountants.py",
            "test_orders_between_whole_ones_are_bounded_by_integration",
        ),
    ),
    fault(
        "unknown-mechanism-costs-nothing",
        _ACCOUNTANTS,
        "elif not isinstance(event, dp_accounting.NoOpDpEvent):\n        yield",
        "elif False:\n        yield",
        "A mechanism that is not Gaussian is bounded by what the Gaussian ones beside it cost.",
        tests_in(
            "tests/privacy/test_accountants.py",
            "test_a_mechanism_that_is_not_gaussian_is_not_bounded_as_if_it_were",
        ),
    ),
    fault(
        "one-composition-less",
        _ACCOUNTANTS,
        "dp_accounting.SelfComposedDpEvent(event, updates)",
        "dp_accounting.SelfComposedDpEvent(event, max(1, updates - 1))",
        "The last update costs nothing.",
        tests_in("tests/privacy/test_accountants.py", "test_event_of_sampled_lots"),
    ),
    fault(
        "pld-of-the-grid-point-before",
        _CURVE,
        "self._grid[np.searchsorted(self._grid, updates)]",
        "self._grid[max(0, np.searchsorted(self._grid, updates) - 1)]",
        "Up to 15 % of the updates are not counted.",
        _CURVE_TESTS,
    ),
    fault(
        "rdp-curve-one-update-less",
        _CURVE,
        "rdp = updates * rdp_of_update",
        "rdp = (updates - 1) * rdp_of_update",
        "The last update costs nothing.",
        _CURVE_TESTS,
    ),
    fault(
        "answers-about-training-examples-free",
        _COMPOSITION,
        ", updates), *queries]",
        ", updates)]",
        "Noisy answers about training examples do not count.",
        ("tests/privacy/test_ledger_queries.py",),
    ),
    Mutant(
        "calibrated-beyond-the-budget",
        "tfdpnorm/privacy/calibration.py",
        (
            (
                "if aim * target <= epsilon <= target:",
                "if aim * target <= epsilon <= 1.005 * target:",
            ),
            (
                "if not _PROMISED * budget.epsilon <= epsilon <= budget.epsilon:",
                "if not _PROMISED * budget.epsilon <= epsilon <= 1.01 * budget.epsilon:",
            ),
        ),
        "A run spends more than the budget it was given.",
        tests_in(
            "tests/privacy/test_calibration.py", "test_no_guess_just_above_the_target_is_taken"
        ),
    ),
    fault(
        "noise-below-the-calibrated",
        "tfdpnorm/privacy/calibration.py",
        "            return noise_multiplier, epsilon\n        log_epsilon",
        "            return 0.99 * noise_multiplier, epsilon\n        log_epsilon",
        "The noise that is used is smaller than the one whose epsilon was checked.",
        tests_in(
            "tests/privacy/test_calibration.py", "test_no_guess_just_above_the_target_is_taken"
        ),
    ),
    fault(
        "other-sampling-guaranteed",
        _PLAN,
        'if values["sampling"] != "poisson":',
        'if values["sampling"] == "fixed_size":',
        "Shuffled lots are accounted as Poisson-sampled ones.",
        _PLAN_TESTS,
    ),
    fault(
        "no-noise-guaranteed",
        _PLAN,
        'own = [NO_NOISE] if values["noise_multiplier"] == 0 else []',
        "own = []",
        "A run without noise does not say why it has no guarantee.",
        _PLAN_TESTS,
    ),
    fault(
        "statement-ignores-what-voids",
        _STATEMENT,
        "    if ledger.guarantee_holds:\n        paragraphs",
        "    if ledger.plan.guarantee_holds:\n        paragraphs",
        "The statement guarantees what the run has found to be void.",
        _STATEMENT_TESTS,
    ),
    fault(
        "slots-not-added-to-delta",
        _ADDED,
        "if plan.sampling_rate < 1:",
        "if ledger.settings.get('noise_grid'):",
        "Of runs without a grid, what batches that do not fit add to delta goes unsaid.",
        _STATEMENT_TESTS,
    ),
    fault(
        "slots-of-one-trial-added-to-delta",
        _ADDED,
        "trials * of_a_run",
        "of_a_run",
        "Of a search, the batches of one trial alone are added to delta.",
        _STATEMENT_TESTS,
    ),
    fault(
        "statement-of-the-updates-seen",
        _STATEMENT,
        "updates, planned = ledger.state, ledger.updates, ledger.plan.steps",
        "updates, planned = ledger.state, ledger.state.position, ledger.plan.steps",
        "Updates that were made again are not mentioned.",
        _STATEMENT_TESTS,
    ),
    fault(
        "statement-without-exclusions",
        _STATEMENT,
        'excluded = ledger.state.sentences("not_covered")',
        "excluded = ()",
        "What the guarantee does not cover in this run goes unsaid.",
        _STATEMENT_TESTS,
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
        "calibrated-for-fewer-updates",
        "tfdpnorm/privacy/plan.py",
        "checked.sampling_rate, checked.steps, accountant",
        "checked.sampling_rate, max(1, checked.steps - 1), accountant",
        "A run spends more than its budget.",
        ("tests/privacy/test_plan.py",),
    ),
    fault(
        "epsilon-printed-as-python-does",
        "tfdpnorm/privacy/statement.py",
        'f"{ceil_text(epsilon)} (rounded up) and delta = {plan.delta!r}."',
        'f"{epsilon:.4g} (rounded up) and delta = {plan.delta!r}."',
        "Every other epsilon is printed smaller than it is.",
        ("tests/privacy/test_statement.py",),
    ),
    fault(
        "whole-plan-printed-as-python-does",
        "tfdpnorm/privacy/statement.py",
        "{ceil_text(ledger.epsilon(whole_plan=True))}",
        "{ledger.epsilon(whole_plan=True):.4g}",
        "Every other epsilon of a whole plan is printed smaller than it is.",
        ("tests/privacy/test_statement.py",),
    ),
    fault(
        "validation-epsilon-printed-as-python-does",
        "tfdpnorm/privacy/statement.py",
        'with epsilon = {ceil_text(epsilon)} (rounded up) and delta = "',
        'with epsilon = {epsilon:.4g} (rounded up) and delta = "',
        "Every other epsilon of validation examples is printed smaller than it is.",
        ("tests/privacy/test_statement.py",),
    ),
    fault(
        "train-on-batch-guaranteed",
        "tfdpnorm/training/announced_updates.py",
        "if self.is_training and self._iterator is None",
        "if self._iterator is None",
        "Rows that were not sampled are accounted as Poisson-sampled.",
        tests_in(
            "tests/training/test_fit.py", "TestUnknownSampling::test_train_on_batch_voids_it_too"
        ),
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
        '    return (caveat("trained_before", steps=steps), *known) if steps else known\n',
        "    return known\n",
        "What a model has learnt without privacy before the run is not mentioned.",
        tests_in("tests/training/test_provenance.py", "TestAtTheStart"),
    ),
    fault(
        "epsilon-zero-of-loaded-weights",
        "tfdpnorm/privacy/statement.py",
        "        if foreign:\n            first +=",
        "        if False:\n            first +=",
        "Of weights that come from elsewhere the statement says epsilon = 0.",
        ("tests/privacy/test_statement.py",),
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
        "weak-delta-unsaid",
        "tfdpnorm/privacy/statement.py",
        "if plan.delta >= 1 / plan.num_examples:",
        "if plan.delta > 1:",
        "A guarantee that allows publishing an example reads like any other.",
        ("tests/privacy/test_statement.py",),
    ),
)
