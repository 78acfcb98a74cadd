"""Faults in what is counted: rates, divergences, compositions and roundings."""

from tests.mutants.mutant import Mutant, fault, tests_in

_ACCOUNTANTS = "tfdpnorm/privacy/accountants.py"
_COMPOSITION = "tfdpnorm/privacy/composition.py"
_COMPARISON = "trainers/ermis/comparison.py"
_CURVE = "tfdpnorm/privacy/epsilon_curve.py"
_MIXTURES = "tfdpnorm/privacy/mixtures.py"
_PROFILES = "tfdpnorm/privacy/profiles.py"
_PROFILE_TESTS = ("tests/privacy/test_profiles.py",)
_PLAN = "tfdpnorm/privacy/plan.py"
_PLANNING = "tfdpnorm/privacy/planning.py"
_ADDED = "tfdpnorm/privacy/added_delta.py"
_PLAN_TESTS = ("tests/privacy/test_plan.py",)
_CURVE_TESTS = ("tests/privacy/test_epsilon_curve.py",)
_PHASES = "tests/privacy/test_phases.py"

MUTANTS = (
    fault(
        "ledgers-of-two-units-compose",
        "tfdpnorm/privacy/command_of_ledgers.py",
        "if len(units) > 1:",
        "if len(units) > 2:",
        "An epsilon of persons and one of examples are composed as if both were of the same.",
        tests_in(_PHASES, "TestCommand"),
    ),
    fault(
        "zcdp-claim-guaranteed",
        _COMPARISON,
        "and not zcdp.holds(sampling_rate):",
        "and not sampling_rate:",
        "What the paper claims, and one update refutes, passes for a guarantee.",
        tests_in("tests/trainers/ermis/test_comparison.py", "test_which_hold"),
    ),
    fault(
        "replacing-counts-as-removing",
        _COMPARISON,
        '{"add_or_remove_one": 1, "replace_one": 2}',
        '{"add_or_remove_one": 1, "replace_one": 1}',
        "Advanced composition is half as careful about replaced examples as it must be.",
        tests_in("tests/trainers/ermis/test_comparison.py", "test_which_hold"),
    ),
    fault(
        "gaussian-theorem-beyond-its-range",
        "trainers/ermis/advanced_composition.py",
        "gaussian_epsilon(noise_ratio, step_delta) < 1",
        "noise_ratio < math.inf",
        "Advanced composition is guaranteed where the theorem under it does not hold.",
        tests_in("tests/trainers/ermis/test_comparison.py", "test_which_hold"),
    ),
    fault(
        "replaced-examples-point-nowhere",
        "trainers/ermis/replace_one.py",
        "below=-pair.above",
        "below=0 * pair.above",
        "The other example's gradient counts as zero: half of what replacing does.",
        tests_in("tests/privacy/test_mixtures.py", "test_one_update_by_integration"),
    ),
    fault(
        "rows-of-a-person-drawn-together",
        _MIXTURES,
        "    chosen = np.array([math.log(math.comb(rows, j)) for j in range(rows + 1)])",
        "    chosen = np.zeros(rows + 1)",
        "Most of the batches with some rows of a person are not counted.",
        tests_in("tests/privacy/test_mixtures.py", "test_one_update_by_integration"),
    ),
    fault(
        "components-left-out-for-nothing",
        _MIXTURES,
        "float(tail[~kept].max(initial=0.0))",
        "0.0",
        "Rare large numbers of rows in a batch cost nothing.",
        tests_in("tests/privacy/test_mixtures.py", "test_components_left_out_count_as_exposed"),
    ),
    fault(
        "losses-rounded-downwards",
        _MIXTURES,
        "upper = np.clip((p - scaled) / -math.expm1(-interval), 0.0, p)",
        "upper = np.clip((p - scaled) / -math.expm1(-interval) - p / 2, 0.0, p)",
        "Every update loses a little less on the grid than it does.",
        tests_in("tests/privacy/test_mixtures.py", "test_composition_by_repeated_integration"),
    ),
    fault(
        "persons-who-are-added-only",
        _COMPOSITION,
        "for pair in (removed, added)",
        "for pair in (added, added)",
        "What an attacker learns from a person's presence is not looked at.",
        tests_in("tests/privacy/test_persons.py", "test_figures"),
    ),
    fault(
        "group-of-one",
        _PROFILES,
        "terms = np.exp(np.multiply.outer(np.arange(size), each)).sum(axis=0)",
        "terms = 1.0",
        "By the lemma for groups, delta is that of one example.",
        tests_in("tests/privacy/test_persons.py", "test_the_lemma_for_groups"),
    ),
    fault(
        "attacks-without-delta",
        _PROFILES,
        "np.multiply.outer(rates, np.exp(_EPSILONS)) + deltas",
        "np.multiply.outer(rates, np.exp(_EPSILONS))",
        "The true-positive rate of attacks is stated as if delta were 0.",
        _PROFILE_TESTS,
    ),
    fault(
        "mu-between-rates",
        _PROFILES,
        "special.ndtri(best[1:]) - special.ndtri(_RATES[:-1])",
        "special.ndtri(best[1:]) - special.ndtri(_RATES[1:])",
        "mu is that of attacks with a few false-positive rates only.",
        _PROFILE_TESTS,
    ),
    fault(
        "added-delta-forgotten",
        _PROFILES,
        "np.minimum(profile(epsilons) + added, 1.0)",
        "np.minimum(profile(epsilons), 1.0)",
        "Figures for attackers leave out what is added to delta.",
        _PROFILE_TESTS,
    ),
    fault(
        "answers-about-a-persons-other-examples-free",
        "tfdpnorm/privacy/epsilons.py",
        "disjoint=None if of_person else False",
        "disjoint=False",
        "A person with examples in both sets is told the epsilon of one of them.",
        tests_in("tests/privacy/test_persons.py", "TestLedger"),
    ),
    fault(
        "answers-about-the-other-example-of-a-person-with-one-free",
        "tfdpnorm/privacy/epsilons.py",
        "disjoint=None if of_person else False",
        "disjoint=None if rows > 1 else False",
        "Who owns one training example may own a validation example as well.",
        tests_in("tests/privacy/test_persons.py", "TestLedger"),
    ),
    fault(
        "earlier-answers-of-a-person-with-one-free",
        "tfdpnorm/privacy/epsilons.py",
        "    if of_person:\n        phases",
        "    if rows > 1:\n        phases",
        "The same in an earlier phase.",
        tests_in("tests/privacy/test_persons.py", "TestLedger"),
    ),
    fault(
        "persons-of-the-updates-seen",
        "tfdpnorm/privacy/epsilons.py",
        "updates = plan.steps if whole_plan else state.updates\n    parts",
        "updates = plan.steps if whole_plan else state.position\n    parts",
        "To persons, updates that a crash lost cost nothing.",
        tests_in("tests/privacy/test_persons.py", "TestLedger"),
    ),
    fault(
        "phases-of-persons-free",
        "tfdpnorm/privacy/epsilons.py",
        "*asked, *phases]\n    if any",
        "*asked]\n    if any",
        "To persons, earlier phases cost nothing.",
        tests_in("tests/privacy/test_persons.py", "TestLedger"),
    ),
    fault(
        "searches-with-private-scores-per-person",
        "tfdpnorm/privacy/epsilons.py",
        "    if reason is not None:\n        raise",
        "    if False:\n        raise",
        "Scores of a person's validation examples are not counted, and nobody is told.",
        tests_in("tests/privacy/test_persons.py", "TestLedger"),
    ),
    fault(
        "person-with-one-more",
        "tfdpnorm/data/persons.py",
        ".max() > most:",
        ".max() > most + 1:",
        "A person with more examples than the statement says is let through.",
        tests_in("tests/privacy/test_persons.py", "TestOwners"),
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
            "test_other_mechanisms_do_not_get_the_gaussian_bound",
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
            "tests/privacy/test_calibration.py", "test_guesses_just_above_the_target_are_not_taken"
        ),
    ),
    fault(
        "noise-below-the-calibrated",
        "tfdpnorm/privacy/calibration.py",
        "            return noise_multiplier, epsilon\n        log_epsilon",
        "            return 0.99 * noise_multiplier, epsilon\n        log_epsilon",
        "The noise that is used is smaller than the one whose epsilon was checked.",
        tests_in(
            "tests/privacy/test_calibration.py", "test_guesses_just_above_the_target_are_not_taken"
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
        "guarantees-of-any-delta",
        _ADDED,
        "if added <= MOST_ADDED * delta:",
        "if True:",
        "A guarantee is stated where rounding may add more than delta to delta.",
        ("tests/privacy/test_added_delta.py",),
    ),
    fault(
        "rounding-of-composed-runs-at-the-epsilon-of-one",
        _ADDED,
        "added = min(1.0, of_each + of_all)",
        "added = of_each",
        "Of two runs of large epsilons together, what rounding adds is that of each alone.",
        ("tests/privacy/test_added_delta.py",),
    ),
    fault(
        "calibrated-for-fewer-updates",
        _PLANNING,
        "checked.sampling_rate, checked.steps, accountant",
        "checked.sampling_rate, max(1, checked.steps - 1), accountant",
        "A run spends more than its budget.",
        ("tests/privacy/test_plan.py",),
    ),
    fault(
        "earlier-phases-free",
        _COMPOSITION,
        "queries = [*queries, *plan.earlier_mechanisms]",
        "queries = [*queries]",
        "A second phase costs as if there had been no first one.",
        tests_in(_PHASES, "test_epsilon_is_that_of_the_composition"),
    ),
    fault(
        "validation-of-earlier-phases-free",
        "tfdpnorm/privacy/epsilons.py",
        "    before = [part for phase in plan.earlier for part in phase.validation]",
        "    before = []",
        "What a first phase asked of validation examples is forgotten.",
        tests_in(_PHASES, "test_queries_of_a_phase_count_as_many_as_were_planned"),
    ),
    fault(
        "phase-that-goes-on",
        "tfdpnorm/privacy/ledger.py",
        "        if state.remaining_updates:\n",
        "        if False:\n",
        "A run that is counted as it was goes on, and nobody counts the rest.",
        tests_in(_PHASES, "test_a_run_that_may_go_on_is_rejected"),
    ),
    fault(
        "phase-without-its-reasons",
        "tfdpnorm/privacy/ledger.py",
        "reasons=self.no_guarantee_because",
        "reasons=()",
        "A second phase makes a guarantee of a first one that has none.",
        tests_in(_PHASES, "test_caveats_of_a_phase_carry_over_to_the_next"),
    ),
    fault(
        "phases-calibrated-alone",
        _PLANNING,
        "        if checked.earlier_mechanisms:\n",
        "        if False:\n",
        "The noise of a second phase spends the whole budget once more.",
        tests_in(_PHASES, "test_the_budget_is_of_all_phases"),
    ),
    fault(
        "one-run-of-two-ledgers",
        "tfdpnorm/privacy/command_of_ledgers.py",
        "runs = [ledger.as_phase() for ledger in ledgers]",
        "runs = list(dict.fromkeys(ledger.as_phase() for ledger in ledgers))",
        "A copied run that went on by itself counts nothing.",
        tests_in(_PHASES, "TestCommand"),
    ),
    fault(
        "norm-of-another-plan",
        "tfdpnorm/gradients/clipping.py",
        "if self.l2_norm_clip not in (None, plan.l2_norm_clip):",
        "if False:",
        "Somebody who names another clipping norm than the plan's is not told.",
        tests_in("tests/training/test_make_private.py", "test_the_norm_is_that_of_the_plan"),
    ),
    fault(
        "queries-of-the-model-uncounted",
        _PLAN,
        "            statistics_queries=statistics_queries,\n"
        "            statistics_budget_share=share if",
        "            statistics_queries=0,\n            statistics_budget_share=share if",
        "Noised statistics are released with no noise of their own in the plan.",
        tests_in(
            "tests/training/test_make_private.py",
            "test_the_plan_learns_what_only_the_model_can_tell",
        ),
    ),
)
