"""Faults in what takes the place of an imported model's batch normalisation."""

from tests.mutants.mutant import Mutant, tests_in

_TESTS = "tests/convert/test_convert.py"
_FINETUNE = "tests/trainers/ours/test_finetune.py"

MUTANTS = (
    Mutant(
        "frozen-normalisation-thaws",
        "tfdpnorm/layers/batch_normalization.py",
        (("super().call(inputs, training=False)", "super().call(inputs, training=training)"),),
        "Statistics of the lot normalise each example, in a layer that is let pass unseen.",
        tests_in(_TESTS, "test_the_clipped_sum_of_a_converted_model_is_that_of_single_examples")
        + tests_in(_TESTS, "test_make_private_converts"),
    ),
    Mutant(
        "subclasses-of-frozen-normalisation-pass",
        "tfdpnorm/independence/known_layers.py",
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
        "trainers/runs/finetune.py",
        (("    check_public_batch(rows, private_x)\n", ""),),
        "Features are centred by the mean of private ones, and int8 has their ranges.",
        tests_in(_FINETUNE, "test_neither_constants_nor_ranges_come_from_private_images"),
    ),
    Mutant(
        "private-set-centres-features",
        "trainers/spec.py",
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
        "earlier-runs-lost-through-frozen-weights",
        "tfdpnorm/privacy/marks.py",
        (('        _add(_said, part["weights"], part["said"])\n', "        pass\n"),),
        "A run that froze what another has trained hides that one from the runs after it.",
        tests_in(
            "tests/training/test_marks.py", "test_a_run_is_named_through_one_that_left_its_weights"
        ),
    ),
    Mutant(
        "marks-of-a-part-of-the-model",
        "tfdpnorm/convert/exported.py",
        (("mark = trained_by.mark(model)", "mark = trained_by.mark()"),),
        "The mark of an exported model says nothing of a trunk that was outside of the run.",
        tests_in("tests/training/test_marks.py", "test_a_mark_is_of_the_whole_model_in_its_file"),
    ),
    Mutant(
        "what-a-run-began-with-forgotten-in-its-process",
        "tfdpnorm/training/weights_of_run.py",
        (("(*self._ledger.foreign, *self.unrecorded, _PRIVATELY)", "(_PRIVATELY,)"),),
        "A third run in the process of the second says nothing of the first.",
        tests_in(
            "tests/training/test_marks.py",
            "test_what_a_run_of_this_process_began_with_is_not_forgotten",
        ),
    ),
    Mutant(
        "all-runs-are-one",
        "tfdpnorm/privacy/marks.py",
        (("run[1] if run else sentence", '"" if run else sentence'),),
        "Of several earlier runs the statement names the first alone.",
        tests_in(
            "tests/training/test_marks.py",
            "test_a_run_is_named_once_however_many_files_it_is_of",
        ),
    ),
    Mutant(
        "frozen-private-weights-forgotten",
        "trainers/runs/build.py",
        (("for sentence in data.foreign:", "for sentence in ():"),),
        "Features of a trunk that a private run trained are taken for features of public weights.",
        tests_in(
            "tests/trainers/ours/test_finetune.py",
            "test_what_was_trained_before_and_is_frozen_now_is_named",
        ),
    ),
)
