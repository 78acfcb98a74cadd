"""Faults in what bounds an example: factors, norms, weights, masks and the rows that count."""

from tests.mutants.mutant import Mutant, fault, tests_in

_CLIPPING = "tfdpnorm/gradients/clipping.py"
_BOOK_KEEPING = "tfdpnorm/gradients/engines/book_keeping.py"
_PER_EXAMPLE = "tfdpnorm/gradients/engines/per_example.py"

MUTANTS = (
    fault(
        "valid-steps-of-the-batch",
        "tfdpnorm/training/losses.py",
        "count = tf.reduce_sum(tf.cast(valid, values.dtype), axis=steps)",
        "count = tf.reduce_mean(tf.cast(valid, values.dtype)) * steps[-1]",
        "Each example's loss is divided by a number that comes from all of them, as in Keras.",
        ("tests/training/step/test_example_means.py",),
    ),
    fault(
        "weights-of-steps-of-others",
        "tfdpnorm/training/losses.py",
        'weights = _of_first_axes("weights", tf.cast(weights, values.dtype), values)',
        "weights = tf.reverse(tf.cast(weights, values.dtype), [0])",
        "The steps of an example count as much as another example's weights say.",
        ("tests/training/step/test_masked_engines.py",),
    ),
    fault(
        "class-weights-unsaid",
        "tfdpnorm/training/fit_data.py",
        'private.ledger.record(caveat("class_weights"))',
        "pass",
        "The statement leaves out that class weights may show counts of private labels.",
        ("tests/training/checks/test_class_weights.py",),
    ),
    fault(
        "factor-max-for-min",
        _CLIPPING,
        "factors = tf.where(norms > clip,",
        "factors = tf.where(norms < clip,",
        "Small gradients are stretched to C and large ones are left as they are.",
        ("tests/gradients/test_clipping.py",),
    ),
    fault(
        "norm-without-root",
        _CLIPPING,
        "norms = tf.sqrt(squared_norms)",
        "norms = squared_norms",
        "A gradient of norm below 1 and above C is not clipped enough.",
        ("tests/gradients/test_clipping.py",),
    ),
    fault(
        "per-layer-share-c",
        _CLIPPING,
        "share = self.l2_norm_clip / math.sqrt(len(totals))",
        "share = self.l2_norm_clip",
        "With G layers an example moves the sum by up to sqrt(G) C.",
        ("tests/gradients/test_clipping_value.py",),
    ),
    fault(
        "norm-without-last-variable",
        _CLIPPING,
        "_added_up(norms) for group, norms",
        "_added_up(norms[:-1] or norms) for group, norms",
        "The last variable of a group is clipped by the norm of the others: nothing bounds it.",
        tests_in(
            "tests/gradients/test_clipping.py", "test_the_norm_is_that_of_all_variables_together"
        ),
    ),
    fault(
        "norm-of-largest-variable",
        _CLIPPING,
        "_added_up(norms) for group, norms",
        "tf.reduce_max(tf.stack(norms), 0) for group, norms",
        "A gradient of K equal parts has a norm of up to sqrt(K) C after the clip.",
        tests_in(
            "tests/gradients/test_clipping.py", "test_the_norm_is_that_of_all_variables_together"
        ),
    ),
    fault(
        "nonfinite-row-kept",
        _CLIPPING,
        "clean = tf.where(tf.reshape(finite, shape), gradient, tf.zeros_like(gradient))",
        "clean = gradient",
        "One example with an infinite gradient turns the whole sum into NaN.",
        tests_in("tests/gradients/test_clipping.py", "test_rows_that_are_not_finite_count_as_zero"),
    ),
    fault(
        "nan-counts-as-unclipped",
        _CLIPPING,
        "return tf.where(tf.math.is_finite(squared_norms), factors,",
        "return tf.where(True, factors,",
        "A norm that is NaN gets the factor 1.",
        tests_in("tests/gradients/test_clipping.py", "test_factors_are_right_at_the_edges"),
    ),
    fault(
        "automatic-without-norm",
        _CLIPPING,
        "factors = clip / (norms + AUTOMATIC_CLIPPING_STABILITY)",
        "factors = clip / tf.sqrt(norms + AUTOMATIC_CLIPPING_STABILITY)",
        "Automatic clipping leaves large gradients larger than C.",
        ("tests/gradients/test_clipping_value.py",),
    ),
    fault(
        "mask-ignored",
        _CLIPPING,
        "factor = factor * tf.cast(mask, norm_dtype)",
        "factor = factor + 0.0",
        "Padding rows count as examples.",
        (
            tests_in(
                "tests/gradients/test_clipping.py", "test_rows_that_are_not_finite_count_as_zero"
            )
            + ("tests/gradients/test_clipping_value.py",)
        ),
    ),
    Mutant(
        "book-keeping-mask-ignored",
        _BOOK_KEEPING,
        (
            ("tf.where(mask > 0, losses, tf.zeros_like(losses))", "losses"),
            ("loss_scale * factor * tf.cast(mask, factor.dtype)", "loss_scale * factor"),
        ),
        "Padding rows count as examples.",
        tests_in(
            "tests/gradients/engines/test_book_keeping.py",
            "test_equals_the_loop_over_single_examples[dense]",
        ),
    ),
    fault(
        "book-keeping-factor-squared-weight",
        _BOOK_KEEPING,
        "factor = weight / loss_scale",
        "factor = weight**2 / loss_scale",
        "The weights of the clip are applied once in the norm and twice in the sum.",
        ("tests/training/step/test_pull_back_weight.py",),
    ),
    fault(
        "book-keeping-norm-weight-not-squared",
        _BOOK_KEEPING,
        "weight**2 * part.squared_norms()",
        "weight * part.squared_norms()",
        "With a weight above 1 the norm is taken too small.",
        ("tests/training/step/test_pull_back_weight.py",),
    ),
    fault(
        "book-keeping-loss-scale-left-in-sum",
        _BOOK_KEEPING,
        "factor = weight / loss_scale",
        "factor = weight",
        "Under float16 an example moves the sum by up to 1024 C.",
        tests_in("tests/gradients/engines/test_book_keeping.py", "test_loss_scale_changes_nothing"),
    ),
    fault(
        "book-keeping-loss-scale-squared-twice",
        _BOOK_KEEPING,
        "norms / loss_scale**2",
        "norms / loss_scale**3",
        "The norm is taken too small, so that next to nothing is clipped.",
        tests_in("tests/gradients/engines/test_book_keeping.py", "test_loss_scale_changes_nothing"),
    ),
    fault(
        "per-example-loss-scale-left-in",
        _PER_EXAMPLE,
        "accumulation_dtype(v)) / loss_scale",
        "accumulation_dtype(v))",
        "Gradients reach the clip multiplied: every one of them is clipped to C.",
        tests_in("tests/gradients/engines/test_per_example.py", "test_the_loss_scale_cancels"),
    ),
    fault(
        "calls-not-merged",
        _BOOK_KEEPING,
        "found[key].merged(part) if key in found else part",
        "part",
        "Of a layer that is called twice only the last call counts.",
        tests_in(
            "tests/gradients/engines/test_book_keeping.py",
            "test_equals_the_loop_over_single_examples[siamese]",
        ),
    ),
    Mutant(
        "rows-of-layers-unchecked",
        _BOOK_KEEPING,
        (
            ("if None not in (z.shape[0], expected) and z.shape[0] != expected:", "if False:"),
            ("if None in (z.shape[0], expected):", "if False:"),
        ),
        "A layer on other rows than the batch's is clipped row by row instead of by example.",
        tests_in(
            "tests/gradients/rules/test_time_distributed.py",
            "test_rows_other_than_the_examples_are_rejected",
        ),
    ),
    fault(
        "reads-by-others-unchecked",
        "tfdpnorm/gradients/taps.py",
        "if reader not in layers:",
        "if False:",
        "What another layer or the loss makes of a variable has no part in norm and sum.",
        ("tests/gradients/test_tied_weights.py",),
    ),
    fault(
        "first-physical-batch-twice",
        "tfdpnorm/training/update.py",
        "start, begun, nonfinite = 1,",
        "start, begun, nonfinite = 0,",
        "Each example of the first physical batch moves the sum by up to 2 C, in an eager step.",
        ("tests/training/step/test_lot_sum.py",),
    ),
    fault(
        "physical-batches-count-twice",
        "tfdpnorm/training/update.py",
        "[a + b for a, b",
        "[a + 2 * b for a, b",
        "Each example moves the sum by up to 2 C.",
        ("tests/training/step/test_lot_sum.py",),
    ),
    fault(
        "denominator-actual-lot",
        "tfdpnorm/training/update.py",
        "if regularization is not None:",
        "lot_size = tf.maximum(tf.reduce_sum(lot.mask), 1.0)\n"
        "        gradients = [g * self._plan.expected_batch_size / lot_size"
        " for g in gradients]\n"
        "        if regularization is not None:",
        "The released mean tells the size of the lot, and one example moves its denominator.",
        tests_in(
            "tests/training/step/test_noise.py", "test_the_denominator_is_the_expected_lot_size"
        ),
    ),
    fault(
        "sign-of-update",
        "tfdpnorm/keras_compat/training.py",
        "else tf.cast(g, v.dtype), v)",
        "else tf.cast(-g, v.dtype), v)",
        "Training climbs the loss.",
        tests_in(
            "tests/training/step/test_noise.py", "test_the_denominator_is_the_expected_lot_size"
        ),
    ),
    fault(
        "float64-norms-narrowed",
        "tfdpnorm/gradients/clipping.py",
        "norm_dtype = tf.float64 if wide else tf.float32",
        "norm_dtype = tf.float32",
        "Norms of float64 gradients are rounded to seven digits.",
        tests_in(
            "tests/gradients/test_clipping.py", "test_the_norm_of_float64_has_all_of_its_digits"
        ),
    ),
    fault(
        "half-precision-sums",
        "tfdpnorm/gradients/clipping.py",
        "return at_least_float32(variable.dtype)",
        "return tf.as_dtype(variable.dtype)",
        "Clipped gradients of half-precision variables are summed in half precision.",
        ("tests/gradients/test_clipping.py",),
    ),
    fault(
        "sample-weight-after-the-clip",
        "tfdpnorm/gradients/engines/per_example.py",
        "losses, predictions = loss_fn(*single)\n",
        "losses, predictions = loss_fn(*single[:-1], tf.ones_like(single[-1]))\n",
        "Sample weights are ignored.",
        ("tests/gradients/engines/test_per_example.py",),
    ),
    fault(
        "tfp-vectorized-mask-ignored",
        "tfdpnorm/gradients/engines/tfp.py",
        "kept = inside & finite",
        "kept = finite",
        "Padding rows count as examples.",
        tests_in(
            "tests/training/step/test_pull_back_weight.py",
            "test_engines_agree_and_the_weighted_norm_is_clipped",
        ),
    ),
    fault(
        "tfp-vectorized-loss-scale-left-in",
        "tfdpnorm/gradients/engines/tfp.py",
        "float(clipping.l2_norm_clip) * float(loss_scale), _NO_CLIP",
        "float(clipping.l2_norm_clip), _NO_CLIP",
        "Gradients are clipped to C over the loss scale.",
        tests_in(
            "tests/training/step/test_pull_back_weight.py",
            "test_engines_agree_and_the_weighted_norm_is_clipped",
        ),
    ),
    fault(
        "tfp-vectorized-sum-scaled",
        "tfdpnorm/gradients/engines/tfp.py",
        "        / tf.cast(loss_scale, accumulation_dtype(v))\n",
        "",
        "Under float16 an example moves the sum by up to 1024 C.",
        tests_in(
            "tests/training/step/test_pull_back_weight.py",
            "test_engines_agree_and_the_weighted_norm_is_clipped",
        ),
    ),
    fault(
        "tfp-model-loss-scale-left-in",
        "tfdpnorm/gradients/engines/tfp.py",
        "factors = [weight / loss_scale for",
        "factors = [weight for",
        "Gradients reach the clip multiplied.",
        tests_in(
            "tests/training/step/test_pull_back_weight.py", "test_unclipped_weights_only_multiply"
        ),
    ),
    fault(
        "tfp-model-mask-ignored",
        "tfdpnorm/gradients/engines/tfp.py",
        "tf.where(mask > 0, losses, tf.zeros_like(losses))",
        "(losses)",
        "Padding rows count as examples.",
        tests_in(
            "tests/training/step/test_pull_back_weight.py",
            "test_engines_agree_and_the_weighted_norm_is_clipped",
        ),
    ),
    fault(
        "regularizer-under-the-clip",
        "tfdpnorm/training/update.py",
        "added_gradients(gradients, regularization)",
        "added_gradients(gradients, [r / 10 for r in regularization])",
        "The penalty on weights is divided by the lot.",
        tests_in(
            "tests/training/test_fit.py", "test_weight_regularizers_come_after_noise_and_clip"
        ),
    ),
)
