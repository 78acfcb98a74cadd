"""Faults in what takes the place of an imported model's batch normalisation."""

from tests.mutants.mutant import Mutant, tests_in

_TESTS = "tests/convert/test_convert.py"

MUTANTS = (
    Mutant(
        "frozen-normalisation-thaws",
        "tfdpnorm/layers/frozen_batch_normalization.py",
        (("super().call(inputs, training=False)", "super().call(inputs, training=training)"),),
        "Statistics of the lot normalise each example, in a layer that is let pass unseen.",
        tests_in(_TESTS, "test_the_clipped_sum_of_a_converted_model_is_that_of_single_examples")
        + tests_in(_TESTS, "test_make_private_converts"),
    ),
    Mutant(
        "subclasses-of-frozen-normalisation-pass",
        "tfdpnorm/audit/row_independence/known_layers.py",
        (
            (
                "and type(x) is not FrozenBatchNormalization",
                "and not isinstance(x, FrozenBatchNormalization)",
            ),
        ),
        "A subclass whose call takes statistics of the lot is not refused by name.",
        tests_in(_TESTS, "test_a_subclass_of_the_frozen_layer_is_refused"),
    ),
    Mutant(
        "wrapped-normalisation-stays",
        "tfdpnorm/convert/exchanges.py",
        (("if not self._needs_exchange_inside(layer):", "if True:"),),
        "Batch normalisation inside of layers is left, and named nowhere.",
        tests_in(_TESTS, "test_attributes_of_layers_and_models"),
    ),
    Mutant(
        "features-mix-images",
        "tfdpnorm/convert/features.py",
        (
            (
                "run = tf.function(lambda x: model(x, training=False)",
                "run = tf.function(lambda x: model(x, training=True)",
            ),
        ),
        "The frozen part normalises an image by others: its kept outputs are of several examples.",
        tests_in(
            "tests/convert/test_features.py",
            "test_an_image_does_not_change_the_features_of_another",
        ),
    ),
)
