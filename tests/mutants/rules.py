"""Faults in gradient rules: norms that are too small clip too little."""

from tests.mutants.mutant import Mutant, tests_in

_RULES = "tfdpnorm/gradients/rules"

MUTANTS = (
    Mutant(
        "scaled-norm-without-factors",
        "tfdpnorm/gradients/rules/variational_dropout.py",
        (("b * tf.matmul(a, scale)", "b * tf.matmul(a, tf.ones_like(scale))"),),
        "An example exceeds the clip where the noise of a weight is large.",
        ("tests/gradients/rules/test_variational_dropout_rule.py",),
    ),
    Mutant(
        "scaled-overflow-taken-for-finite",
        "tfdpnorm/gradients/rules/variational_dropout.py",
        (("tf.where(without < _LONGEST, norms,", "tf.where(without < np.inf, norms,"),),
        "An example makes the sum infinite before the factors of its weights make it small.",
        ("tests/gradients/rules/test_variational_dropout_rule.py",),
    ),
    Mutant(
        "tied-parts-unbounded",
        "tfdpnorm/gradients/rules/variational_dropout.py",
        (("8 * unit * both, both / LONGER)", "8 * unit * both, 0.0 * both)"),),
        "Where two products cancel, a short row moves the rounding of others without limit.",
        ("tests/gradients/rules/test_variational_dropout_rule.py",),
    ),
    Mutant(
        "dropout-noise-of-all-rows",
        "tfdpnorm/layers/variational_dropout.py",
        (
            (
                "self._generator, tf.shape(mean), variance",
                "self._generator, tf.shape(mean)[1:], variance",
            ),
            (
                "noise = tf.ensure_shape(noise, mean.shape)",
                "noise = tf.ensure_shape(noise, mean.shape[1:])",
            ),
        ),
        "The rows of a physical batch share their numbers, and examples move from one to another.",
        ("tests/layers/test_variational_dropout.py",),
    ),
    Mutant(
        "cross-terms-dropped",
        "tfdpnorm/gradients/contributions/arithmetic.py",
        (
            (
                "tf.reduce_sum(wide[0] * wide[1], axis=[1, 2])",
                "tf.linalg.trace(wide[0] * wide[1])",
            ),
        ),
        "The norm of a sum over T positions is up to sqrt(T) times too small.",
        (("tests/gradients/test_norms_of_outer_sums.py",)),
    ),
    Mutant(
        "gram-rounding-allowance-dropped",
        "tfdpnorm/gradients/contributions/arithmetic.py",
        (
            (
                "norms = tf.maximum(norms, 0.0) + unit * tf.add_n(bounds)",
                "norms = tf.maximum(norms, 0.0)",
            ),
        ),
        "Where outer products cancel, rounding lets an example exceed the clip.",
        (("tests/gradients/test_norms_of_outer_sums.py",)),
    ),
    Mutant(
        "gram-roundings-of-inputs-left-out",
        "tfdpnorm/gradients/contributions/arithmetic.py",
        (("tf.cast(n_a, dtype) * _quadratic(norm_a", "0.0 * _quadratic(norm_a"),),
        "Where inputs nearly cancel, rounding lets an example exceed the clip.",
        ("tests/gradients/test_norms_of_outer_sums.py",),
    ),
    Mutant(
        "underflow-unaccounted",
        "tfdpnorm/gradients/contributions/arithmetic.py",
        (
            (
                "return 2**24 * np.finfo(dtype.as_numpy_dtype).tiny",
                "return 0 * np.finfo(dtype.as_numpy_dtype).tiny",
            ),
        ),
        "A tiny factor times a huge one passes for a gradient of norm 0.",
        ("tests/gradients/test_norms_of_outer_sums.py",),
    ),
    Mutant(
        "norm-not-squared",
        "tfdpnorm/gradients/contributions/arithmetic.py",
        (
            (
                "squares = tf.square(tf.math.reduce_euclidean_norm(x, inner, keepdims=True))",
                "squares = tf.math.reduce_euclidean_norm(x, inner, keepdims=True)",
            ),
        ),
        "The norm of a large gradient is taken as its root.",
        tests_in(
            "tests/gradients/engines/test_book_keeping.py",
            "test_equals_the_loop_over_single_examples[dense]",
        ),
    ),
    Mutant(
        "dense-sign",
        f"{_RULES}/dense.py",
        (
            (
                "found.append((layer.bias, bias_gradients(b)))",
                "found.append((layer.bias, bias_gradients(-b)))",
            ),
        ),
        "The bias is trained away from the minimum.",
        tests_in(
            "tests/gradients/engines/test_book_keeping.py",
            "test_equals_the_loop_over_single_examples[dense]",
        ),
    ),
    Mutant(
        "bias-mean-over-positions",
        "tfdpnorm/gradients/contributions/contribution.py",
        (("return tf.squeeze(tf.matmul(ones, flat), 1)", "return tf.reduce_mean(flat, 1)"),),
        "The gradient by a bias is too small by the number of positions.",
        tests_in(
            "tests/gradients/engines/test_book_keeping.py",
            "test_equals_the_loop_over_single_examples[dense_over_positions]",
        ),
    ),
    Mutant(
        "outer-sum-merged-into-one",
        "tfdpnorm/gradients/contributions/contribution.py",
        (
            (
                "tf.concat([a, other_a], 1), tf.concat([b, other_b], 1)",
                "a, b",
            ),
        ),
        "Of two calls of a dense layer one has no part in the gradient.",
        tests_in(
            "tests/gradients/engines/test_book_keeping.py",
            "test_equals_the_loop_over_single_examples[siamese]",
        ),
    ),
    Mutant(
        "lookup-norms-one-by-one",
        "tfdpnorm/gradients/rules/embedding.py",
        (("found, index = tf.unique(places)", "found, index = places, tf.range(tf.size(places))"),),
        "An id that an example has T times counts with a norm up to sqrt(T) times too small.",
        tests_in("tests/gradients/rules/test_embedding_rule.py", "test_equals_the_loop"),
    ),
    Mutant(
        "lookup-outside-counts",
        "tfdpnorm/gradients/rules/embedding.py",
        (("tf.where(valid, index, -1), tf.size(found)", "index, tf.size(found)"),),
        "Ids outside of the table are added to the first vector.",
        tests_in(
            "tests/gradients/rules/test_embedding_rule.py",
            "test_ids_outside_of_the_table_add_nothing_to_any_row",
        ),
    ),
    Mutant(
        "group-norm-offset-sign",
        "tfdpnorm/gradients/rules/normalization.py",
        (("- centred * by_centred - offset", "- centred * by_centred + offset"),),
        "Gradients before a group normalisation are wrong.",
        tests_in(
            "tests/gradients/engines/test_book_keeping.py",
            "test_equals_the_loop_over_single_examples[normalizations]",
        ),
    ),
    Mutant(
        "group-norm-gamma-on-another-scale",
        "tfdpnorm/gradients/rules/normalization.py",
        (("return self._rsqrt * s2, s1", "return s2, s1"),),
        "An example's gradient by gamma is clipped at another norm than it has.",
        tests_in(
            "tests/gradients/engines/test_book_keeping.py",
            "test_equals_the_loop_over_single_examples[normalizations]",
        ),
    ),
    Mutant(
        "gamma-without-normalized",
        f"{_RULES}/normalization.py",
        (("summed_up(b * tf.cast(normalized, b.dtype), ", "summed_up(b, "),),
        "The gradient by gamma is that by beta.",
        tests_in(
            "tests/gradients/engines/test_book_keeping.py",
            "test_equals_the_loop_over_single_examples[normalizations]",
        ),
    ),
    Mutant(
        "recurrent-state-after-the-step",
        f"{_RULES}/recurrent.py",
        (("return (new[0], states[0], *kept), new", "return (new[0], new[0], *kept), new"),),
        "The recurrent kernel's gradient is taken with the state after each step.",
        tests_in("tests/gradients/rules/test_recurrent_rules.py", "test_equals_the_loop"),
    ),
    Mutant(
        "reset-gate-left-out",
        f"{_RULES}/recurrent.py",
        (("tf.concat([b_z, b_r, reset * b_h], axis=-1)", "tf.concat([b_z, b_r, b_h], axis=-1)"),),
        "The gradient by a GRU's recurrent kernel is wrong.",
        ("tests/gradients/rules/test_recurrent_rules.py",),
    ),
    Mutant(
        "mask-of-unrolled-steps-turned",
        f"{_RULES}/recurrent.py",
        (("                shown = _by_rows(layer, given_mask)\n", "                pass\n"),),
        "Unrolled layers that go backwards are trained as another function than they are.",
        tests_in(
            "tests/gradients/rules/test_recurrent_masks.py",
            "test_masked_steps_equal_single_examples",
        ),
    ),
    Mutant(
        "blocks-mixed-by-views",
        "tfdpnorm/gradients/contributions/contribution.py",
        (("split = tf.transpose(split, [0, 2, 1, 3, 4])", "split = split + 0"),),
        "The gradients of several views of an example are added up in the wrong blocks.",
        (
            ("tests/gradients/rules/test_einsum_dense_rule.py",)
            + ("tests/gradients/rules/test_time_distributed.py",)
        ),
    ),
    Mutant(
        "convolution-calls-norm-of-first",
        "tfdpnorm/gradients/contributions/convolution_sum.py",
        (
            ("if len(self._calls) > 1 or self._rows", "if self._rows"),
            (
                "((images, b),) = self._calls\n        b =",
                "(images, b), *_ = self._calls\n        b =",
            ),
            (
                "((images, b),) = self._calls\n        sizes",
                "(images, b), *_ = self._calls\n        sizes",
            ),
        ),
        "A convolution that is called twice is clipped by the norm of its first call.",
        (
            tests_in(
                "tests/gradients/test_model_structures.py",
                "test_a_small_convolution_called_twice_is_clipped_by_both",
            )
        ),
    ),
    Mutant(
        "standardization-not-pulled-back",
        "tfdpnorm/gradients/rules/weight_standardized.py",
        (
            (
                "tf.reduce_mean(scaled, axis=axes, keepdims=True) - along * unit",
                "tf.reduce_mean(scaled, axis=axes, keepdims=True)",
            ),
        ),
        "The sum has a direction that the norm leaves out.",
        tests_in("tests/gradients/rules/test_weight_standardized_rule.py", "test_equals_the_loop"),
    ),
    Mutant(
        "fallback-shares-rows",
        f"{_RULES}/fallback.py",
        (
            (
                "output_gradients=[tf.expand_dims(b, 0) for b in row[1]]",
                "output_gradients=[tf.reduce_mean(b, 0, keepdims=True) for b in gradients]",
            ),
        ),
        "Every example gets the gradient that comes back to all of them.",
        tests_in(
            "tests/gradients/engines/test_book_keeping.py",
            "test_a_subclass_of_a_known_layer_is_not_taken_for_it",
        ),
    ),
    Mutant(
        "rows-of-a-wrapper-forgotten",
        "tfdpnorm/gradients/taps.py",
        (("outside * rule.rows_per_row(layer, inputs)", "1 * rule.rows_per_row(layer, inputs)"),),
        "Views inside a TimeDistributed layer are told apart by shape alone.",
        tests_in(
            "tests/gradients/rules/test_time_distributed.py",
            "test_several_rows_of_the_model_can_belong_to_each_example",
        ),
    ),
    Mutant(
        "nonfinite-activations-kept",
        "tfdpnorm/gradients/contributions/arithmetic.py",
        (("return tf.cond(tf.reduce_all(finite), lambda: x, without)", "return x"),),
        "One example with infinite activations turns the sum into NaN.",
        tests_in(
            "tests/gradients/engines/test_book_keeping.py",
            "test_a_row_that_is_not_finite_counts_as_zero",
        ),
    ),
    Mutant(
        "zero-times-infinity",
        "tfdpnorm/gradients/contributions/arithmetic.py",
        (("return tf.math.multiply_no_nan(x,", "return tf.multiply(x,"),),
        "One example with an infinite gradient turns the sum into NaN.",
        tests_in(
            "tests/gradients/engines/test_book_keeping.py",
            "test_a_row_that_is_not_finite_counts_as_zero",
        )
        + tests_in(
            "tests/gradients/rules/test_convolution_like_rules.py",
            "test_a_row_that_is_not_finite_counts_as_zero",
        ),
    ),
    Mutant(
        "norms-in-half-precision",
        "tfdpnorm/dtypes.py",
        (
            (
                "return tf.cast(x, at_least_float32",
                "return tf.cast(tf.cast(x, tf.float16), at_least_float32",
            ),
        ),
        "Norms are taken of rounded numbers.",
        tests_in(
            "tests/gradients/engines/test_book_keeping.py",
            "test_equals_the_loop_over_single_examples[dense]",
        ),
    ),
    Mutant(
        "block-norms-without-last-block",
        "tfdpnorm/gradients/contributions/contribution.py",
        (
            (
                "return added_in_float64(squares[0] * squares[1], axis=[1, 2])",
                "return tf.reduce_sum((squares[0] * squares[1])[:, :-1], axis=[1, 2])",
            ),
        ),
        "The last block of weights is bounded by nothing.",
        tests_in(
            "tests/gradients/rules/test_einsum_dense_rule.py", "test_blocks_in_their_three_forms"
        ),
    ),
    Mutant(
        "places-norm-of-some",
        "tfdpnorm/gradients/contributions/convolution_sum.py",
        (
            (
                "                self._measures(tf.reshape(p",
                "                0 * self._measures(tf.reshape(p",
            ),
        ),
        "What one place of the kernel adds to the norm of a row is left out.",
        tests_in("tests/gradients/test_convolution_forms.py", "test_all_forms_equal_the_loop"),
    ),
    Mutant(
        "places-added-up-without-rounding-up",
        "tfdpnorm/gradients/contributions/convolution_sum.py",
        (
            (
                "measures * (1 + len(parts) * np.finfo(measures.dtype.as_numpy_dtype).eps)",
                "measures",
            ),
        ),
        "Norms by place of the kernel lose what adding up the places loses.",
        tests_in(
            "tests/gradients/test_convolution_forms.py",
            "test_small_places_beside_a_large_one_are_not_lost",
        ),
    ),
    Mutant(
        "places-rounded-after-the-norm",
        "tfdpnorm/gradients/contributions/convolution_sum.py",
        (
            (
                "return widened(tf.matmul(pixels, b, transpose_a=True))",
                "return tf.matmul(widened(pixels), widened(b), transpose_a=True)",
            ),
            (
                "return parts, measures *",
                "parts = [widened(tf.cast(p, self._as_they_are[0][0].dtype)) for p in parts]\n"
                "        return parts, measures *",
            ),
        ),
        "Norms are those of gradients that are rounded to bfloat16 later.",
        tests_in(
            "tests/gradients/test_convolution_forms.py",
            "test_products_in_bfloat16_stay_within_the_clip",
        ),
    ),
    Mutant(
        "gram-of-patches-without-strides",
        "tfdpnorm/gradients/contributions/window.py",
        (
            (
                "found.setdefault(place * dilation % stride, [])",
                "found.setdefault(0, [])",
            ),
        ),
        "Norms of strided convolutions are those of other gradients.",
        tests_in("tests/gradients/rules/test_weight_standardized_rule.py", "test_equals_the_loop"),
    ),
    Mutant(
        "depthwise-rows-mixed",
        "tfdpnorm/gradients/rules/convolutions.py",
        (
            (
                "[*window.kernel_size, rows, channels, multiplier])",
                "[*window.kernel_size, channels, rows, multiplier])",
            ),
            (
                "tf.transpose(gradients, [rank, *range(rank), rank + 1, rank + 2])",
                "tf.transpose(gradients, [rank + 1, *range(rank), rank, rank + 2])",
            ),
        ),
        "An example gets the gradients of other examples' channels.",
        tests_in(
            "tests/gradients/rules/test_convolution_like_rules.py",
            "test_convolutions_equal_the_loop",
        ),
    ),
    Mutant(
        "depthwise-places-are-rows",
        "tfdpnorm/gradients/rules/convolutions.py",
        (("tf.stack(gradients, axis=1)", "tf.stack(gradients, axis=0)"),),
        "An example gets the gradients of other examples, a place of the kernel each.",
        tests_in(
            "tests/gradients/rules/test_convolution_like_rules.py",
            "test_convolutions_equal_the_loop",
        ),
    ),
    Mutant(
        "attention-shares-its-scale",
        "tfdpnorm/gradients/rules/broadcast.py",
        (
            (
                "Instantiated(tf.reshape(b, [",
                "Instantiated(tf.reshape(tf.reduce_mean(b, 0, keepdims=True) + 0 * b, [",
            ),
        ),
        "An example gets the gradient of all of them.",
        ("tests/gradients/rules/test_attention_rule.py",),
    ),
    Mutant(
        "block-norm-loses-squares",
        "tfdpnorm/gradients/contributions/contribution.py",
        (("sum_of_squares(x, axis=[-1]) for x", "tf.reduce_sum(tf.square(x), -1) for x"),),
        "A row with inputs below 1e-19 has norm 0, and moves the sum by thousands of C.",
        ("tests/gradients/test_norms_of_outer_sums.py",),
    ),
    Mutant(
        "all-calls-by-the-first-window",
        "tfdpnorm/gradients/contributions/convolution_sum.py",
        ((" or other._window != self._window:", ":"),),
        "Convolutions that share a kernel get the gradient of another dilation.",
        ("tests/gradients/test_tied_weights.py",),
    ),
    Mutant(
        "removed-by-another-rounding",
        "tfdpnorm/gradients/rules/weight_standardized.py",
        (
            (
                "self._removed(along_ones, along_unit), 0.0)",
                "self._removed(along_ones, self._by_gain), 0.0)",
            ),
        ),
        "Where patches cancel, a row of 1.4 C is added up.",
        tests_in(
            "tests/gradients/rules/test_weight_standardized_rule.py",
            "test_patches_that_cancel_do_not_lengthen_a_row",
        ),
    ),
    Mutant(
        "outputs-counted-twice",
        f"{_RULES}/fallback.py",
        (("watch(_copy(z))", "watch(z)"),),
        "Of two outputs, the gradient comes back through both.",
        ("tests/gradients/rules/test_fallback_rule.py",),
    ),
    Mutant(
        "rows-of-an-attribute",
        f"{_RULES}/fallback.py",
        (("            _check_one_row(layer, outputs, gradients)\n", ""),),
        "Each row is run beside the rows that another layer has left in an attribute.",
        ("tests/gradients/rules/test_fallback_rule.py",),
    ),
    Mutant(
        "first-row-of-an-attribute",
        f"{_RULES}/fallback.py",
        (("    if read:\n", "    if False:\n"),),
        "A row is run beside the first of the rows that another layer has left in an attribute.",
        ("tests/gradients/rules/test_fallback_rule.py",),
    ),
    Mutant(
        "leaves-by-an-attribute",
        "tfdpnorm/gradients/taps.py",
        (("                self._reads.check_returned(tap)\n", "                pass\n"),),
        "A gradient lacks what others read in an attribute of the layer.",
        ("tests/gradients/test_reads.py",),
    ),
    Mutant(
        "stopped-by-a-rule",
        "tfdpnorm/gradients/taps.py",
        (("cut=tap.rule.runs_own_call", "cut=True"),),
        "A gradient by the inputs of an LSTM lacks what it owes to the recurrent kernel.",
        ("tests/gradients/test_reads.py",),
    ),
    Mutant(
        "shape-of-copies",
        "tfdpnorm/independence/verification/book_keeping.py",
        (("    if not computed_alike(first, last, broadcast):", "    if False:"),),
        "Embeddings of positions are divided by the number of rows where it should be of places.",
        ("tests/independence/verification/test_copies.py",),
    ),
    Mutant(
        "leaves-in-a-list",
        "tfdpnorm/keras_compat/graphs.py",
        (("return not (tensor", "return tensor.dtype.is_floating and not (tensor"),),
        "A gradient lacks what others read in a list of tensors that the layer has left.",
        ("tests/gradients/test_reads.py",),
    ),
    Mutant(
        "rolls-over-the-rows",
        "tfdpnorm/keras_compat/corrections.py",
        (("np.mod(axis, rank)", "axis"),),
        "A row's gradient holds the next one's numbers.",
        ("tests/keras_compat/test_corrections.py",),
    ),
    Mutant(
        "segments-of-the-next-row",
        "tfdpnorm/keras_compat/corrections.py",
        (("ids.t < tf.cast(count, ids.t.dtype)", "ids.t == ids.t"),),
        "What is beyond a row's last segment is in the next row's first.",
        ("tests/keras_compat/test_corrections.py",),
    ),
)
