"""Mutants of what demands that per-example independence is proved."""

from tests.mutants.mutant import Mutant, tests_in

_VALIDATION = "tests/training/callbacks/private_validation"
_ROWS = "tfdpnorm/training/checks/rows.py"
_METRICS = "tfdpnorm/training/checks/metrics.py"
_PHYSICAL = "tfdpnorm/training/step/physical.py"
_PROOF = "tfdpnorm/audit/row_independence/proof/proof.py"
_TRAINING = "tfdpnorm/audit/row_independence/proof/training.py"
_TESTS = ("tests/training/checks/test_proofs.py",)
_COUNTERS = "test_what_counts_the_physical_batches_is_refused_by_all"

MUTANTS = (
    Mutant(
        "unproved-models-are-trained",
        _ROWS,
        (
            (
                "            if self._validate is True or proof.written:",
                "            if proof.written:",
            ),
        ),
        "Training goes on where an example may change the gradients of others.",
        _TESTS,
    ),
    Mutant(
        "counters-of-physical-batches",
        "tfdpnorm/audit/row_independence/proof/rules/state.py",
        (("        node.walk.draws.write(node.mixed(_CHANGES))\n", "        pass\n"),),
        "A variable that is released tells how many physical batches the lots had.",
        tests_in("tests/training/checks/test_rehearsal.py", _COUNTERS),
    ),
    Mutant(
        "counters-where-rows-run-apart",
        "tfdpnorm/audit/row_independence/proof/proof.py",
        ((").proof([]), batch_wide=())", ").proof([]), batch_wide=(), written=())"),),
        "Without one example, others read another count.",
        tests_in("tests/training/checks/test_rehearsal.py", _COUNTERS),
    ),
    Mutant(
        "counters-if-only-probed",
        _ROWS,
        (("is True or proof.written:", "is True:"),),
        "As the first of these, with validate='probe'.",
        tests_in(
            "tests/training/checks/test_rehearsal.py", "test_what_counts_is_refused_by_fit_too"
        ),
    ),
    Mutant(
        "unproved-and-unsaid",
        _ROWS,
        (
            (
                "            ledger.exclude(_PROBED.format(obstacle=proof.obstacle))",
                "            pass",
            ),
        ),
        "The statement does not say that the proof stopped.",
        _TESTS,
    ),
    Mutant(
        "all-models-are-called-proved",
        _ROWS,
        (("        elif not proof.holds:\n", "        elif False:\n"),),
        "The statement says of any model that it is proved.",
        _TESTS,
    ),
    Mutant(
        "a-refusal-counts-as-an-update",
        "tfdpnorm/training/step/ledger_entries.py",
        (("        private.row_checks.trace(train_function, iterator)\n", ""),),
        "The ledger counts an update that was refused: too much, and the budget shrinks.",
        _TESTS,
    ),
    Mutant(
        "a-refusal-counts-as-an-eager-update",
        _ROWS,
        (("            self._rehearse(train_function, iterator)\n", ""),),
        "The ledger counts an update of an eager step that was refused.",
        tests_in(
            "tests/training/checks/test_rehearsal.py",
            "test_a_model_of_unknown_shapes_is_refused_by_fit_before_the_ledger",
        ),
    ),
    Mutant(
        "meeting-rows-are-run-apart-in-silence",
        "tfdpnorm/training/make_private.py",
        (("        warnings.warn(checked.engine.said, stacklevel=2)\n", "        pass\n"),),
        "Nobody is told that book-keeping cannot be used.",
        tests_in(
            "tests/training/checks/test_rehearsal.py",
            "test_where_book_keeping_cannot_be_rows_run_apart_and_that_is_said",
        ),
    ),
    Mutant(
        "another-trace-is-trained",
        _PHYSICAL,
        (
            (
                "(lambda *rows: function(rows, broadcast=broadcast)) if eagerly else computed",
                "lambda *rows: function(rows, broadcast=broadcast)",
            ),
        ),
        "Python may do something else in the trace that is trained than in that which is proved.",
        _TESTS,
    ),
    Mutant(
        "one-size-for-unproved-models",
        _PHYSICAL,
        (
            (
                "        if self._conclude(proof, count):\n",
                "        if not self._conclude(proof, 1):\n",
            ),
        ),
        "A first axis with as many entries as there are rows is taken for that of the examples.",
        _TESTS,
    ),
    Mutant(
        "state-is-not-looked-at",
        "tfdpnorm/audit/row_independence/proof/proof.py",
        (("return (*self.state_faults, *self.written,", "return (*self.written,"),),
        "Variables that keep what examples hold leave training without noise.",
        _TESTS,
    ),
    Mutant(
        "gradients-are-not-claimed",
        _TRAINING,
        (
            (
                'found.append(Traced(f"the gradient by what {layer} gives", b, rows, row_by_row',
                'found.append(Traced(f"the gradient by what {layer} gives", z, rows, row_by_row',
            ),
        ),
        "A custom gradient may let one example change the gradients of all.",
        ("tests/audit/row_independence/proof/test_couplings.py",),
    ),
    Mutant(
        "positions-get-another-gradient",
        "tfdpnorm/gradients/rules/broadcast_output.py",
        (("output_gradients=tf.reshape(row[0], shape)", "output_gradients=output"),),
        "A positions' table gets other gradients than the examples have.",
        _TESTS,
    ),
    Mutant(
        "the-graph-outside-is-free",
        "tfdpnorm/audit/row_independence/proof/proof.py",
        (
            (
                "FREE if free or id(outside) in public else _captured(outside)",
                "FREE",
            ),
        ),
        "A function that reads the whole lot around it is called a function of its rows.",
        ("tests/audit/row_independence/proof/test_proof.py",),
    ),
    Mutant(
        "copies-of-any-operation",
        "tfdpnorm/audit/row_independence/proof/broadcast.py",
        (("            if not known or None in shapes", "            if None in shapes"),),
        "Each example gets a copy of what an operation mixes along the first axis.",
        _TESTS,
    ),
    Mutant(
        "copies-as-many-as-there-are-positions",
        "tfdpnorm/audit/row_independence/proof/broadcast.py",
        (("            elif result[0] != rows:\n", "            elif False:\n"),),
        "Another first axis is taken for that of the examples.",
        ("tests/audit/row_independence/proof/test_broadcast.py",),
    ),
    Mutant(
        "metrics-of-the-model",
        _METRICS,
        (("isinstance(metric, keras.metrics.Metric) and id(metric) in inside", "False"),),
        "The exact number of right answers on private examples is among the released weights.",
        tests_in(
            "tests/training/checks/test_metrics.py",
            "test_a_metric_that_is_part_of_the_model_is_refused",
        ),
    ),
    Mutant(
        "metrics-that-write-elsewhere",
        _METRICS,
        (("            if id(handle) not in own:", "            if False:"),),
        "A metric carries private labels into a weight, or into the next loss.",
        tests_in(
            "tests/training/checks/test_metrics.py",
            "test_a_metric_that_writes_another_variable_is_refused",
        ),
    ),
    Mutant(
        "losses-that-read-metrics",
        _METRICS,
        (("for op in readers_before(handles, self._begin):", "for op in ():"),),
        "What a metric counted of private examples changes the next update, without noise.",
        tests_in(
            "tests/training/checks/test_metrics.py", "test_a_loss_that_reads_a_metric_is_refused"
        ),
    ),
    Mutant(
        "metrics-by-released-names",
        _METRICS,
        (('if name in FREE or name.startswith("val_"):', "if False:"),),
        "A callback acts on the exact accuracy of private examples, as if it were released.",
        tests_in(
            "tests/training/checks/test_metrics.py",
            "test_names_that_callbacks_take_for_released_numbers_are_refused",
        ),
    ),
    Mutant(
        "used-optimizers",
        "tfdpnorm/training/optimizer_of_run.py",
        (("if steps != (left if optimizer is known else 0):", "if False:"),),
        "Momentum of gradients without noise is released by the first private update.",
        ("tests/training/test_optimizer_of_run.py",),
    ),
    Mutant(
        "counts-in-files",
        "tfdpnorm/keras_compat/compiled_state.py",
        (("        variable.assign(tf.zeros_like(variable))\n", "        pass\n"),),
        "Files hold what the wrapped model's own metrics counted, and its optimizer's moments.",
        tests_in(
            "tests/training/checks/test_metrics.py",
            "test_files_hold_nothing_of_what_the_wrapped_model_counted",
        ),
    ),
    Mutant(
        "copies-of-trained-weights",
        "tfdpnorm/training/weights_of_run.py",
        (("            remember(changed, (", "            print(changed, ("),),
        "A clone of a privately trained model is trained again, and the first epsilon is unsaid.",
        tests_in("tests/training/test_weights_of_run.py", "TestAtTheStart"),
    ),
    Mutant(
        "untrained-weights-remembered",
        "tfdpnorm/training/weights_of_run.py",
        ((" - self._begun", ""),),
        "A new model of the same seed is said to have been trained by another run.",
        tests_in("tests/training/test_weights_of_run.py", "TestAtTheStart"),
    ),
    Mutant(
        "first-weights-unseen",
        "tfdpnorm/training/weights_of_run.py",
        (
            (
                "            self.declare_earlier_training()\n            self._exclude",
                "            self._exclude",
            ),
        ),
        "A model that was trained between make_private and fit passes for a new one.",
        tests_in("tests/training/test_weights_of_run.py", "TestAtTheStart"),
    ),
    Mutant(
        "seeds-of-settings",
        "tfdpnorm/training/step/layer_draws.py",
        (("            seeds_from(self._new_seeds()),\n", ""),),
        "Random augmentation follows from a global seed, which is a setting, and so public.",
        tests_in(
            "tests/training/step/test_layer_draws.py",
            "test_nobody_can_compute_what_is_drawn_by_tensorflows_counters",
        ),
    ),
    Mutant(
        "seeds-of-31-bits",
        "tfdpnorm/training/step/layer_draws.py",
        ((">> np.uint64(2))", ">> np.uint64(33))"),),
        "The seed of Dropout's numbers can be tried out.",
        tests_in("tests/training/step/test_secret_draws.py", "test_seeds_of_operations_are_long"),
    ),
    Mutant(
        "generators-of-users",
        "tfdpnorm/training/step/layer_draws.py",
        (("            generators_from(stand_in),\n", ""),),
        "A generator draws by its own seed, or tells the key of the run to all who save weights.",
        ("tests/training/step/test_secret_draws.py",),
    ),
    Mutant(
        "seeds-of-eager-steps",
        "tfdpnorm/training/step/layer_draws.py",
        (
            (
                "seeds_from(self._new_seeds()),",
                "contextlib.nullcontext() if eagerly else seeds_from(self._new_seeds()),",
            ),
        ),
        "An eager step draws by a seed of the user's.",
        ("tests/training/step/test_secret_draws.py",),
    ),
    Mutant(
        "seeds-that-xla-ignores",
        "tfdpnorm/training/checks/secret_draws.py",
        (("if by_xla or within_xla:", "if False:"),),
        "With jit_compile, Dropout draws the same in every process.",
        ("tests/training/step/test_secret_draws.py",),
    ),
    Mutant(
        "seeds-of-before",
        "tfdpnorm/training/step/layer_draws.py",
        (("        if not eagerly:\n            states", "        if False:\n            states"),),
        "A function that was traced before draws by the seeds that it had then.",
        ("tests/training/step/test_secret_draws.py",),
    ),
    Mutant(
        "seeds-in-the-log",
        "tfdpnorm/training/private_model.py",
        (("        self.train_tf_function = None\n", ""),),
        "TensorBoard writes down the graph, with the secret seeds of random operations.",
        tests_in(
            "tests/training/test_what_leaves_a_step.py",
            "TestMetrics::test_no_log_of_tensorboard_has_the_graph",
        ),
    ),
    Mutant(
        "validation-rows-that-meet",
        "tfdpnorm/audit/row_independence/predicting.py",
        (("        if not proof.holds:\n", "        if False:\n"),),
        "One validation example moves the count by more than the noise covers.",
        tests_in(f"{_VALIDATION}/test_count.py", "TestRowsThatMeet"),
    ),
    Mutant(
        "measured-on-training-rows",
        "tfdpnorm/training/callbacks/private_validation.py",
        (("        private.check_measured(self)\n", ""),),
        "Training examples answer for nothing, since they are taken for validation examples.",
        tests_in(f"{_VALIDATION}/test_training_rows.py", "TestTrainingData"),
    ),
    Mutant(
        "updates-that-nobody-counted",
        "tfdpnorm/training/lots_in_use.py",
        (("        if made > counted:", "        if False:"),),
        "Updates by the traced function itself are not in epsilon.",
        tests_in("tests/training/test_what_leaves_a_step.py", "TestStepsByHand"),
    ),
    Mutant(
        "given-rows-within-fit",
        "tfdpnorm/training/lots_in_use.py",
        (
            ("self._iterator is None and not self._are_given:", "self._iterator is None:"),
            ("        if self._are_given or self._iterator", "        if self._iterator"),
        ),
        "An update on rows that a callback gave counts as one on a sampled lot.",
        tests_in("tests/training/test_what_leaves_a_step.py", "TestStepsByHand"),
    ),
    Mutant(
        "arguments-split-by-size",
        "tfdpnorm/gradients/rules/fallback.py",
        (("        of_examples = computed_from_arguments(flat)", "        of_examples = in_rows"),),
        "A mask of as many words as the batch has rows is split over them.",
        ("tests/gradients/rules/test_fallback_rule.py",),
    ),
    Mutant(
        "gradients-by-place",
        _TRAINING,
        (("b, rows, row_by_row=True", "b, rows"),),
        "A gradient that depends on the place in the batch alone counts as proved.",
        ("tests/audit/row_independence/proof/test_proof.py",),
    ),
    Mutant(
        "outputs-by-place",
        _PROOF,
        (("per_example, v, row_by_row=True)", "per_example, v)"),),
        "An output that depends on the place in the batch alone counts as one of rows.",
        ("tests/audit/row_independence/proof/test_proof.py",),
    ),
    Mutant(
        "eager-functions-are-graphs",
        _ROWS,
        (
            (
                "        if not is_graph or tf.config.functions_run_eagerly():",
                "        if not is_graph:",
            ),
        ),
        "Python runs the model anew in each step, under a proof of its graph.",
        tests_in(
            "tests/training/checks/test_proofs.py",
            "test_functions_that_are_switched_to_eager_are_no_graphs",
        ),
    ),
)
