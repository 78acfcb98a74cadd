"""Faults in DPVD of Ermis & Cemgil: noise, clip, divergence, and what is said of them."""

from tests.mutants.mutant import fault, tests_in

_CALLBACK = "tfdpnorm/training/callbacks/privacy_noise_as_dropout.py"
_CALLBACK_TESTS = tests_in(
    "tests/training/callbacks/test_privacy_noise_as_dropout.py",
    "test_zeta_is_the_noise_of_each_update",
    "test_clipped_by_layers_the_norm_is_the_total",
)
_PRINTED = "trainers/ermis/printed_dpvd.py"
_PRINTED_TESTS = ("tests/trainers/ermis/test_printed_dpvd.py",)
_PRETRAINING = "tests/trainers/runs/test_pretraining.py"
_CELLS = "tests/trainers/ermis/test_ermis_cells.py"
_LAYERS = "tests/layers/test_variational_dropout.py"

MUTANTS = (
    fault(
        "dropout-noise-without-clip",
        _CALLBACK,
        "multiplier * plan.l2_norm_clip / plan",
        "multiplier / plan",
        "The dropout has not the noise of the update.",
        _CALLBACK_TESTS,
    ),
    fault(
        "dropout-noise-less-than-that-of-the-update",
        _CALLBACK,
        "self.factor * next_learning_rate",
        "0.9 * self.factor * next_learning_rate",
        "The dropout has less noise than the update.",
        _CALLBACK_TESTS,
    ),
    fault(
        "clip-of-layers-without-root",
        "tfdpnorm/training/callbacks/privacy_noise_as_dropout.py",
        "return clip * math.sqrt(layers)",
        "return clip",
        "K layers clipped to C each count as C together.",
        _CALLBACK_TESTS,
    ),
    fault(
        "divergence-times-examples",
        "tfdpnorm/layers/variational_dropout.py",
        "self.kl_weight / (self.num_examples",
        "self.kl_weight * (self.num_examples",
        "The divergence drowns the loss.",
        ("tests/layers/test_variational_dropout.py",),
    ),
    fault(
        "bound-on-alpha-not-kept",
        "tfdpnorm/layers/variational_dropout.py",
        "tf.stop_gradient(tf.minimum(log_noise, most) - log_noise)",
        "tf.stop_gradient(0.0 * log_noise)",
        "Weights have more noise than max_alpha.",
        tests_in(_LAYERS, "test_no_alpha_exceeds_its_bound"),
    ),
    fault(
        "bound-on-alpha-with-a-gradient",
        "tfdpnorm/layers/variational_dropout.py",
        "tf.stop_gradient(tf.minimum(log_noise, most) - log_noise)",
        "(tf.minimum(log_noise, most) - log_noise)",
        "The layer and the rule of its clipped sums have other gradients.",
        tests_in(
            "tests/gradients/rules/test_variational_dropout_rule.py", "test_dense_equals_the_loop"
        ),
    ),
    fault(
        "divergence-draws-bounded-weights-to-0",
        "tfdpnorm/layers/variational_dropout.py",
        "self._bounded(log_variance - tf.stop_gradient(log_variance - log_alpha))",
        "self._bounded(log_alpha)",
        "At the bound the divergence has a gradient by the means that it has not.",
        tests_in(_LAYERS, "test_the_divergence_has_its_own_derivative_by_the_means"),
    ),
    fault(
        "bound-on-public-noise-not-kept",
        "tfdpnorm/layers/variational_dropout.py",
        "if self.max_alpha is None:\n                return variance",
        "if True:\n                return variance",
        "Weights have more noise than max_alpha where it is public.",
        tests_in(_LAYERS, "test_no_alpha_exceeds_its_bound"),
    ),
    fault(
        "alpha-is-the-rate",
        "tfdpnorm/layers/variational_dropout.py",
        "return rate / (1 - rate)",
        "return rate",
        "A dropout rate has another variance than that of dropout.",
        tests_in(_LAYERS, "test_dropout_of_a_rate_has_the_variance_alpha"),
    ),
    fault(
        "dropout-left-out",
        "trainers/runs/build.py",
        "dict(dropout=kind, dropout_rate=spec.variational.dropout_rate)",
        "{}",
        "Runs with dropout have none.",
        tests_in(_CELLS, "test_dropout_multiplies_the_inputs_of_each_layer"),
    ),
    fault(
        "printed-noise-without-clip",
        _PRINTED,
        '2 * arguments.positive("l2_norm_clip", l2_norm_clip) * sigma',
        "2 * sigma",
        "Algorithm 1 as printed has other noise than printed.",
        _PRINTED_TESTS,
    ),
    fault(
        "printed-noise-less-than-claimed",
        _PRINTED,
        "assign(mean + zeta *",
        "assign(mean + 0.9 * zeta *",
        "Algorithm 1 as printed has less noise than printed.",
        _PRINTED_TESTS,
    ),
    fault(
        "private-set-taken-for-public",
        "trainers/specs/checks.py",
        "if pathlib.Path(public).resolve() == pathlib.Path(private).resolve():",
        "if False:",
        "Features are learnt from the private examples without noise.",
        tests_in(_PRETRAINING, "test_the_private_set_is_not_public"),
    ),
    fault(
        "noise-less-than-that-of-the-claim",
        "trainers/runs/build.py",
        "noise_multiplier=2 * sigma",
        "noise_multiplier=1.8 * sigma",
        "A row with the noise of a claim has less of it.",
        tests_in(_CELLS, "test_a_claim_has_its_own_noise_and_the_true_epsilon"),
    ),
    fault(
        "epsilon-beside-a-claim-without-root",
        "trainers/ermis/as_printed.py",
        "= 2 * self._sigma / self._root_of_layers",
        "= 2 * self._sigma",
        "What is said beside a claim takes K layers for one.",
        tests_in(_CELLS, "test_dpvd_as_printed_guarantees_nothing"),
    ),
    fault(
        "printed-run-guaranteed",
        "trainers/ermis/as_printed.py",
        '            "epsilon_target": spec.epsilon,',
        '            "epsilon": spec.epsilon,',
        "A run without any guarantee states the epsilon of the claim.",
        tests_in(_CELLS, "test_dpvd_as_printed_guarantees_nothing"),
    ),
)
