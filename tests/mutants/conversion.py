"""Faults in what takes the place of an imported model's batch normalisation."""

from tests.mutants.mutant import fault, tests_in

_TESTS = "tests/convert/test_convert.py"
_FINETUNE = "tests/trainers/ours/test_finetune.py"

MUTANTS = (
    fault(
        "frozen-normalisation-thaws",
        "tfdpnorm/layers/batch_normalization.py",
        "super().call(inputs, training=False)",
        "super().call(inputs, training=training)",
        "Statistics of the lot normalise each example, in a layer that is let pass unseen.",
        tests_in(_TESTS, "test_the_sum_of_a_converted_model_equals_the_loop")
        + tests_in(_TESTS, "test_make_private_converts"),
    ),
    fault(
        "subclasses-of-frozen-normalisation-pass",
        "tfdpnorm/independence/known_layers.py",
        "and type(x) is not FrozenBatchNormalization",
        "and not isinstance(x, FrozenBatchNormalization)",
        "A subclass whose call takes statistics of the lot is not refused by name.",
        tests_in(_TESTS, "test_a_subclass_of_the_frozen_layer_is_rejected"),
    ),
    fault(
        "wrapped-normalisation-stays",
        "tfdpnorm/convert/exchanges.py",
        "if not inside:",
        "if True:",
        "Batch normalisation inside of layers is left, and named nowhere.",
        tests_in(_TESTS, "test_normalisation_inside_of_layers_is_frozen_and_reported"),
    ),
    fault(
        "features-divided-by-zero-stay",
        "tfdpnorm/convert/features.py",
        "        if wrong.any():\n",
        "        if wrong.all():\n",
        "Images with a patch of one colour have features that are no numbers.",
        tests_in("tests/convert/test_features.py", "test_images_of_one_colour_have_features"),
    ),
    fault(
        "features-mix-images",
        "tfdpnorm/convert/features.py",
        "run = tf.function(lambda x: model(x, training=False)",
        "run = tf.function(lambda x: model(x, training=True)",
        "The frozen part normalises an image by others: its kept outputs are of several examples.",
        tests_in(
            "tests/convert/test_features.py",
            "test_an_image_does_not_change_the_features_of_another",
        ),
    ),
    fault(
        "constants-of-private-images",
        "trainers/runs/finetune.py",
        "    check_public_batch(rows, private_x)\n",
        "",
        "Features are centred by the mean of private ones, and int8 has their ranges.",
        tests_in(_FINETUNE, "test_neither_constants_nor_ranges_come_from_private_images"),
    ),
    fault(
        "private-set-centres-features",
        "trainers/specs/checks.py",
        'if spec.needs_public_rows or spec.finetuning.feature_scaling == "public":',
        "if spec.needs_public_rows:",
        "Features may be centred by the private set.",
        tests_in(_FINETUNE, "test_the_private_set_is_not_public"),
    ),
    fault(
        "known-weights-forgotten",
        "tfdpnorm/training/provenance.py",
        "origins = origins_of([v.numpy() for v in weights(model)] if model.built else ())",
        "origins = ()",
        "A run that trains further what a private run trained states its own epsilon alone.",
        tests_in("tests/training/test_privacy_metadata.py", "test_a_second_run_names_the_first"),
    ),
    fault(
        "trained-weights-not-listed",
        "tfdpnorm/training/provenance.py",
        "if x.trainable]",
        "if not x.trainable]",
        "The metadata of a file list the frozen weights, and not those that were trained.",
        tests_in(
            "tests/training/test_privacy_metadata.py", "test_frozen_layers_have_no_private_origin"
        ),
    ),
    fault(
        "earlier-runs-lost-through-frozen-weights",
        "tfdpnorm/privacy/metadata.py",
        "{**known, **dict.fromkeys(trained, own)}",
        "dict.fromkeys(trained, own)",
        "A run that froze what another has trained hides that one from the runs after it.",
        tests_in(
            "tests/training/test_privacy_metadata.py",
            "test_a_run_is_named_through_one_that_left_its_weights",
        ),
    ),
    fault(
        "interventions-counted-once",
        "tfdpnorm/training/provenance.py",
        'before[-1]["interventions"] + 1',
        "1",
        "However often weights were put in, the statement says that it was once.",
        tests_in(
            "tests/training/test_provenance.py", "test_interventions_are_counted_in_one_sentence"
        ),
    ),
    fault(
        "metadata-of-a-part-of-the-model",
        "tfdpnorm/convert/exported.py",
        "trained_by.privacy_metadata(model)",
        "trained_by.privacy_metadata()",
        "The metadata of an exported model say nothing of a trunk that was outside of the run.",
        tests_in(
            "tests/training/test_privacy_metadata.py",
            "test_metadata_are_of_the_whole_model_in_its_file",
        ),
    ),
    fault(
        "what-a-run-began-with-forgotten-in-its-process",
        "tfdpnorm/privacy/metadata.py",
        "    return (*known, PrivateRun(ledger))\n",
        "    return (PrivateRun(ledger),)\n",
        "A third run in the process of the second says nothing of the first.",
        tests_in(
            "tests/training/test_privacy_metadata.py",
            "test_origins_of_runs_in_this_process_are_kept",
        ),
    ),
    fault(
        "all-runs-are-one",
        "tfdpnorm/privacy/metadata.py",
        'each.fields.get("run", each.sentence)',
        "each.kind",
        "Of several earlier runs the statement names the first alone.",
        tests_in(
            "tests/training/test_privacy_metadata.py",
            "test_a_run_is_named_once_however_many_files_it_is_of",
        ),
    ),
    fault(
        "frozen-private-weights-forgotten",
        "trainers/runs/build.py",
        "for known in data.foreign:",
        "for known in ():",
        "Features of a trunk that a private run trained are taken for features of public weights.",
        tests_in(
            "tests/trainers/ours/test_finetune.py",
            "test_frozen_layers_of_earlier_private_runs_are_named",
        ),
    ),
    fault(
        "conversion-hides-what-adapt-saw",
        "tfdpnorm/convert/convert.py",
        "check_no_adapted_layers(original, normalization_is_public=normalization_is_public)",
        "pass",
        "The mean of private data is saved with the model, as a constant.",
        tests_in(
            "tests/convert/test_adapted_layers.py",
            "test_layers_that_adapt_fitted_are_rejected_with_convert_as_without",
        ),
    ),
    fault(
        "features-of-models-of-private-data",
        "tfdpnorm/convert/features.py",
        "for known in origins_of(model.get_weights()):",
        "for known in ():",
        "Features tell of the data that their model was trained on, and nobody is warned.",
        tests_in("tests/convert/test_features.py", "test_a_model_of_private_data_is_warned_of"),
    ),
    fault(
        "features-of-images-that-meet",
        "tfdpnorm/convert/features.py",
        "together = together if _agree(together(everywhere[0]), everywhere[1]) else None",
        "together(everywhere[0])",
        "An image changes the features of others, which clipping does not see.",
        tests_in(
            "tests/convert/test_features.py", "test_where_images_meet_they_are_run_one_by_one"
        ),
    ),
)
