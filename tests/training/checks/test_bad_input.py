"""What private training rejects: one error each, with its remedy, before any budget is spent."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.private_of import private_of
from tfdpnorm.data import poisson_batches
from tfdpnorm.keras_compat.variables import KERAS_3
from tfdpnorm.layers import PublicBatchNormalization, ScaleNorm
from tfdpnorm.privacy import PrivacyBudget

BUDGET = PrivacyBudget(epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"engine": "fast"}, "Expected engine to be one of .*'per_example'.*, got 'fast'"),
        ({"accountant": "zcdp"}, "Expected accountant to be one of 'rdp', 'pld', .*'zcdp'"),
        ({"budget": BUDGET, "noise_multiplier": 1.0}, "exactly one of budget .* got both"),
        ({"noise_multiplier": None}, "exactly one of budget .* got neither"),
        ({"delta": None}, "Expected delta with noise_multiplier"),
        ({"budget": (1.0, 1e-5)}, "Write PrivacyBudget"),
        ({"expected_batch_size": 41}, "expected_batch_size=41 and num_examples=40"),
        ({"expected_batch_size": 0}, "Expected expected_batch_size > 0"),
        ({"num_examples": 0}, "Expected num_examples"),
        ({"steps": 0}, "Expected steps"),
        ({"l2_norm_clip": 0.0}, "Expected l2_norm_clip > 0"),
        ({"l2_norm_clip": np.inf}, "finite l2_norm_clip where there is noise"),
        ({"noise_multiplier": -1.0}, "Expected noise_multiplier >= 0"),
        ({"physical_batch_size": 0}, "Expected physical_batch_size to be an integer >= 1"),
        ({"physical_batch_size": 2.5}, "Expected physical_batch_size to be an integer >= 1"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_settings_out_of_range_are_rejected(settings, message, build, private):
    with pytest.raises(ValueError, match=message):
        private(build(), **settings)


@pytest.mark.parametrize("model", [None, 5, keras.layers.Dense])
def test_other_objects_are_not_accepted_as_models(model, private):
    with pytest.raises(ValueError, match="^Expected a keras.Model of Keras [23]"):
        private(model)


def test_a_large_delta_warns(build, private):
    with pytest.warns(UserWarning, match="not below 1 / num_examples"):
        private(build(), delta=1 / 40)


class TestPublicBatch:
    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            (None, "Expected a public_batch: the model holds 1"),
            (np.zeros((0, 5)), "at least 2 rows, got 0"),
            (np.zeros((1, 5)), "at least 2 rows, got 1"),
            (np.float32(3), "at least 2 rows, got 0"),
            (np.array([[1, 2, 3, 4, np.nan], [1, np.inf, 3, 4, 5]]), "got 2 that are NaN"),
            (np.zeros((8, 4)), r"of shape \(5,\), as the model takes, got \(4,\)"),
        ],
        ids=["none", "empty", "one", "scalar", "nan", "width"],
    )
    def test_without_moments_is_rejected_at_once(self, rows, message, build, private):
        with pytest.raises(ValueError, match=message):
            private(build(norm="public_batch"), public_batch=rows)

    @pytest.mark.parametrize("fault", ["rank", "kind", "overlap"])
    def test_beside_the_private_rows(self, fault, build, private, public, data, cross_entropy):
        rows, error, message = {
            "rank": (public[..., np.newaxis], ValueError, "shaped as the private ones"),
            "kind": (public.astype(np.int64), TypeError, "begin the model without Rescaling"),
            "overlap": (np.concatenate([public, data[0][7:9]]), ValueError, "rows that are not"),
        }[fault]
        trained = private(build(norm="public_batch"), public_batch=rows)
        trained.compile("sgd", cross_entropy)
        with pytest.raises(error, match=message):
            trained.fit(*data, verbose=0)
        assert trained.ledger.updates == 0

    def test_private_rows_of_another_width_than_the_model_s(self, private, build, data):
        trained = private(build())
        trained.compile("sgd", "mse")
        x = np.ones((len(data[0]), data[0].shape[1] - 1), "float32")
        with pytest.raises(ValueError, match=r"^Expected x with shape \(N, 5\).* got \(N, 4\)"):
            trained.fit(x, data[1], verbose=0)

    @pytest.mark.parametrize(
        ("shape", "message"),
        [
            ((40, 5), r"shape \(N, 5, 1\).* got \(N, 5\). Write x\[..., np.newaxis\]"),
            ((40, 5, 1, 1), r"shape \(N, 5, 1\).* got \(N, 5, 1, 1\). Write x\[..., 0\]"),
            ((40, 1, 5, 1), r"shape \(N, 5, 1\).* got \(N, 1, 5, 1\). Write x.reshape\(len\(x\),"),
        ],
    )
    def test_an_axis_that_keras_would_add_or_drop(self, shape, message, private, cross_entropy):
        """Public rows have the model's axes; the message is about the private ones."""
        layers = [keras.layers.Flatten(), PublicBatchNormalization(), keras.layers.Dense(3)]
        model = keras.Sequential([keras.Input((5, 1)), *layers])
        trained = private(model, public_batch=np.random.default_rng(0).random((8, 5, 1)))
        trained.compile("sgd", cross_entropy)
        with pytest.raises(ValueError, match=message):
            trained.fit(np.ones(shape, "float32"), np.zeros(40, "int32"), verbose=0)

    def test_other_axes_than_keras_would_add_or_drop(self, private, build, data, cross_entropy):
        trained = private(build())
        trained.compile("sgd", cross_entropy)
        for shape, remedy in (((1, 5), r"Write x.reshape\(len\(x\), 5\)"), ((5, 5), "Prepare")):
            with pytest.raises(ValueError, match=rf"shape \(N, 5\) as .*{remedy}"):
                trained.fit(np.ones((len(data[0]), *shape), "float32"), data[1], verbose=0)
        trained.fit(data[0][..., np.newaxis], data[1], verbose=0)
        assert trained.ledger.updates > 0

    @pytest.mark.parametrize("listed", [np.ndarray.tolist, list])
    def test_lists_of_rows_are_arrays(self, listed, build, private, public):
        made = private(build(norm="public_batch"), public_batch=listed(public.astype(float)))
        np.testing.assert_array_equal(made._streams.public_batch, public.astype(float))

    def test_lists_of_inputs_are_tuples(self, private, public, data, cross_entropy):
        inputs = [keras.Input((5,)), keras.Input((2,))]
        joined = PublicBatchNormalization()(keras.layers.Concatenate()(inputs))
        model = keras.Model(inputs, keras.layers.Dense(3)(joined))
        trained = private(model, public_batch=[public, public[:, :2]], steps=1)
        trained.compile("sgd", cross_entropy)
        trained.fit([data[0], data[0][:, :2]], data[1], verbose=0)
        assert trained.ledger.updates == 1

    def test_lists_of_other_things_are_rejected(self, build, private, public):
        with pytest.raises(ValueError, match="^Expected public_batch with rows of one shape, got"):
            private(build(norm="public_batch"), public_batch=[public[0], public[1, :3]])

    def test_mixed_statistics_modes(self, private, public):
        norms = [PublicBatchNormalization(statistics=mode) for mode in ("public", "example")]
        model = keras.Sequential([keras.Input((5,)), *norms, keras.layers.Dense(3)])
        with pytest.raises(ValueError, match=r"got \['example', 'public'\] in one model"):
            private(model, public_batch=public)

    def test_public_and_blend_go_together(self, private, public):
        norms = [PublicBatchNormalization(statistics=mode) for mode in ("public", "blend")]
        model = keras.Sequential([keras.Input((5,)), *norms, keras.layers.Dense(3)])
        assert private(model, public_batch=public).statistics == "blend+public"

    @pytest.mark.parametrize("gradient", ["full", "stop"])
    def test_a_layer_in_two_places(self, gradient, private, public, data, cross_entropy):
        norm = PublicBatchNormalization(statistics_gradient=gradient)
        inputs = keras.Input((5,))
        model = keras.Model(
            inputs, keras.layers.Dense(3)(norm(keras.layers.Activation("tanh")(norm(inputs))))
        )
        with pytest.raises(ValueError, match="one call of layer .*, got 2"):
            trained = private(model, public_batch=public)
            trained.compile("sgd", cross_entropy)
            trained.fit(*data, verbose=0)


