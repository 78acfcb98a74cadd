"""Faults in features that are not trained."""

from tests.mutants.mutant import fault, tests_in

_SCATTERING = "tfdpnorm/layers/scattering_features.py"
_TESTS = "tests/layers/test_scattering_features.py"

MUTANTS = (
    fault(
        "scattering-reads-other-images",
        _SCATTERING,
        "spectrum = _spectrum(x)[",
        "spectrum = _spectrum(x - tf.reduce_mean(x, axis=0, keepdims=True))[",
        "The features of an image depend on all others of its batch.",
        tests_in(_TESTS, "test_an_image_changes_no_other"),
    ),
    fault(
        "scattering-sums-for-averages",
        _SCATTERING,
        "weights / weights.sum(axis=1, keepdims=True)",
        "weights",
        "Features are up to 16 times too large, and differ by more than their images.",
        tests_in(_TESTS, "test_features_differ_by_at_most_what_images_do"),
    ),
    fault(
        "scattering-wavelets-with-mean",
        _SCATTERING,
        "wave - wave[0, 0] / gauss[0, 0] * gauss",
        "wave",
        "Features change with the brightness of an image.",
        tests_in(_TESTS, "test_against_sums_over_pixels"),
    ),
    fault(
        "directions-of-few-rows-of-other-lengths",
        "trainers/runs/least_squares.py",
        "rows.T @ (shares / lengths)",
        "rows.T @ shares",
        "With fewer public images than features, those are not half whitened but their cube.",
        tests_in(
            "tests/trainers/ours/test_fixed_features.py",
            "test_fewer_rows_than_features_span_the_same_directions",
        ),
    ),
    fault(
        "patches-all-respond",
        "trainers/runs/fixed_features.py",
        "x = convolved(x, both, -threshold, 1,",
        "x = convolved(x, both, threshold, 1,",
        "Similarities are nearly linear in the patches: features that tell little.",
        tests_in(
            "tests/trainers/ours/test_fixed_features.py", "test_patches_respond_to_those_alike"
        ),
    ),
)
