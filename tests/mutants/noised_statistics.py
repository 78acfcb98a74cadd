"""Faults in the statistics that are released with noise: bounds, shares, and their noise."""

from tests.mutants.mutant import Mutant, fault, tests_in

_RELEASE = "tfdpnorm/training/update.py"
_NOISED = "tfdpnorm/training/noised_statistics.py"
_LAYER = "tfdpnorm/layers/batch_normalization.py"

MUTANTS = (
    fault(
        "share-as-its-rest",
        _NOISED,
        "share = self._plan.statistics_budget_share / self",
        "share = (1 - self._plan.statistics_budget_share) / self",
        "With the default share an example moves the joint sum by 1.26 C.",
        tests_in(
            "tests/training/step/test_noised_statistics.py",
            "test_a_row_moves_all_that_is_released_by_at_most_the_clip",
        ),
    ),
    fault(
        "gradient-takes-the-share",
        _NOISED,
        "math.sqrt(1 - self._plan.statistics_budget_share)",
        "math.sqrt(self._plan.statistics_budget_share)",
        "The gradient gets the statistics' share; above a half, the bound is exceeded.",
        tests_in(
            "tests/training/step/test_noised_statistics.py",
            "test_a_row_moves_all_that_is_released_by_at_most_the_clip",
        ),
    ),
    fault(
        "statistics-on-top",
        _NOISED,
        "math.sqrt(1 - self._plan.statistics_budget_share)",
        "1.0",
        "An example moves the joint sum by sqrt(1 + s) C.",
        tests_in(
            "tests/training/step/test_noised_statistics.py",
            "test_a_row_moves_all_that_is_released_by_at_most_the_clip",
        ),
    ),
    fault(
        "moment-bounds-left-out",
        _NOISED,
        "layer.running_mean.shape[0]) / bound",
        "layer.running_mean.shape[0]) / min(bound, 1)",
        "With activations beyond 1 an example moves the statistics by more than its share.",
        tests_in(
            "tests/training/step/test_noised_statistics.py",
            "test_each_part_has_the_noise_of_its_share",
            "test_a_row_moves_all_that_is_released_by_at_most_the_clip",
        ),
    ),
    fault(
        "channels-left-out",
        _NOISED,
        "math.sqrt(share / layer.running_mean.shape[0])",
        "math.sqrt(share)",
        "With K channels an example moves the statistics by sqrt(K) times its share.",
        tests_in(
            "tests/training/step/test_noised_statistics.py",
            "test_a_row_moves_all_that_is_released_by_at_most_the_clip",
        ),
    ),
    Mutant(
        "activations-not-truncated",
        _LAYER,
        (
            (
                "return tf.clip_by_value(values, -self.activation_clip, self.activation_clip)",
                "return values",
            ),
            ("found = tf.clip_by_value(found, least, most)\n", "found = found + 0.0\n"),
        ),
        "Nothing bounds what an example adds to the statistics.",
        tests_in(
            "tests/layers/test_noised_batch_normalization.py",
            "test_moments_of_rows_stay_within_the_bounds",
        ),
    ),
    fault(
        "statistics-count-padding",
        _NOISED,
        "counted = tf.cast((mask > 0) & _any",
        "counted = tf.cast(_any",
        "Padding rows move the running averages.",
        tests_in(
            "tests/training/step/test_noised_statistics.py",
            "test_without_noise_averages_are_exact",
            "test_an_empty_lot_adds_nothing",
        ),
    ),
    fault(
        "statistics-of-views-added-up",
        _NOISED,
        "views.mean(of_rows if share is None else of_rows * share)",
        "views.multiplicity * views.mean(of_rows)",
        "With K views an example moves the statistics by K times its share.",
        tests_in("tests/training/step/test_noised_statistics.py", "test_views_count_as_one_row"),
    ),
    fault(
        "averages-move-without-noise",
        _RELEASE,
        "noised_statistics.update_averages(released)",
        "noised_statistics.update_averages(\n"
        "        [s / w for s, w in zip(sums, clipped.weights or [1.0] * len(sums))]\n"
        "    )",
        "Sums of private activations are stored in the model without noise.",
        tests_in(
            "tests/training/step/test_noised_statistics.py",
            "test_each_part_has_the_noise_of_its_share",
        ),
    ),
    fault(
        "statement-of-the-share",
        "tfdpnorm/privacy/plan.py",
        "self.noise_multiplier / math.sqrt(1 - share)",
        "self.noise_multiplier / math.sqrt(share or 1)",
        "The statement gives another noise on the gradients than there is.",
        tests_in(
            "tests/training/step/test_noised_statistics.py",
            "test_ledgers_and_statements_tell_of_the_statistics",
        ),
    ),
    fault(
        "second-moment-of-batch",
        _LAYER,
        "variance = tf.maximum(second_moment -",
        "variance = tf.math.reduce_variance(inputs) + 0 * (second_moment -",
        "Rows are normalised by the variance of all private rows.",
        tests_in(
            "tests/layers/test_noised_batch_normalization.py", "test_a_row_depends_on_no_other"
        ),
    ),
    fault(
        "statistics-weights-not-undone",
        "tfdpnorm/training/noised_statistics.py",
        "[*(w * of_gradient for w in weights), *factors]",
        "[*weights, *factors]",
        "The gradients come out too small by the statistics' share.",
        tests_in(
            "tests/training/step/test_noised_statistics.py",
            "test_rows_are_normalised_by_what_was_there_before_the_update",
        ),
    ),
    fault(
        "statistics-of-frozen-layers",
        "tfdpnorm/training/noised_statistics.py",
        "if layer.trainable]",
        "if layer.trainable or True]",
        "What was to stay as it is takes part of the budget.",
        tests_in(
            "tests/training/step/test_noised_statistics.py", "test_frozen_layers_release_nothing"
        ),
    ),
    fault(
        "statistics-lose-a-physical-batch",
        "tfdpnorm/training/noised_statistics.py",
        "(tf.constant(0), zeros),",
        "(tf.constant(1), zeros),",
        "The running averages leave out the first physical batch.",
        tests_in(
            "tests/training/step/test_noised_statistics.py", "test_without_noise_averages_are_exact"
        ),
    ),
    fault(
        "statistics-divided-by-the-data",
        "tfdpnorm/training/noised_statistics.py",
        "lot_size = self._plan.expected_batch_size",
        "lot_size = self._plan.num_examples",
        "The running averages are too small by q.",
        tests_in(
            "tests/training/step/test_noised_statistics.py", "test_without_noise_averages_are_exact"
        ),
    ),
    fault(
        "nan-moments-kept",
        "tfdpnorm/layers/batch_normalization.py",
        "return tf.where(tf.math.is_nan(found), tf.zeros_like(found), found)",
        "return found",
        "One example turns the running averages into NaN.",
        ("tests/layers/test_noised_batch_normalization.py",),
    ),
)