def nested(layer):
    return keras.Sequential([keras.Sequential([layer])])


LAYERS = {
    "batch": (keras.layers.BatchNormalization, "statistics come from all examples"),
    "synchronised": (
        lambda: keras.layers.BatchNormalization(synchronized=True),
        "statistics come from all examples",
    ),
    "nested": (
        lambda: nested(keras.layers.BatchNormalization()),
        "statistics come from all examples",
    ),
    "time_distributed": (
        lambda: keras.layers.TimeDistributed(keras.layers.BatchNormalization()),
        "statistics come from all examples",
    ),
    "scale_norm": (lambda: ScaleNorm("batch"), "statistics come from all examples"),
    "stateful": (
        lambda: keras.layers.LSTM(2, stateful=True),
        "stateful recurrent layer .* Use stateful=False",
    ),
    "bidirectional": (
        lambda: keras.layers.Bidirectional(keras.layers.GRU(2, stateful=True)),
        "stateful recurrent layer",
    ),
    "activity": (
        lambda: keras.layers.Dense(2, activity_regularizer="l2"),
        "has an activity regularizer",
    ),
    "activity_layer": (
        lambda: nested(keras.layers.ActivityRegularization(l1=0.1)),
        "has an activity regularizer",
    ),
}
if not KERAS_3:
    LAYERS |= {
        "experimental": (
            keras.layers.experimental.SyncBatchNormalization,
            "statistics come from all examples",
        ),
        "keras_1": (
            tf.compat.v1.keras.layers.BatchNormalization,
            "statistics come from all examples",
        ),
    }


