"""Faults in answers about validation examples, and in what callbacks may act on."""

from tests.mutants.mutant import fault, tests_in

_VALIDATION = "tests/training/callbacks/private_validation"
_DATA = "tests/training/callbacks/test_validation_data.py"
_ROWS = "tfdpnorm/training/validation_data.py"
_STATE = "tfdpnorm/privacy/state.py"

MUTANTS = (
    fault(
        "errors-show-private-values",
        "tfdpnorm/training/errors.py",
        "        raise type(error)(None, None, message) from None",
        "        raise",
        "Tracebacks show the labels of private examples.",
        tests_in("tests/training/checks/test_traps.py", "test_tracebacks_hold_no_private_value"),
    ),
    fault(
        "random-sequences-are-sampled",
        "tfdpnorm/training/checks/data.py",
        "    if not _same(first, again) or not",
        "    if not",
        "Rows that a Sequence draws or mixes anew are taken for the examples.",
        tests_in(
            "tests/training/test_keras_inputs.py",
            "test_a_sequence_that_changes_voids_the_guarantee",
        ),
    ),
    fault(
        "unproved-batch-normalisation-is-let-pass",
        "tfdpnorm/independence/known_layers.py",
        "always_in_inference(model, normalizing) if will_be_proved else []",
        "normalizing",
        "Averages over examples are released without noise, where nothing is proved.",
        tests_in(
            "tests/training/checks/test_batch_normalization_in_inference.py",
            "test_is_rejected_where_nothing_is_verified",
        ),
    ),
    fault(
        "queries-counted-once",
        _STATE,
        "counted = (asked + 1, ",
        "counted = (1, ",
        "All but one of the answers about validation examples are free.",
        ("tests/privacy/test_ledger_queries.py",),
    ),
    fault(
        "queries-of-one-kind",
        _STATE,
        "if disjoint in (kind, None)\n        ]",
        "if kind and disjoint is not False\n        ]",
        "Answers about training examples are not counted.",
        ("tests/privacy/test_ledger_queries.py",),
    ),
    fault(
        "query-not-recorded",
        "tfdpnorm/training/callbacks/private_validation.py",
        "            return count\n",
        "            return count\n"
        "        if ledger.state.queries():\n"
        "            return count + _whole_noise(self.noise_multiplier)\n",
        "All answers but the first are given without an entry in the ledger.",
        tests_in(f"{_VALIDATION}/test_queries_in_ledger.py", "TestLedger"),
    ),
    fault(
        "query-without-noise",
        "tfdpnorm/training/callbacks/private_validation.py",
        "answer = count + _whole_noise(self.noise_multiplier)",
        "answer = count",
        "Accuracy on private validation examples is released as it is.",
        tests_in(f"{_VALIDATION}/test_noise.py", "TestNoise"),
    ),
    fault(
        "validation-rows-unchecked",
        _ROWS,
        "        shared += [row for digest",
        "        shared += [][count:] and [row for digest",
        "Training examples are asked about, and only the validation examples pay.",
        tests_in(f"{_VALIDATION}/test_training_rows.py", "TestTrainingData"),
    ),
    fault(
        "validation-data-unchecked",
        _ROWS,
        "            for ours, steps in looked_at:\n",
        "            for ours, steps in ():\n",
        "A checkpoint is chosen by the loss on training examples.",
        tests_in(_DATA, "test_training_rows_in_any_form_are_rejected"),
    ),
    fault(
        "validation-data-of-earlier-fits-unchecked",
        _ROWS,
        "looked_at = [(ours, validation_steps), *before]",
        "looked_at = [(ours, None)]",
        "Rows that a fit trains on have chosen the weights that it begins with.",
        tests_in(_DATA, "test_rows_of_earlier_and_later_fits_are_compared"),
    ),
    fault(
        "first-batch-of-validation-alone",
        _ROWS,
        "        count += len(ours[0])\n",
        "        count += len(ours[0])\n        break\n",
        "Training rows hide behind the first batch of a data set.",
        tests_in(_DATA, "test_a_part_of_the_training_rows_is_enough"),
    ),
    fault(
        "evaluations-of-callbacks-unchecked",
        "tfdpnorm/training/private_model.py",
        "            if self.session.batches.is_training:\n                self.session.rows",
        "            if False:\n                self.session.rows",
        "A callback acts on the loss of training examples.",
        tests_in(_DATA, "test_data_that_callbacks_evaluate_are_checked"),
    ),
    fault(
        "endless-validation-is-read",
        _ROWS,
        " or (end < 0 and steps is not None):",
        ":",
        "Rows that differ in each pass are compared in one of them.",
        tests_in(_DATA, "test_rows_that_cannot_be_read_are_rejected"),
    ),
    fault(
        "answers-recorded-with-more-noise",
        "tfdpnorm/training/callbacks/private_validation.py",
        "noise_multiplier=self.noise_multiplier,\n                examples",
        "noise_multiplier=2 * self.noise_multiplier,\n                examples",
        "The answers cost more than the ledger says.",
        tests_in(f"{_VALIDATION}/test_queries_in_ledger.py", "TestLedger"),
    ),
    fault(
        "answers-that-stopped-asking",
        "tfdpnorm/privacy/facts.py",
        '"stopped_asking": not held and',
        '"stopped_asking": False and',
        "Answers that decided when to stop are said to cost what the answers so far cost.",
        ("tests/privacy/test_statements.py",),
    ),
    fault(
        "answers-calibrated-for-fewer",
        "tfdpnorm/training/callbacks/private_validation.py",
        "calibrate_noise_multiplier(budget, 1.0, queries)",
        "calibrate_noise_multiplier(budget, 1.0, max(1, queries - 1))",
        "The answers cost more than their budget.",
        tests_in(f"{_VALIDATION}/test_queries_in_ledger.py", "TestLedger"),
    ),
    fault(
        "judgement-unchecked",
        "tfdpnorm/training/callbacks/private_validation.py",
        "if right.dtype != bool or right.shape != (rows,):",
        "if right.shape != (rows,):",
        "A judgement that counts an example ten times is accepted.",
        tests_in(f"{_VALIDATION}/test_rejections.py", "TestRefusals"),
    ),
    fault(
        "public-rows-as-validation-rows",
        _ROWS,
        "    if public_batch is not None:\n        if not",
        "    if False:\n        if not",
        "Public rows are asked about as private validation examples.",
        tests_in(f"{_VALIDATION}/test_training_rows.py", "TestTrainingData"),
    ),
    fault(
        "callback-on-private-metric",
        "tfdpnorm/training/checks/callbacks.py",
        'if not monitor.startswith("val_"):',
        'if monitor == "loss":',
        "A callback stops training by the accuracy on private examples.",
        ("tests/training/checks/test_callbacks.py",),
    ),
    fault(
        "early-stop-not-held",
        "tfdpnorm/training/checks/callbacks.py",
        'monitor != "epsilon" and not isinstance(callback, _NEVER_STOP)',
        'monitor != "epsilon" and isinstance(callback, _NEVER_STOP)',
        "A run that stopped by its results states the epsilon of its updates alone.",
        ("tests/training/checks/test_callbacks.py",),
    ),
)
