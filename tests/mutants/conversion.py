"""Faults in what takes the place of an imported model's batch normalisation."""

from tests.mutants.mutant import Mutant, tests_in

_TESTS = "tests/convert/test_convert.py"
_FINETUNE = "tests/experiments/finetune/test_finetune.py"

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
    Mutant(
        "constants-of-private-images",
        "tfdpnorm/experiments/runs/finetune.py",
        (("    check_public_batch(rows, private_x)\n", ""),),
        "Features are centred by the mean of private ones, and int8 has their ranges.",
        tests_in(_FINETUNE, "test_neither_constants_nor_ranges_come_from_private_images"),
    ),
    Mutant(
        "private-set-centres-features",
        "tfdpnorm/experiments/spec.py",
        (
            (
                'if self.feature_scaling != "public":\n            return\n'
                '        check_not_private("public_dataset", self.public_dataset, self.dataset)\n',
                'if self.feature_scaling != "public":\n            return\n',
            ),
        ),
        "Features may be centred by the private set.",
        tests_in(_FINETUNE, "test_the_private_set_is_not_public"),
    ),
    Mutant(
        "marked-weights-forgotten",
        "tfdpnorm/training/weights_of_run.py",
        (
            (
                "said = said_of([v.numpy() for v in weights])",
                "said = ()",
            ),
        ),
        "A run that trains further what a private run trained states its own epsilon alone.",
        tests_in("tests/training/test_marks.py", "test_a_second_run_names_the_first"),
    ),
    Mutant(
        "trained-weights-not-marked",
        "tfdpnorm/training/weights_of_run.py",
        (("if x.trainable]", "if not x.trainable]"),),
        "The mark of a file lists the weights that were frozen, and not those that were trained.",
        tests_in("tests/training/test_marks.py", "test_what_was_frozen_was_not_trained"),
    ),
    Mutant(
        "frozen-private-weights-forgotten",
        "tfdpnorm/experiments/runs/build.py",
        (("for sentence in data.foreign:", "for sentence in ():"),),
        "Features of a trunk that a private run trained are taken for features of public weights.",
        tests_in(
            "tests/experiments/finetune/test_finetune.py",
            "test_what_was_trained_before_and_is_frozen_now_is_named",
        ),
    ),
)