class TestLayers:
    @pytest.mark.parametrize("name", LAYERS)
    def test_layers_that_mix_examples_are_rejected_with_a_remedy(self, name, private):
        make, message = LAYERS[name]
        layer = make()

        class Holder(keras.Model):
            def __init__(self):
                super().__init__()
                self.held = {"in a dict": [layer]}

        for model in (keras.Sequential([layer]), Holder()):
            with pytest.raises(ValueError, match=message):
                private(model)

    def test_built_with_the_model_are_rejected_too(self, private, data):
        class Late(keras.Model):
            def build(self, shape):
                self.norm, self.head = keras.layers.BatchNormalization(), keras.layers.Dense(3)
                super().build(shape)

            def call(self, inputs, training=None):
                return self.head(self.norm(inputs, training=training))

        trained = private(Late())
        trained.compile("sgd", "mse")
        with pytest.raises(ValueError, match="statistics come from all examples"):
            trained.fit(data[0], data[0][:, :3], verbose=0)

    def test_public_ones_built_late_are_rejected(self, private, data, public):
        class Late(keras.Model):
            def build(self, shape):
                self.norm, self.head = PublicBatchNormalization(), keras.layers.Dense(3)
                super().build(shape)

            def call(self, inputs, training=None):
                return self.head(self.norm(inputs, training=training))

        trained = private(Late(), public_batch=public)
        trained.compile("sgd", "mse")
        with pytest.raises(ValueError, match="call the model on a batch before make_private"):
            trained.fit(data[0], data[0][:, :3], verbose=0)

    def test_frozen_batch_normalisation_is_accepted_while_frozen(
        self, private, data, cross_entropy
    ):
        norm = keras.layers.BatchNormalization(trainable=False)
        model = keras.Sequential([keras.Input((5,)), norm, keras.layers.Dense(3)])
        trained = private(model, steps=2)
        trained.compile("sgd", cross_entropy)
        before = norm.get_weights()
        trained.fit(*data, epochs=1, steps_per_epoch=1, verbose=0)
        for old, new in zip(before, norm.get_weights(), strict=True):
            np.testing.assert_array_equal(old, new)
        norm.trainable = True
        trained.compile("sgd", cross_entropy)
        with pytest.raises(ValueError, match="statistics come from all examples"):
            trained.fit(*data, verbose=0)

    @pytest.mark.parametrize("engine", ["book_keeping", "per_example"])
    def test_a_variable_without_a_path_to_the_loss(self, engine, private, data):
        """Is left as it is, as by Keras: not even noise reaches it. The others are trained."""

        class Idle(keras.Model):
            def __init__(self):
                super().__init__()
                self.idle, self.head = keras.layers.Dense(2), keras.layers.Dense(3)

            def call(self, inputs):
                self.idle(inputs)
                return self.head(inputs)

        model = Idle()
        model(data[0][:1])
        before = model.get_weights()
        trained = private(model, engine=engine)
        trained.compile(keras.optimizers.AdamW(0.1, weight_decay=0.1), "mse")
        trained.fit(data[0], data[0][:, :3], verbose=0, epochs=1)
        assert trained.ledger.updates == 4
        for layer, changes in ((model.idle, False), (model.head, True)):
            place = next(i for i, w in enumerate(model.weights) if w is layer.kernel)
            assert np.array_equal(before[place], layer.kernel.numpy()) != changes

    def test_a_loss_that_reaches_no_variable_is_rejected(self, build, private, data):
        trained = private(build())
        trained.compile("sgd", lambda y, p: tf.stop_gradient(p)[:, 0] + y[:, 0])
        with pytest.raises(ValueError, match="^Expected the loss to depend on some .*") as caught:
            trained.fit(data[0], data[0], verbose=0)
        assert "\n" not in str(caught.value)
        assert trained.ledger.updates == 0


