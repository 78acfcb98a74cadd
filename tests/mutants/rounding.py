"""Faults in how sums and norms are kept from rounding, and in what is paid for the rest."""

from tests.mutants.mutant import fault, tests_in

_BOUND = "tfdpnorm/gradients/contributions/row_sums.py"
_SUMS = "tfdpnorm/gradients/contributions/row_sums.py"
_ON_GPU = "tfdpnorm/gradients/contributions/sums_on_gpu.py"
_ARITHMETIC = "tfdpnorm/gradients/contributions/arithmetic.py"
_CLIPPING = "tfdpnorm/gradients/clipping.py"
_GRADIENTS = "tfdpnorm/training/update.py"
_TESTS = "tests/gradients/test_row_sums.py"


def _in_sums(*names):
    return tests_in(_TESTS, *names)


_in_standardized = tests_in(
    "tests/gradients/rules/test_weight_standardized_rule.py",
    "test_summands_are_at_most_four_clipping_norms_long",
)

MUTANTS = (
    fault(
        "rounding-not-paid",
        _GRADIENTS,
        "clipping.sensitivity * (1 + self._sum_rounding)",
        "clipping.sensitivity",
        "Rounding moves computed sums by more than C, and the noise does not know.",
        tests_in(
            "tests/training/step/test_noise.py", "test_the_noise_pays_for_the_rounding_of_sums"
        ),
    ),
    fault(
        "rounding-of-one-sum",
        _BOUND,
        "return 2 * rows * roundings",
        "return 0.02 * rows * roundings",
        "The bound is not one.",
        _in_sums("test_rounding_raises_the_noise_by_little"),
    ),
    fault(
        "levels-forgotten",
        _BOUND,
        "block - 1 + (BLOCKS_ADDED_AT_ONCE - 1) * levels",
        "block - 1",
        "Adding up the blocks rounds, too.",
        _in_sums("test_sums_take_at_most_the_additions_in_the_bound"),
    ),
    fault(
        "rounding-of-one-physical-batch",
        "tfdpnorm/training/make_private.py",
        "most_rows = slots_of_plan(plan).rows",
        "most_rows = slots_of_plan(plan, physical_batch_size).rows",
        "A lot has the rows of several physical batches, and they all round.",
        tests_in(
            "tests/training/step/test_noise.py", "test_the_noise_pays_for_the_rounding_of_sums"
        ),
    ),
    fault(
        "blocks-one-after-the-other",
        _SUMS,
        "    while len(parts) > 1:\n",
        "    while len(parts) > 1 and (parts := [sum(parts)]):\n",
        "Many blocks that are added in turn round more often than is paid for.",
        _in_sums("test_blocks_are_added_up_in_a_tree"),
    ),
    fault(
        "positions-fused-in-float32",
        _SUMS,
        "(function, tensors, block, wide=True)",
        "(function, tensors, block, wide=False)",
        "Long parts of one gradient that cancel round the sum of all others.",
        _in_sums("test_positions_that_cancel_do_not_move_other_rows"),
    ),
    fault(
        "square-roundings-lost",
        _ARITHMETIC,
        "    return squares * with_lost + lost_squares",
        "    return squares + lost_squares",
        "A norm that is rounded down lets a row exceed the clip.",
        _in_sums("test_norms_are_never_too_small"),
    ),
    fault(
        "squares-in-one-go",
        _ARITHMETIC,
        "tf.reduce_sum(tf.cast(squares, tf.float64), outer",
        "tf.reduce_sum(squares, outer",
        "Small squares beside a large one are lost, one by one.",
        _in_sums("test_norms_are_never_too_small"),
    ),
    fault(
        "no-floor-for-parts",
        _ARITHMETIC,
        "    norms = tf.maximum(norms, tf.square(parts / _MOST_CANCELLED))\n",
        "",
        "Parts that cancel may be so long that they round others even in float64.",
        _in_sums("test_norms_of_parts_that_cancel_have_a_floor"),
    ),
    fault(
        "norms-of-variables-rounded-down",
        _CLIPPING,
        " * (1 + (len(squared_norms) + 32) * unit)",
        "",
        "The norm of all variables together may be rounded down.",
        tests_in(
            "tests/gradients/test_clipping.py", "test_rounding_keeps_rows_within_the_clipping_norm"
        ),
    ),
    fault(
        "standardized-sums-as-any-other",
        "tfdpnorm/gradients/rules/weight_standardized.py",
        "finite, sums.of_longer())",
        "finite, sums)",
        "What is added up is longer than what is paid for.",
        _in_standardized,
    ),
    fault(
        "no-floor-for-what-is-taken-out",
        "tfdpnorm/gradients/rules/weight_standardized.py",
        "tf.maximum(rest, whole / MOST_REMOVED)",
        "rest",
        "What is added up may be as long as it likes.",
        _in_standardized,
    ),
    fault(
        "no-floor-for-what-is-taken-out-by-gram-matrices",
        _ARITHMETIC,
        "tf.maximum(rounded_up(whole - removed), norms / MOST_REMOVED)",
        "rounded_up(whole - removed)",
        "What is added up may be as long as it likes.",
        _in_standardized,
    ),
    fault(
        "longer-vectors-in-blocks-as-large",
        _BOUND,
        "if LONGER * (most_additions",
        "if (most_additions",
        "Rounding of longer vectors does more than is paid for.",
        _in_sums("test_longer_vectors_go_through_so_much_fewer_additions"),
    ),
    fault(
        "blocks-on-a-gpu-too-large",
        _ON_GPU,
        "range(1, min(block, rows) + 1)",
        "range(1, rows + 1)",
        "A row goes through more additions than are paid for.",
        _in_sums("test_sums_on_a_gpu_take_at_most_the_additions_in_the_bound"),
    ),
    fault(
        "blocks-on-a-gpu-added-up-in-float32",
        _ON_GPU,
        "tf.reduce_sum(tf.cast(part, tf.float64), axis=0)",
        "tf.cast(tf.reduce_sum(part, axis=0), tf.float64)",
        "A row goes through more additions than are paid for.",
        _in_sums("test_the_sums_of_blocks_are_added_up_in_float64"),
    ),
    fault(
        "unknown-sizes-on-a-gpu-added-up-in-blocks-of-a-processor",
        _ON_GPU,
        "_IN_FLOAT64 = RowSums(None)",
        "_IN_FLOAT64 = RowSums(4)",
        "Blocks of blocks are added up in float32, more often than is paid for.",
        _in_sums("test_rows_of_unknown_size_are_summed_in_float64_on_a_gpu"),
    ),
    fault(
        "blocks-of-many-rows-on-a-gpu-not-paid",
        _ON_GPU,
        "paid, more = block - 1, rounding_of(rows, block - 1)",
        "paid, more = block - 1, rounding_of(rows, 0)",
        "Blocks round, and the noise is for float64.",
        _in_sums("test_rounding_raises_the_noise_by_little_on_a_gpu"),
    ),
    fault(
        "longer-vectors-on-a-gpu-in-blocks-as-large",
        _ON_GPU,
        "LONGER * (finer - 1 + 4) > paid + 4",
        "finer - 1 + 4 > paid + 4",
        "Rounding of longer vectors does more than is paid for.",
        _in_sums("test_rounding_raises_the_noise_by_little_on_a_gpu"),
    ),
    fault(
        "sums-of-a-gpu-with-the-noise-of-a-processor",
        "tfdpnorm/training/make_private.py",
        "sums_on_gpu(most_rows) if takes_forms_of_gpus() else sums_on_cpu(most_rows)",
        "(sums_on_gpu if takes_forms_of_gpus() else sums_on_cpu)(most_rows)[0], "
        "sums_on_cpu(most_rows)[1]",
        "Large batches are added up in blocks, and the noise is for float64.",
        tests_in(
            "tests/gradients/test_forms_for_gpus.py", "test_the_noise_pays_for_the_sums_of_gpus"
        ),
    ),
    fault(
        "many-ids-added-up-in-float32",
        "tfdpnorm/gradients/rules/embedding.py",
        "tf.cast(squares, tf.float64), rows",
        "squares, rows",
        "A text of 65,536 words with one large gradient is longer than C by 0.2 %.",
        tests_in(
            "tests/gradients/test_row_sums.py", "test_norms_of_many_parts_are_never_too_small"
        ),
    ),
    fault(
        "many-blocks-added-up-in-float32",
        "tfdpnorm/gradients/contributions/contribution.py",
        "return added_in_float64(squares[0]",
        "return tf.reduce_sum(squares[0]",
        "A row with many positions of its own weights is longer than C.",
        tests_in(
            "tests/gradients/test_row_sums.py", "test_norms_of_many_parts_are_never_too_small"
        ),
    ),
)
