"""Mutants of what demands that per-example independence is proved."""

from tests.mutants.mutant import Mutant, tests_in

_ROWS = "tfdpnorm/training/checks/rows.py"
_PHYSICAL = "tfdpnorm/training/step/physical.py"
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
        tests_in("tests/training/checks/test_rehearsal.py", _COUNTERS),
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
        (("        warnings.warn(price, stacklevel=2)\n", "        pass\n"),),
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
                'found.append(Traced(f"the gradient by what {layer} gives", b, rows))',
                'found.append(Traced(f"the gradient by what {layer} gives", z, rows))',
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
)
