"""Faults in the noise: how much, for what, and that no two draws are related."""

from tests.mutants.mutant import Mutant, tests_in

_NOISE = "tfdpnorm/training/step/noise.py"
_RELEASE = "tfdpnorm/training/step/release.py"

MUTANTS = (
    Mutant(
        "stddev-min-c-1",
        _RELEASE,
        (("* clipped.sensitivity", "* min(clipped.sensitivity, 1)"),),
        "With C > 1 the noise is too small by the factor C.",
        tests_in(
            "tests/training/step/test_noise.py", "test_updates_carry_noise_of_the_planned_size_once"
        ),
    ),
    Mutant(
        "stddev-max-c-1",
        _RELEASE,
        (("* clipped.sensitivity", "* max(clipped.sensitivity, 1)"),),
        "With C < 1 there is more noise than the plan says.",
        tests_in(
            "tests/training/step/test_noise.py", "test_updates_carry_noise_of_the_planned_size_once"
        ),
    ),
    Mutant(
        "noise-tenth-less",
        _RELEASE,
        (("stddev = plan.noise_multiplier", "stddev = 0.9 * plan.noise_multiplier"),),
        "Epsilon is larger than the statement says.",
        tests_in(
            "tests/training/step/test_noise.py", "test_updates_carry_noise_of_the_planned_size_once"
        ),
    ),
    Mutant(
        "one-tensor-without-noise",
        _RELEASE,
        (
            (
                "zip(sums, drawn, measured, strict=True)",
                "zip(sums, [*drawn[:-1], 0 * drawn[-1]], measured, strict=True)",
            ),
        ),
        "The gradient by the last variable is released as it is.",
        tests_in(
            "tests/training/step/test_noise.py", "test_updates_carry_noise_of_the_planned_size_once"
        ),
    ),
    Mutant(
        "noise-divided-by-physical-batches",
        "tfdpnorm/training/private_model.py",
        (
            (
                "clipped = self._lot_gradients.clipped(lot)\n        gradients",
                "clipped = self._lot_gradients.clipped(lot)\n"
                "        split = tf.cast(tf.shape(lot.mask)[0], tf.float32)\n"
                "        clipped = clipped._replace(sensitivity=clipped.sensitivity / split)\n"
                "        gradients",
            ),
        ),
        "In lots of K physical batches the noise is too small by the factor K.",
        tests_in(
            "tests/training/step/test_noise.py", "test_updates_carry_noise_of_the_planned_size_once"
        ),
    ),
    Mutant(
        "noise-shared-by-tensors",
        _NOISE,
        (("begins = [sum(rooms[:i]) for i in range(len(rooms))]", "begins = [0 for _ in rooms]"),),
        "The noise of two tensors cancels in their difference.",
        tests_in("tests/training/step/test_noise.py", "test_draws_are_gaussian_and_unrelated"),
    ),
    Mutant(
        "noise-overlaps",
        _NOISE,
        (
            (
                "begins = [sum(rooms[:i])",
                "begins = [max(0, sum(rooms[:i]) - 1)",
            ),
        ),
        "The first number of a tensor's noise is the last one of the tensor before.",
        tests_in("tests/training/step/test_noise.py", "test_no_number_is_drawn_for_two_tensors"),
    ),
    Mutant(
        "noise-repeated-each-update",
        _NOISE,
        (("place = tf.stack([update, bits])\n", "place = tf.stack([0 * update, 0 * bits])\n"),),
        "The difference of two updates has no noise.",
        tests_in("tests/training/step/test_noise.py", "test_draws_are_gaussian_and_unrelated"),
    ),
    Mutant(
        "noise-without-update-number",
        _NOISE,
        (("place = tf.stack([update, bits])\n", "place = tf.stack([0 * update, bits])\n"),),
        "Two updates with equal sums, such as those of empty lots, get the same noise.",
        tests_in("tests/training/step/test_noise.py", "test_draws_are_gaussian_and_unrelated"),
    ),
    Mutant(
        "noise-without-fingerprint",
        _NOISE,
        (("place = tf.stack([update, bits])\n", "place = tf.stack([update, 0 * bits])\n"),),
        "A resumed run adds the same noise to another sum.",
        tests_in("tests/training/step/test_noise.py", "test_two_sums_never_get_the_same_noise"),
    ),
    Mutant(
        "noise-key-constant",
        _NOISE,
        (("key = secrets.token_bytes(32)", "key = bytes(32)"),),
        "Whoever reads the source can subtract the noise.",
        tests_in("tests/training/step/test_noise.py", "test_each_run_has_noise_of_its_own"),
    ),
    Mutant(
        "noise-key-of-lots",
        _NOISE,
        (('hashlib.shake_256(b"noise" + key)', 'hashlib.shake_256(b"lots" + key)'),),
        "Noise and lots come from one stream of a key.",
        tests_in("tests/training/step/test_noise.py", "test_noise_comes_from_a_stream_of_its_own"),
    ),
    Mutant(
        "noise-half-circle",
        _NOISE,
        (("angle = angle_word * math.pi", "angle = tf.abs(angle_word) * math.pi"),),
        "Half of the numbers are never negative.",
        tests_in(
            "tests/training/step/test_noise.py", "test_normals_are_the_transform_of_all_32_bits"
        ),
    ),
    Mutant(
        "noise-not-normal",
        _NOISE,
        (("radius = tf.sqrt(-2.0 * tf.math.log(", "radius = (-2.0 * tf.math.log("),),
        "The noise has another distribution than the accountant assumes.",
        tests_in(
            "tests/training/step/test_noise.py", "test_normals_are_the_transform_of_all_32_bits"
        ),
    ),
    Mutant(
        "update-number-stands-still",
        "tfdpnorm/training/private_model.py",
        (("self.update_count.assign_add(1)", "self.update_count.assign_add(0)"),),
        "All updates have one number, and those with equal sums one noise.",
        tests_in("tests/training/test_fit.py", "test_eager_training_works_too"),
    ),
    Mutant(
        "release-not-recorded",
        _NOISE,
        (("self.release.assign(chain(self.release, words))", "pass"),),
        "A repeated update that came out otherwise passes for the same and is free.",
        tests_in("tests/training/step/test_noise.py", "test_two_sums_never_get_the_same_noise"),
    ),
    Mutant(
        "noise-not-keyed-by-the-sums",
        "tfdpnorm/training/step/release.py",
        (("update, addends=sums)", "update)"),),
        "A resumed run adds the same noise to another sum.",
        tests_in(
            "tests/training/step/test_noised_statistics.py",
            "test_statistics_are_part_of_what_noise_and_digests_are_keyed_by",
        ),
    ),
    Mutant(
        "fingerprint-of-the-first-tensor",
        "tfdpnorm/training/step/fingerprint.py",
        (("for tensor in tensors:", "for tensor in tensors[:1]:"),),
        "Sums that differ in the second tensor get the same noise.",
        tests_in(
            "tests/training/step/test_noised_statistics.py",
            "test_statistics_are_part_of_what_noise_and_digests_are_keyed_by",
        ),
    ),
    Mutant(
        "answers-with-seeded-noise",
        "tfdpnorm/training/callbacks/private_validation.py",
        (("random.SystemRandom().gauss", "random.gauss"),),
        "Whoever knows the global seed can subtract the noise of the answers.",
        tests_in("tests/training/callbacks/test_private_validation.py", "TestNoise"),
    ),
)
