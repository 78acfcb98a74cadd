"""Faults in public statistics, the pull-back through them, and the views of an example."""

from tests.mutants.mutant import Mutant, fault, tests_in

_RELEASE = "tfdpnorm/training/update.py"
_LOT = "tfdpnorm/training/update.py"
_STREAMS = "tfdpnorm/training/public_rows.py"
_MOMENTS = "tfdpnorm/layers/public_batch_normalization.py"
_PULL_BACK = "tfdpnorm/layers/public_statistics.py"

MUTANTS = (
    fault(
        "public-rows-from-the-lot",
        _LOT,
        "statistics = self.streams.public_pass(training=True)",
        "rows = tf.nest.map_structure(lambda t: t[0], lot.x)\n"
        "            statistics = self.streams.recorded(rows, True)"
        ' if self.streams.mode == "public" else None',
        "Every example moves the gradients of all others, and no clip bounds it.",
        tests_in(
            "tests/training/step/test_sensitivity.py",
            "test_one_row_changes_the_sum_by_at_most_the_clip[public-book_keeping]",
        ),
    ),
    fault(
        "public-rows-beside-the-lot",
        _LOT,
        "statistics = self.streams.public_pass(training=True)",
        "x = tf.nest.map_structure(lambda t: t[0], lot.x)\n"
        "            both = tf.nest.map_structure(\n"
        "                lambda p, t: tf.concat([p, tf.cast(t, p.dtype)], 0),"
        " self.streams.public_batch, x)\n"
        '            public = self.streams.mode == "public"\n'
        "            statistics = self.streams.recorded(both, True) if public else None",
        "Every example moves the gradients of all others a little.",
        tests_in(
            "tests/training/step/test_sensitivity.py",
            "test_one_row_changes_the_sum_by_at_most_the_clip[public-book_keeping]",
        ),
    ),
    fault(
        "pull-back-of-sums-without-noise",
        _RELEASE,
        "zip(measured, released, weights, strict",
        "zip(measured, sums, weights, strict",
        "The gradient through the public statistics is released without noise.",
        ("tests/training/step/test_release.py",),
    ),
    fault(
        "shrunk-by-sums-without-noise",
        _RELEASE,
        "return shrunk(gradient, stddev / weight) if shrinks else gradient",
        "exact = {v.ref(): s / w for v, s, w in zip(measured, sums, weights)}\n"
        "            share = shrunk(exact[variable.ref()], stddev / weight)\n"
        "            share = tf.norm(share) / tf.norm(exact[variable.ref()])\n"
        "            return share * gradient if shrinks else gradient",
        "The share of the pull-back that is taken tells of the sums without noise.",
        ("tests/training/step/test_release.py",),
    ),
    fault(
        "shrunk-by-noise-before-the-weights",
        _RELEASE,
        "return shrunk(gradient, stddev / weight)",
        "return shrunk(gradient, stddev * weight)",
        "The pull-back is shrunk to nothing.",
        ("tests/training/step/test_release.py",),
    ),
    fault(
        "clip-weights-not-undone",
        _RELEASE,
        "released = [r / w for r, w",
        "released = [r + 0 * w for r, w",
        "The pull-back's gradients are too large by the weight.",
        ("tests/training/step/test_release.py",),
    ),
    fault(
        "clip-weights-undone-twice",
        _RELEASE,
        "released = [r / w for r, w",
        "released = [r / w**2 for r, w",
        "The pull-back's gradients are too small by the weight.",
        ("tests/training/step/test_release.py",),
    ),
    Mutant(
        "clip-weights-undone-before-the-noise",
        _RELEASE,
        (
            (
                "sums, measured = clipped.sums, clipped.measured",
                "measured = clipped.measured\n"
                "    weights = clipped.weights or [1.0] * len(measured)\n"
                "    sums = [s / w for s, w in zip(clipped.sums, weights, strict=True)]",
            ),
            ("released = [r / w for r, w", "released = [r + 0 * w for r, w"),
        ),
        "The noise on what the pull-back reads is too large by the weight.",
        ("tests/training/step/test_release.py",),
    ),
    fault(
        "clip-weight-of-all",
        _STREAMS,
        "if raw(v).ref() in read else 1.0 for v",
        "if True else 1.0 for v",
        "All gradients are multiplied before the clip.",
        ("tests/training/step/test_pull_back_weight.py",),
    ),
    fault(
        "pull-back-sign",
        _PULL_BACK,
        "-gamma * tf.sqrt(inverse_variance)",
        "gamma * tf.sqrt(inverse_variance)",
        "The gradient through the public means has the wrong sign.",
        ("tests/layers/test_pull_back.py",),
    ),
    fault(
        "pull-back-left-out",
        _STREAMS,
        'return self.mode == "public" and self.full_gradient\n',
        'return self.mode == "record" and self.full_gradient\n',
        "Part of the gradient is missing.",
        tests_in(
            "tests/training/step/test_statistics_gradient.py",
            "test_full_is_the_gradient_of_the_public_model",
        ),
    ),
    fault(
        "blend-with-all-rows",
        _MOMENTS,
        "own_mean, own_variance = values, tf.zeros_like(values)",
        "own_mean = tf.reduce_mean(values, 0, keepdims=True) + 0 * values\n"
        "            own_variance = tf.zeros_like(values)",
        "Private rows are normalised by the mean of all private rows.",
        ("tests/layers/test_public_batch_row_independence.py",),
    ),
    fault(
        "blend-without-spread",
        _MOMENTS,
        "variance += rows * tf.square(own_mean - public_mean) / tf.square(total)",
        "variance += 0.0",
        "The normalised value of an outlier is not bounded.",
        tests_in("tests/layers/test_public_batch_normalization.py", "test_follows_the_formulas"),
    ),
    fault(
        "views-clipped-one-by-one",
        "tfdpnorm/gradients/contributions/contribution.py",
        "Instantiated(tf.reduce_sum(tf.reshape(self._gradients, shape), axis=1))",
        "Instantiated(tf.norm(tf.reshape(self._gradients, shape), axis=1))",
        "Norms of an example's views are added instead of its gradients.",
        tests_in(
            "tests/training/step/test_views.py",
            "test_the_mean_gradient_of_the_views_is_clipped_once",
        ),
    ),
    fault(
        "example-mode-joins-the-lot",
        "tfdpnorm/training/public_rows.py",
        "if tf.nest.flatten(x)[0].shape[0] == 1:",
        "if True:",
        "What is predicted for a row depends on the rows beside it.",
        tests_in("tests/training/test_saving.py", "test_a_prediction_depends_on_no_row_beside_it"),
    ),
    fault(
        "public-mode-takes-the-rows",
        "tfdpnorm/layers/public_batch_normalization.py",
        'if forward_pass.kind == "use":',
        'if forward_pass.kind == "use" and self.statistics != "public":',
        "Private rows are normalised by the moments of all private rows.",
        ("tests/layers/test_public_batch_row_independence.py",),
    ),
)
