"""Faults in ScaleNorm, random views, halving on a plateau, and the Hessian."""

from tests.mutants.mutant import fault, tests_in

_SCALE_NORM = "tfdpnorm/layers/scale_norm.py"
_SUMS = "tfdpnorm/models/normalization.py"
_VIEWS = "tfdpnorm/layers/random_crop_and_flip.py"
_PLATEAUS = "trainers/runs/optimizers.py"
_HESSIAN = "trainers/analysis/hessian.py"

MUTANTS = (
    fault(
        "scale-norm-of-one-path",
        _SCALE_NORM,
        "for path in paths])",
        "for path in paths[:1]])",
        "The skip path is lost.",
        tests_in("tests/layers/test_scale_norm.py", "test_group_norm_of_the_sum"),
    ),
    fault(
        "scale-norm-of-another-kind",
        _SUMS,
        '1 if self.norm == "layer" else self._options["groups"]',
        'self._options["groups"]',
        "A network with layer normalisation gets ScaleNorm in groups.",
        tests_in(
            "tests/models/test_residual_networks.py",
            "test_scale_norm_is_of_the_kind_of_the_network",
        ),
    ),
    fault(
        "one-window-for-all-rows",
        _VIEWS,
        "self._generator.uniform([rows], 0, end, tf.int32)",
        "tf.repeat(self._generator.uniform([1], 0, end, tf.int32), rows)",
        "All images of a lot are moved alike.",
        tests_in(
            "tests/layers/test_random_crop_and_flip.py",
            "test_a_view_is_one_of_all_windows_and_all_are_as_likely",
        ),
    ),
    fault(
        "plateau-of-training-examples",
        _PLATEAUS,
        "        data.validation_x,\n        data.validation_y,\n",
        "        data.train_x,\n        data.train_y,\n",
        "Training examples answer, and what they pay for it is written down for others.",
        tests_in(
            "tests/trainers/runs/test_plateaus.py",
            "test_validation_queries_stay_within_their_own_budget",
        ),
    ),
    fault(
        "public-plateau-of-the-test-set",
        _PLATEAUS,
        "(data.validation_x, data.validation_y)",
        "(data.test_x, data.test_y)",
        "The test set steers the learning rate, and nothing says so.",
        tests_in(
            "tests/trainers/runs/test_plateaus.py",
            "test_public_examples_cost_nothing_and_halve_the_rate",
        ),
    ),
    fault(
        "plateau-by-the-budget-of-training",
        _PLATEAUS,
        "epsilon=spec.plateau_epsilon",
        "epsilon=spec.epsilon",
        "The answers cost another epsilon than the flag says.",
        tests_in(
            "tests/trainers/runs/test_plateaus.py",
            "test_validation_queries_stay_within_their_own_budget",
        ),
    ),
    fault(
        "too-few-queries-for-the-epochs",
        _PLATEAUS,
        "queries=epochs",
        "queries=1",
        "Each answer has the noise of a single one, and the second is not covered.",
        tests_in(
            "tests/trainers/runs/test_plateaus.py",
            "test_validation_queries_stay_within_their_own_budget",
        ),
    ),
    fault(
        "average-of-executions",
        "tfdpnorm/training/callbacks/weight_average.py",
        "for _ in range(before, self._made):",
        "for _ in range(1):",
        "With several updates an execution the average forgets too slowly.",
        tests_in(
            "tests/training/callbacks/test_weight_average.py",
            "test_an_execution_of_several_updates_counts_as_many",
        ),
    ),
    fault(
        "hessian-in-training-mode",
        _HESSIAN,
        "self._model(x, training=False)",
        "self._model(x, training=True)",
        "Dropout makes it the Hessian of another loss at each product.",
        tests_in("tests/trainers/analysis/test_hessian.py", "test_layers_run_in_inference_mode"),
    ),
    fault(
        "hessian-of-the-sum",
        _HESSIAN,
        "return total / self._rows",
        "return total",
        "Eigenvalues grow with the number of rows.",
        tests_in(
            "tests/trainers/analysis/test_hessian.py", "test_products_are_those_of_the_dense_matrix"
        ),
    ),
)
