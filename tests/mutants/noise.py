"""Faults in the noise: how much, for what, and that no two draws are related."""

from tests.mutants.mutant import Mutant, fault, tests_in

_VALIDATION = "tests/training/callbacks/private_validation"
_NOISE = "tfdpnorm/noise/gaussian.py"
_EXACT = "tfdpnorm/noise/grid.py"
_RELEASE = "tfdpnorm/training/update.py"

MUTANTS = (
    fault(
        "weights-that-no-loss-reaches-are-noised",
        "tfdpnorm/training/update.py",
        "None if v.ref() in unreached else g",
        "g",
        "Weight decay and momentum move weights that Keras leaves as they are.",
        tests_in(
            "tests/training/checks/test_bad_input.py",
            "TestLayers::test_a_variable_without_a_path_to_the_loss",
        ),
    ),
    fault(
        "stddev-min-c-1",
        _RELEASE,
        "* clipped.sensitivity",
        "* min(clipped.sensitivity, 1)",
        "With C > 1 the noise is too small by the factor C.",
        tests_in(
            "tests/training/step/test_noise.py", "test_updates_carry_noise_of_the_planned_size_once"
        ),
    ),
    fault(
        "stddev-max-c-1",
        _RELEASE,
        "* clipped.sensitivity",
        "* max(clipped.sensitivity, 1)",
        "With C < 1 there is more noise than the plan says.",
        tests_in(
            "tests/training/step/test_noise.py", "test_updates_carry_noise_of_the_planned_size_once"
        ),
    ),
    fault(
        "noise-tenth-less",
        _RELEASE,
        "stddev = plan.noise_multiplier",
        "stddev = 0.9 * plan.noise_multiplier",
        "Epsilon is larger than the statement says.",
        tests_in(
            "tests/training/step/test_noise.py", "test_updates_carry_noise_of_the_planned_size_once"
        ),
    ),
    fault(
        "one-tensor-without-noise",
        _RELEASE,
        "released = noise.noised(sums, stddev, update)",
        "released = [*noise.noised(sums, stddev, update)[:-1], sums[-1]]",
        "The gradient by the last variable is released as it is.",
        tests_in(
            "tests/training/step/test_noise.py", "test_updates_carry_noise_of_the_planned_size_once"
        ),
    ),
    fault(
        "noise-divided-by-physical-batches",
        _RELEASE,
        "clipped = self.clipped(lot)\n        gradients",
        "clipped = self.clipped(lot)\n"
        "        split = lot.mask.shape[0]\n"
        "        clipped = clipped._replace(sensitivity=clipped.sensitivity / split)\n"
        "        gradients",
        "In lots of K physical batches the noise is too small by the factor K.",
        tests_in(
            "tests/training/step/test_noise.py", "test_updates_carry_noise_of_the_planned_size_once"
        ),
    ),
    fault(
        "noise-shared-by-tensors",
        _NOISE,
        "begins, parts = [0, *ends[:-1]], []",
        "begins, parts = [0 for _ in ends], []",
        "The noise of two small tensors cancels in their difference.",
        tests_in("tests/training/step/test_noise.py", "test_tensors_never_share_random_numbers"),
    ),
    fault(
        "noise-shared-by-dtypes",
        _NOISE,
        "update + (number << 40)",
        "update",
        "The noise of two variables of unequal dtypes cancels in their difference.",
        tests_in("tests/training/step/test_noise.py", "test_each_dtype_has_noise_of_its_own"),
    ),
    fault(
        "noise-without-state",
        "tfdpnorm/noise/words.py",
        "stateful=True",
        "stateful=False",
        "TensorFlow may draw the words once, for all updates.",
        tests_in("tests/training/step/test_noise.py", "test_a_traced_update_draws_again"),
    ),
    fault(
        "noise-without-update-number",
        _NOISE,
        "place = tf.stack([update + ",
        "place = tf.stack([0 * update + ",
        "The difference of two updates has no noise.",
        tests_in("tests/training/step/test_noise.py", "test_draws_are_gaussian_and_unrelated"),
    ),
    fault(
        "noise-key-constant",
        _NOISE,
        "key = secrets.token_bytes(32)",
        "key = bytes(32)",
        "Whoever reads the source can subtract the noise.",
        tests_in("tests/training/step/test_noise.py", "test_each_run_has_noise_of_its_own"),
    ),
    fault(
        "noise-key-of-lots",
        _NOISE,
        'hashlib.shake_256(b"noise" + key)',
        'hashlib.shake_256(b"lots" + key)',
        "The key is used for something else, too.",
        tests_in("tests/training/step/test_noise.py", "test_philox_has_a_key_for_each_purpose"),
    ),
    fault(
        "noise-half-circle",
        _EXACT,
        "sine = tf.where(angle_word < 0, -radius, radius)",
        "sine = radius",
        "Half of the numbers are never negative.",
        tests_in("tests/training/step/test_exact_noise.py", "test_it_is_float64_to_the_bit"),
    ),
    Mutant(
        "noise-not-normal",
        _EXACT,
        (
            ("radius = tf.sqrt(-2.0 * tf.where", "radius = (-2.0 * tf.where"),
            ("radius = tf.sqrt(tf.math.log(uniform)", "radius = (tf.math.log(uniform)"),
        ),
        "The noise has another distribution than the accountant assumes.",
        tests_in("tests/training/step/test_exact_noise.py", "test_cells_have_their_probabilities"),
    ),
    fault(
        "noise-further-bits-lost",
        _EXACT,
        "(fraction + tf.cast(word, tf.float64))",
        "(fraction + 2.0**32 + (tf.cast(word, tf.float64) - 2.0**32))",
        "Far tails are a comb: the bits after the first 64 are rounded away.",
        tests_in(
            "tests/training/step/test_exact_noise.py",
            "test_float64_is_as_precise_as_the_argument_assumes",
        ),
    ),
    fault(
        "noise-float32-never-checked",
        _EXACT,
        "0.5 - NORMAL_ERROR * stddev / width - SUM_ERROR",
        "1.0",
        "Numbers next to an edge of the grid are rounded by the errors of float32.",
        tests_in("tests/training/step/test_exact_noise.py", "test_it_is_float64_to_the_bit"),
    ),
    fault(
        "noise-large-sums-in-float32",
        _EXACT,
        "SAFE_CELLS = 1024.0",
        "SAFE_CELLS = 2.0**40",
        "Of large sums only what float32 keeps beside the noise is released exactly.",
        tests_in("tests/training/step/test_exact_noise.py", "test_it_is_float64_to_the_bit"),
    ),
    fault(
        "noise-tails-of-32-bits",
        _EXACT,
        " & (radii <= most)",
        "",
        "Far out, cells that should be possible never come out.",
        tests_in("tests/training/step/test_exact_noise.py", "test_it_is_float64_to_the_bit"),
    ),
    fault(
        "noise-centre-of-float32",
        _EXACT,
        " & (radii >= least)",
        "",
        "Of tiny radii float32 knows too little: numbers next to an edge are rounded wrongly.",
        tests_in("tests/training/step/test_exact_noise.py", "test_it_is_float64_to_the_bit"),
    ),
    fault(
        "noise-rounded-by-itself",
        _EXACT,
        "return tf.cast(cells, sums.dtype) * width, ~safe",
        "cells += tf.cast(sums / width - tf.round(sums / width), tf.float32)\n"
        "    return tf.cast(cells, sums.dtype) * width, ~safe",
        "What is released minus the true sum lies on the grid.",
        tests_in(
            "tests/audit/test_floating_point.py",
            "test_attacks_on_the_grid_are_at_chance",
        ),
    ),
    fault(
        "update-number-stands-still",
        _NOISE,
        "self.update_count.assign_add(1, read",
        "self.update_count.assign_add(0, read",
        "All updates have one number, and one noise.",
        tests_in("tests/training/step/test_noise.py", "test_random_numbers_are_never_given_twice"),
    ),
    Mutant(
        "number-counted-after-the-draw",
        "tfdpnorm/training/update.py",
        (
            ("number = noise.next_number()", "number = noise.update_count.read_value()"),
            (
                "        total = clipped.total\n",
                "        noise.next_number()\n        total = clipped.total\n",
            ),
        ),
        "An update that was interrupted leaves its noise to the next one.",
        tests_in(
            "tests/training/resume/test_interrupts.py",
            "test_steps_by_hand_after_an_interrupt_have_their_own_noise",
        ),
    ),
    fault(
        "noise-of-a-seed-begins-again",
        "tfdpnorm/training/make_private.py",
        "noise_generator, ledger.updates)",
        "noise_generator)",
        "A resumed run with a seed uses the noise of the first updates again.",
        tests_in(
            "tests/training/resume/test_interrupts.py", "test_a_seed_does_not_repeat_noise_either"
        ),
    ),
    fault(
        "answers-with-seeded-noise",
        "tfdpnorm/training/callbacks/private_validation.py",
        "random.SystemRandom()",
        "random",
        "Whoever knows the global seed can subtract the noise of the answers.",
        tests_in(f"{_VALIDATION}/test_noise.py", "TestNoise"),
    ),
    fault(
        "grid-of-the-stddev-itself",
        _EXACT,
        "math.ldexp(0.5, math.frexp(stddev / STDDEV_IN_STEPS)[1])",
        "stddev / STDDEV_IN_STEPS",
        "Multiples of the grid are rounded again, and tell of the sum.",
        tests_in(
            "tests/training/step/test_exact_noise.py",
            "test_the_grid_is_a_power_of_two_up_to_a_32nd",
        ),
    ),
    fault(
        "words-of-openssl-repeat",
        "tfdpnorm/noise/words.py",
        "parts.append(ssl.RAND_bytes(min(left, _MOST_BYTES)))",
        "parts.append(parts[0][:left] if parts else ssl.RAND_bytes(min(left, _MOST_BYTES)))",
        "Large models get the same noise in several places.",
        tests_in("tests/training/step/test_noise.py", "test_openssl_gives_the_words"),
    ),
)
