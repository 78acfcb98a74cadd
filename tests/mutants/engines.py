"""Mutants of the choice of an engine, and of vectorising."""

from tests.mutants.mutant import fault, tests_in

_ENGINE = "tfdpnorm/training/engine_choice.py"
_MAP = "tfdpnorm/gradients/map_rows.py"
_VECTORISING = tests_in(
    "tests/gradients/engines/test_per_example.py",
    "test_failed_vectorisation_leaves_no_operation_in_the_graph",
)

_WRAPPED = tests_in(
    "tests/training/step/test_public_moments_in_wrappers.py",
    "test_it_trains_as_the_layer_over_all_steps_does",
)

MUTANTS = (
    fault(
        "memory-that-is-written-in-place-is-free",
        "tfdpnorm/independence/verification/claims.py",
        "        verdicts = [shared] * len(verdicts)\n",
        "",
        "An example that was written into a constant moves the gradients of all others.",
        ("tests/independence/verification/test_in_place.py",),
    ),
    fault(
        "state-keeps-what-is-written-in-place",
        "tfdpnorm/independence/verification/claims.py",
        "        walk.faults += [shared] if is_kept else []\n",
        "",
        "A variable that is released without noise holds an example.",
        ("tests/independence/verification/test_in_place.py",),
    ),
    fault(
        "rows-of-several-shapes-are-stacked",
        _MAP,
        "for op in apart.graph.get_operations():",
        "for op in ():",
        "The first update fails as it runs, after it was entered in the ledger.",
        tests_in(
            "tests/gradients/engines/test_per_example.py",
            "test_rows_of_several_shapes_are_taken_one_after_the_other",
        ),
    ),
    fault(
        "true-classes-are-taken-for-drawn-ones",
        "tfdpnorm/independence/verification/rules/lookups.py",
        "    return [FREE, rows, FREE]",
        "    return [FREE, FREE, FREE]",
        "What depends on the classes of examples counts as public.",
        ("tests/independence/verification/test_candidates.py",),
    ),
    fault(
        "examples-along-another-axis-are-not-split",
        "tfdpnorm/gradients/rules/fallback.py",
        "zip(flat, of_examples, in_rows, strict=True))",
        "zip(flat, in_rows, in_rows))",
        "A layer without a rule shows each example all the others.",
        tests_in(
            "tests/gradients/rules/test_fallback_rule.py",
            "test_examples_along_another_axis_of_an_argument_are_rejected",
        ),
    ),
    fault(
        "tensors-of-other-graphs-are-no-refusal",
        "tfdpnorm/training/checks/independence.py",
        "        if captures_symbols(traced):",
        "        if False:",
        "The ledger counts an update that fails before it has computed anything.",
        tests_in(
            "tests/training/checks/test_engine_in_use.py",
            "test_a_tensor_of_another_graph_is_rejected_in_one_sentence",
        ),
    ),
    fault(
        "moments-of-each-step",
        "tfdpnorm/keras_compat/layers.py",
        "        all_steps_at_once(time_distributed),\n        exch",
        "        exch",
        "Public-batch normalisation inside TimeDistributed cannot be trained.",
        _WRAPPED,
    ),
    fault(
        "half-a-vectorised-loop-is-run",
        _MAP,
        "traced(lambda *rows: tf.vectorized_map(one, rows), specs)",
        "[tf.vectorized_map(one, rows)]\n            rows, apart = apart, lambda x: x",
        "What a failed vectorisation left in the graph changes state, or fails, in each step.",
        _VECTORISING,
    ),
    fault(
        "vectorising-fails-by-a-few-errors-only",
        _MAP,
        "        except Exception as error:  # converters",
        "        except (NotImplementedError, TypeError, ValueError) as error:  #",
        "Losses with loops of their own, as that of CTC, cannot be trained.",
        _VECTORISING,
    ),
    fault(
        "an-engine-that-was-asked-for-is-changed",
        _ENGINE,
        "        self._may_change = may_change and not engine.of_tensorflow_privacy\n",
        "        self._may_change = not engine.of_tensorflow_privacy\n",
        "A step takes several times as long, and another engine than the one that was asked for.",
        tests_in(
            "tests/training/checks/test_engine_in_use.py",
            "test_an_engine_that_was_asked_for_is_kept",
        ),
    ),
    fault(
        "rows-apart-are-not-checked",
        _ENGINE,
        "            raise (again if",
        "            return None\n            raise (again if",
        "A step is made although neither engine has passed its checks.",
        tests_in(
            "tests/training/checks/test_engine_in_use.py",
            "test_models_no_engine_supports_keep_the_engine",
        ),
    ),
)
