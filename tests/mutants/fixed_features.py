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
)
