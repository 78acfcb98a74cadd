"""Faults in the audits, which would pass a broken training, or refute a sound one."""

from tests.mutants.mutant import fault, tests_in

_BOUNDS = "tfdpnorm/audit/lower_bounds.py"
_OF_BOUNDS = "tests/audit/test_lower_bounds.py"
_SENSITIVITY = "tests/audit/test_sensitivity.py"

MUTANTS = (
    fault(
        "threshold-chosen-on-what-it-scores",
        _BOUNDS,
        "chosen = [values[: len(values) // 2]",
        "chosen = [values[len(values) // 2 :]",
        "The best of many thresholds refutes sound mechanisms more often than it may.",
        tests_in(_OF_BOUNDS, "test_the_choice_of_a_threshold_costs_no_confidence"),
    ),
    fault(
        "guesses-without-delta",
        _BOUNDS,
        "tail + 2 * canaries * delta *",
        "tail + delta *",
        "An audit of one training refutes a mechanism that fails with probability delta.",
        tests_in(
            _OF_BOUNDS,
            "test_the_share_of_delta_by_hand",
            "test_publishing_with_probability_delta_is_no_violation",
        ),
    ),
    fault(
        "guesses-of-one-more",
        _BOUNDS,
        "binom.sf(correct - 1, guesses",
        "binom.sf(correct, guesses",
        "An audit of one training counts a correct guess that was not made.",
        tests_in(_OF_BOUNDS, "test_the_p_value_without_delta_is_the_binomial_tail"),
    ),
    fault(
        "curves-without-a-probability",
        "tfdpnorm/audit/one_run.py",
        "right = probability * correct / canaries",
        "right = correct / canaries",
        "Canaries that share their luck refute a sound mechanism.",
        tests_in("tests/audit/test_one_run.py", "test_shared_luck_is_allowed_for"),
    ),
    fault(
        "gradient-canaries-that-are-silent",
        "tfdpnorm/audit/gradient_canaries.py",
        "np.full(count, _LOUDNESS, np.float32)",
        "np.full(count, 0 * _LOUDNESS, np.float32)",
        "Gradient canaries move nothing, so that no noise is too weak for them.",
        tests_in(
            "tests/audit/test_gradient_canaries.py",
            "test_each_canary_moves_the_sum_by_c_along_its_own_number",
        ),
    ),
    fault(
        "sums-with-other-dropout",
        "tfdpnorm/audit/sensitivity.py",
        "            variable.assign(value)\n",
        "            pass\n",
        "Random numbers of the model pass for what a row changes.",
        tests_in(_SENSITIVITY, "test_random_numbers_are_the_same_every_time"),
    ),
    fault(
        "ascent-that-stays-where-it-is",
        "tfdpnorm/audit/sensitivity.py",
        "_stepped(v, g, low, high, bounded)",
        "_stepped(v, 0 * g, low, high, bounded)",
        "Rows that break the bound are found only if they are among those that are tried.",
        tests_in(_SENSITIVITY, "test_ascent_finds_what_no_example_shows"),
    ),
)
