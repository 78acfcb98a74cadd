"""Mutants of what demands that per-example independence is proved."""

from tests.mutants.mutant import Mutant, fault, tests_in

_VALIDATION = "tests/training/callbacks/private_validation"
_ROWS = "tfdpnorm/training/checks/independence.py"
_METRICS = "tfdpnorm/training/checks/metrics.py"
_INFERENCE = "tfdpnorm/training/checks/metrics.py"
_PHYSICAL = "tfdpnorm/training/physical_batches.py"
_PROOF = "tfdpnorm/independence/verification/claims.py"
_TRAINING = "tfdpnorm/independence/book_keeping.py"
_TESTS = ("tests/training/checks/test_proofs.py",)
_OWN = "tfdpnorm/independence/verification/rules/own_entries.py"
_REDUCTIONS = "tfdpnorm/independence/verification/rules/reductions.py"
_STATE = "tfdpnorm/independence/verification/rules/state.py"
_POSITIONS = ("tests/independence/verification/test_positions.py",)
_RULES = tests_in(
    "tests/independence/verification/test_rules.py",
    "test_the_verdict_is_the_expected_one_and_cannot_be_refuted",
)

MUTANTS = (
    fault(
        "unproved-models-are-trained",
        _ROWS,
        "    if proof is None or proof.holds:",
        "    if True:",
        "Training goes on where an example may change the gradients of others.",
        _TESTS,
    ),
    fault(
        "a-refusal-counts-as-an-update",
        "tfdpnorm/training/announced_updates.py",
        "        private.independence_checks.trace(train_function, iterator)\n",
        "",
        "The ledger counts an update that was refused: too much, and the budget shrinks.",
        _TESTS,
    ),
    fault(
        "meeting-rows-are-run-apart-in-silence",
        "tfdpnorm/training/make_private.py",
        "        warnings.warn(parts.engine.said, stacklevel=2)\n",
        "        pass\n",
        "Nobody is told that book-keeping cannot be used.",
        tests_in(
            "tests/training/checks/test_rehearsal.py",
            "test_without_book_keeping_rows_run_apart_and_that_is_said",
        ),
    ),
    fault(
        "another-trace-is-trained",
        _PHYSICAL,
        "(lambda *rows: function(rows, broadcast=broadcast)) if eagerly else computed",
        "lambda *rows: function(rows, broadcast=broadcast)",
        "Python may do something else in the trace that is trained than in that which is proved.",
        _TESTS,
    ),
    fault(
        "one-size-for-unproved-models",
        _PHYSICAL,
        "        if self._judge(proof, count):\n",
        "        if not self._judge(proof, 1):\n",
        "A first axis with as many entries as there are rows is taken for that of the examples.",
        _TESTS,
    ),
    fault(
        "state-is-not-looked-at",
        _PROOF,
        " and not self.state_faults",
        "",
        "Variables that keep what examples hold leave training without noise.",
        _TESTS,
    ),
    fault(
        "gradients-are-not-claimed",
        _TRAINING,
        'found.append(Asked(f"the gradient with respect to the output of {layer}", b, rows))',
        'found.append(Asked(f"the gradient with respect to the output of {layer}", z, rows))',
        "A custom gradient may let one example change the gradients of all.",
        ("tests/independence/verification/test_couplings.py",),
    ),
    fault(
        "positions-get-another-gradient",
        "tfdpnorm/gradients/rules/broadcast.py",
        "output_gradients=tf.reshape(row[0], shape)",
        "output_gradients=output",
        "A positions' table gets other gradients than the examples have.",
        _TESTS,
    ),
    fault(
        "the-graph-outside-is-free",
        "tfdpnorm/independence/outputs.py",
        "FREE if free or id(outside) in public else _captured(outside)",
        "FREE",
        "A function that reads the whole lot around it is called a function of its rows.",
        ("tests/independence/verification/test_proof.py",),
    ),
    fault(
        "copies-of-any-operation",
        "tfdpnorm/independence/broadcast.py",
        "            if not known or None in shapes",
        "            if None in shapes",
        "Each example gets a copy of what an operation mixes along the first axis.",
        ("tests/keras_examples/test_brought_models.py", *_POSITIONS, *_TESTS),
    ),
    fault(
        "copies-as-many-as-there-are-positions",
        "tfdpnorm/independence/broadcast.py",
        "            elif result[0] != rows:\n",
        "            elif False:\n",
        "Another first axis is taken for that of the examples.",
        ("tests/independence/verification/test_broadcast.py",),
    ),
    fault(
        "metrics-of-the-model",
        _METRICS,
        "isinstance(metric, keras.metrics.Metric) and id(metric) in inside",
        "False",
        "The exact number of right answers on private examples is among the released weights.",
        tests_in(
            "tests/training/checks/test_metrics.py",
            "test_a_metric_that_is_part_of_the_model_is_rejected",
        ),
    ),
    fault(
        "metrics-that-write-elsewhere",
        _METRICS,
        "            if id(handle) not in own:",
        "            if False:",
        "A metric carries private labels into a weight, or into the next loss.",
        tests_in(
            "tests/training/checks/test_metrics.py",
            "test_a_metric_that_writes_another_variable_is_rejected",
        ),
    ),
    fault(
        "losses-that-read-metrics",
        _METRICS,
        "for op in readers_before(handles, self._begin):",
        "for op in ():",
        "What a metric counted of private examples changes the next update, without noise.",
        tests_in(
            "tests/training/checks/test_metrics.py", "test_a_loss_that_reads_a_metric_is_rejected"
        ),
    ),
    fault(
        "metrics-by-released-names",
        _METRICS,
        'if name in FREE or name.startswith("val_"):',
        "if False:",
        "A callback acts on the exact accuracy of private examples, as if it were released.",
        tests_in(
            "tests/training/checks/test_metrics.py",
            "test_metrics_named_as_released_numbers_are_rejected",
        ),
    ),
    fault(
        "used-optimizers",
        "tfdpnorm/training/provenance.py",
        "if steps != expected:",
        "if False:",
        "Momentum of gradients without noise is released by the first private update.",
        ("tests/training/test_optimizer_of_run.py",),
    ),
    fault(
        "counts-in-files",
        "tfdpnorm/keras_compat/saving.py",
        "        variable.assign(tf.zeros_like(variable))\n",
        "        pass\n",
        "Files hold what the wrapped model's own metrics counted, and its optimizer's moments.",
        tests_in(
            "tests/training/checks/test_metrics.py",
            "test_files_hold_nothing_of_what_the_wrapped_model_counted",
        ),
    ),
    fault(
        "copies-of-trained-weights",
        "tfdpnorm/training/provenance.py",
        "        remember(self._trained()",
        "        str(self._trained()",
        "A clone of a privately trained model is trained again, and the first epsilon is unsaid.",
        tests_in("tests/training/test_provenance.py", "TestAtTheStart"),
    ),
    fault(
        "untrained-weights-remembered",
        "tfdpnorm/training/provenance.py",
        "remember(self._trained() - self._begun, ",
        "remember(self._trained(), ",
        "A new model of the same seed is said to have been trained by another run.",
        tests_in("tests/training/test_provenance.py", "TestAtTheStart"),
    ),
    fault(
        "first-weights-unseen",
        "tfdpnorm/training/provenance.py",
        '            self.begin()\n            self._record(caveat("first',
        '            self._record(caveat("first',
        "A model that was trained between make_private and fit passes for a new one.",
        tests_in("tests/training/test_provenance.py", "TestAtTheStart"),
    ),
    fault(
        "validation-rows-that-meet",
        "tfdpnorm/independence/outputs.py",
        "        if not proof.holds:\n",
        "        if False:\n",
        "One validation example moves the count by more than the noise covers.",
        tests_in(f"{_VALIDATION}/test_count.py", "TestRowsThatMeet"),
    ),
    fault(
        "measured-on-training-rows",
        "tfdpnorm/training/callbacks/private_validation.py",
        "        private.session.rows.add_validation(self)\n",
        "",
        "Training examples answer for nothing, since they are taken for validation examples.",
        tests_in(f"{_VALIDATION}/test_training_rows.py", "TestTrainingData"),
    ),
    fault(
        "updates-that-nobody-counted",
        "tfdpnorm/training/announced_updates.py",
        "        if made > counted:",
        "        if False:",
        "Updates by the traced function itself are not in epsilon.",
        tests_in("tests/training/test_what_leaves_a_step.py", "TestStepsByHand"),
    ),
    Mutant(
        "given-rows-within-fit",
        "tfdpnorm/training/announced_updates.py",
        (
            ("self._iterator is None and not self._are_given:", "self._iterator is None:"),
            ("        if self._are_given or self._iterator", "        if self._iterator"),
        ),
        "An update on rows that a callback gave counts as one on a sampled lot.",
        tests_in("tests/training/test_what_leaves_a_step.py", "TestStepsByHand"),
    ),
    fault(
        "arguments-split-by-size",
        "tfdpnorm/gradients/rules/fallback.py",
        "        of_examples = computed_from_arguments(flat)",
        "        of_examples = in_rows",
        "A mask of as many words as the batch has rows is split over them.",
        ("tests/gradients/rules/test_fallback_rule.py",),
    ),
    fault(
        "eager-functions-are-graphs",
        _ROWS,
        "        if not is_graph or tf.config.functions_run_eagerly():",
        "        if not is_graph:",
        "Python runs the model anew in each step, under a proof of its graph.",
        tests_in(
            "tests/training/checks/test_proofs.py",
            "test_functions_that_are_switched_to_eager_are_no_graphs",
        ),
    ),
    fault(
        "numbers-that-examples-decide-to-draw",
        _STATE,
        "        _check_count(node)\n",
        "        pass\n",
        "How many numbers one example draws moves all that later ones get, without noise.",
        _POSITIONS,
    ),
    Mutant(
        "numbers-drawn-within-a-row",
        _STATE,
        (
            ("if verdict != FREE and not known:", "if isinstance(verdict, Rows) and not known:"),
            ("verdicts import FREE\n", "verdicts import FREE, Rows\n"),
        ),
        "As before, where nothing is known of what a loop holds.",
        _POSITIONS,
    ),
    fault(
        "the-example-before",
        _OWN,
        "np.array_equal(found, owners(rows, examples)) else None",
        "True else None",
        "Rows are chosen by position, so that each example gets another one.",
        _RULES,
    ),
    fault(
        "flat-places-of-others",
        _OWN,
        "return verdict if _belong(found, verdict, node.examples) else None",
        "return verdict",
        "An index along all entries names those of another example.",
        _RULES,
    ),
    fault(
        "flat-places-without-a-bound",
        _OWN,
        "if inside and (low // m == high // m).all() else None",
        "if inside else None",
        "An index may name an entry of the next example, as the data have it.",
        _RULES,
    ),
    fault(
        "entries-put-at-another-example",
        _OWN,
        "found is not None and _belong(found, own, node.examples)",
        "found is not None",
        "Examples are put into the parts of others, and added to them.",
        _RULES,
    ),
    fault(
        "eager-steps-are-verified",
        _ROWS,
        "            self._void(_EAGER)\n",
        "",
        "A learning rate that reads the accuracy on training examples has a guarantee.",
        tests_in("tests/training/checks/test_proofs.py", "test_eager_steps_have_no_guarantee"),
    ),
    fault(
        "switched-off-checks-are-passed",
        _ROWS,
        "            self._void(_SWITCHED_OFF)\n",
        "            pass\n",
        "An epsilon is printed although nothing was checked.",
        tests_in("tests/training/checks/test_rows.py", "TestTheOneJudge"),
    ),
    fault(
        "examples-that-meet-are-run-apart",
        "tfdpnorm/training/engine_choice.py",
        " or is_of_coupling(refused):",
        ":",
        "A model that takes means over the batch trains as another model.",
        tests_in(
            "tests/training/checks/test_rehearsal.py",
            "test_examples_that_meet_are_rejected_and_not_run_apart",
        ),
    ),
    fault(
        "engines-of-others-are-verified",
        _ROWS,
        "            self._void(_FOREIGN.format(engine=engine.name))\n",
        "            pass\n",
        "Sums that nobody looked into have a guarantee.",
        tests_in("tests/training/checks/test_rows.py", "TestTheOneJudge"),
    ),
    fault(
        "inference-may-write",
        _INFERENCE,
        "    operations = [] if eagerly else",
        "    operations = [] and",
        "A validation row is kept in a variable that training releases.",
        tests_in(
            "tests/training/checks/test_inference.py", "test_a_layer_that_keeps_a_row_is_rejected"
        ),
    ),
    fault(
        "eager-calls-may-write",
        _INFERENCE,
        "for v in weights(model)] if eagerly else []",
        "for v in weights(model)][:0]",
        "A call by hand keeps a row in a variable that training releases.",
        tests_in("tests/training/checks/test_inference.py", "test_eager_calls_are_put_back"),
    ),
    fault(
        "what-eager-calls-wrote-stays",
        _INFERENCE,
        "                variable.assign(value)\n",
        "",
        "The row stays in the variable after the error.",
        tests_in("tests/training/checks/test_inference.py", "test_eager_calls_are_put_back"),
    ),
    fault(
        "what-failed-calls-wrote-stays",
        _INFERENCE,
        "    finally:  # Also after an error: what was written until then would stay.\n",
        "    finally:\n        pass\n    if True:\n",
        "A call by hand that fails keeps a row in a variable that training releases.",
        tests_in(
            "tests/training/checks/test_inference.py",
            "test_eager_calls_that_fail_after_a_write_are_put_back",
        ),
    ),
    fault(
        "metrics-of-inference-may-write",
        "tfdpnorm/training/private_model.py",
        "        with changes_no_variable(self.model, lambda: self.metrics):\n",
        "        if True:\n",
        "A metric writes down a validation row where training reads it.",
        tests_in(
            "tests/training/checks/test_inference.py",
            "test_a_loss_or_a_metric_that_writes_elsewhere_is_rejected",
        ),
    ),
    fault(
        "sums-of-examples-are-reshapes",
        _REDUCTIONS,
        "        if set(sizes) == {1} and None not in (*before, *after):",
        "        if 1 in sizes and None not in (*before, *after):",
        "Sums over the examples, for each step, are taken for rows of the examples.",
        _RULES,
    ),
)