class TestLosses:
    @pytest.mark.quick_cases(
        "reduced-per_example", "per_output-per_example", "per_output-tfp_vectorized"
    )
    @pytest.mark.parametrize("engine", ["per_example", "tfp_vectorized"])
    @pytest.mark.parametrize(
        "loss",
        [
            lambda y, p: tf.reduce_mean((p - y) ** 2),
            lambda y, p: tf.reduce_sum((p - y) ** 2, axis=0),
        ],
        ids=["reduced", "per_output"],
    )
    def test_without_a_value_per_example(self, loss, engine, build, private, one_lot, data):
        trained = private(build(), engine=engine)
        trained.compile("sgd", loss)
        with pytest.raises(ValueError, match="one value per example"):
            trained.train_step(one_lot(data[0][:7], data[0][:7, :3]))

    @pytest.mark.slow
    def test_an_object_s_own_reduction_is_ignored(self, build, private, step_sum, one_lot, data):
        sums = []
        for reduction in ("none", "sum_over_batch_size"):
            keras.utils.set_random_seed(1)
            trained = private(build())
            trained.compile("sgd", keras.losses.MeanSquaredError(reduction=reduction))
            sums.append(step_sum(trained)(one_lot(data[0][:7], data[0][:7, :3])))
        np.testing.assert_allclose(sums, [sums[0]] * 2, rtol=1e-6)

    def test_a_missing_loss_is_rejected(self, build, private, data):
        trained = private(build())
        with pytest.raises(RuntimeError, match="Call compile"):
            trained.fit(*data, verbose=0)
        with pytest.raises(ValueError, match="Pass loss="):
            trained.compile("sgd")
        with pytest.raises(ValueError, match="no_such_loss"):
            trained.compile("sgd", "no_such_loss")


class TestData:
    @pytest.fixture
    def trained(self, build, private, cross_entropy):
        trained = private(build())
        trained.compile("sgd", cross_entropy)
        yield trained
        assert trained.ledger.updates == 0  # nothing was spent on what was refused

    def test_data_of_another_size_than_planned_are_rejected(self, trained, data):
        x, y = data
        with pytest.raises(
            ValueError, match="num_examples=40, as in the plan, got 39 rows.*needs most_pe"
        ):
            trained.fit(x[:39], y[:39], verbose=0)
        batches = poisson_batches(x, y, expected_batch_size=8)
        with pytest.raises(ValueError, match="expected_batch_size=10, as in the plan, got 8"):
            trained.fit(batches, verbose=0)

    @pytest.mark.parametrize("where", ["x", "y", "sample_weight"])
    def test_with_nan_are_rejected(self, where, trained, data):
        arrays = {"x": data[0].copy(), "y": data[1].astype(np.float32)}
        arrays["sample_weight"] = np.ones(40, np.float32)
        arrays[where].flat[3] = np.nan
        with pytest.raises(ValueError, match=f"Expected finite values in {where}"):
            trained.fit(**arrays, verbose=0)

    def test_without_targets(self, trained, data):
        with pytest.raises(ValueError, match="There are no targets"):
            trained.fit(data[0], verbose=0)

    @pytest.mark.parametrize(
        ("argument", "remedy"),
        [
            ({"batch_size": 8}, "expected_batch_size to make_plan"),
            ({"class_weight": {0: 2.0}}, "weight for each class in the targets.* others"),
            ({"class_weight": {1: 2.0, 2: 1.0}}, "a number for each class 0, 1"),
            ({"class_weight": "balanced"}, "a number for each class 0, 1"),
            ({"validation_split": 0.1}, "pass validation_data"),
        ],
        ids=["batch_size", "class_missing", "class_numbers", "balanced", "validation_split"],
    )
    def test_with_arguments_that_have_no_meaning_for_lots(self, argument, remedy, trained, data):
        with pytest.raises(ValueError, match=remedy):
            trained.fit(*data, verbose=0, **argument)

    @pytest.mark.parametrize("argument", ["y", "sample_weight"])
    def test_beside_poisson_batches(self, argument, trained, data):
        batches = poisson_batches(*data, expected_batch_size=10)
        with pytest.raises(ValueError, match="PoissonBatches already hold y"):
            trained.fit(batches, verbose=0, **{argument: np.ones(40)})

    @pytest.mark.parametrize("kind", ["sequential", "subclassed"])
    def test_models_without_trainable_variables_are_rejected(
        self, kind, build, private, data, cross_entropy
    ):
        model = build(kind)
        trained = private(model)
        model.trainable = False
        trained.compile("sgd", cross_entropy)
        with pytest.raises(ValueError, match="^The model has no trainable variables"):
            trained.fit(*data, verbose=0)
        assert trained.ledger.updates == 0

    def test_several_inputs_in_a_list(self, trained, data):
        with pytest.raises(ValueError, match="Expected x to hold 1 array.*, got 2"):
            trained.fit([data[0], data[0]], data[1], verbose=0)


@pytest.mark.needs_tensorflow_privacy
def test_optimizers_that_clip_by_themselves(build, private):
    from tensorflow_privacy.privacy.optimizers import dp_optimizer_keras as theirs
    from tensorflow_privacy.privacy.optimizers import dp_optimizer_keras_vectorized as vectorized

    for cls in (theirs.DPKerasAdamOptimizer, vectorized.VectorizedDPKerasSGDOptimizer):
        optimizer = cls(l2_norm_clip=1.0, noise_multiplier=1.0)
        with pytest.raises(ValueError, match="Pass the optimizer it derives from"):
            private(build()).compile(optimizer, "mse")


def test_make_private_takes_no_positional_settings(build):
    with pytest.raises(TypeError):
        private_of(build(), 40, 10, 8, 1.0)


def test_a_changing_number_of_steps_per_execution_is_rejected(build, private):
    trained = private(build("sequential", "layer"))
    with pytest.raises(ValueError, match="fixed steps_per_execution"):
        trained.compile("sgd", "mse", steps_per_execution="auto")


@pytest.mark.parametrize(
    "flags, is_refused",
    [
        ("--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit", True),
        ("--tf_xla_min_cluster_size=4 --tf_xla_auto_jit=fusible", True),
        ("--tf_xla_auto_jit=1", True),
        ("--tf_xla_auto_jit=0", False),
        ("--tf_xla_auto_jit=-1 --tf_xla_cpu_global_jit", False),
        ("--tf_xla_enable_lazy_compilation=true", False),
        ("", False),
    ],
)
def test_auto_clustering_by_the_environment(
    build, private, cross_entropy, monkeypatch, flags, is_refused
):
    monkeypatch.setenv("TF_XLA_FLAGS", flags)
    model = private(build())
    if not is_refused:
        model.compile("sgd", cross_entropy)
        return
    with pytest.raises(
        ValueError, match="Expected TF_XLA_FLAGS without --tf_xla_auto_jit, got --tf"
    ):
        model.compile("sgd", cross_entropy)
