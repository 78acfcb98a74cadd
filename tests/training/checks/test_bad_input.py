"""What private training rejects: one error each, with its remedy, before any budget is spent."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.data import poisson_batches
from tfdpnorm.layers import PublicBatchNormalization


@each(
    "settings, name",
    [
        ({"engine": "fast"}, "engine"),
        ({"physical_batch_size": 0}, "physical_batch_size"),
        ({"physical_batch_size": 2.5}, "physical_batch_size"),
    ],
)
def test_settings_out_of_range_are_rejected(settings, name, build, private):
    with pytest.raises(ValueError, match=name):
        private(build(), **settings)


def test_other_objects_are_not_accepted_as_models(private):
    for model in (None, 5, keras.layers.Dense):
        with pytest.raises(ValueError, match="keras.Model"):
            private(model)


class TestPublicBatch:
    @each(
        "rows, message",
        [
            (None, "public_batch"),
            (np.zeros((1, 5)), "2 rows, got 1"),
            (np.float32(3), "2 rows, got 0"),
            (np.array([[1, 2, 3, 4, np.nan], [1, np.inf, 3, 4, 5]]), "got 2 that are NaN"),
            (np.zeros((8, 4)), r"\(5,\).*got \(4,\)"),
            ([np.zeros(5), np.zeros(3)], "public_batch"),
        ],
    )
    def test_without_moments_is_rejected_at_once(self, rows, message, build, private):
        with pytest.raises(ValueError, match=message):
            private(build(norm="public_batch"), public_batch=rows)

    def test_other_axes_than_keras_would_add_or_drop(self, compiled, build, data):
        trained = compiled(build())
        for shape, remedy in (((1, 5), "reshape"), ((5, 5), "Prepare"), ((4,), "got")):
            with pytest.raises(ValueError, match=rf"shape \(N, 5\).*{remedy}"):
                trained.fit(np.ones((len(data[0]), *shape), "float32"), data[1], verbose=0)
        trained.fit(data[0][..., np.newaxis], data[1], verbose=0)
        assert trained.ledger.updates > 0

    def test_mixed_statistics_modes(self, private, public):
        norms = [PublicBatchNormalization(statistics=mode) for mode in ("public", "example")]
        model = keras.Sequential([keras.Input((5,)), *norms, keras.layers.Dense(3)])
        with pytest.raises(ValueError, match=r"got \['example', 'public'\] in one model"):
            private(model, public_batch=public)

    def test_a_layer_in_two_places(self, compiled, public, data):
        norm = PublicBatchNormalization()
        inputs = keras.Input((5,))
        model = keras.Model(
            inputs, keras.layers.Dense(3)(norm(keras.layers.Activation("tanh")(norm(inputs))))
        )
        with pytest.raises(ValueError, match="one call of layer .*, got 2"):
            trained = compiled(model, public_batch=public)
            trained.fit(*data, verbose=0)


class TestLayers:
    @each("engine", ["book_keeping", "per_example"])
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


class TestLosses:
    @each("axis", [None, 0])
    def test_without_a_value_per_example(self, axis, build, private, one_lot, data):
        trained = private(build(), engine="per_example")
        trained.compile("sgd", lambda y, p: tf.reduce_sum((p - y) ** 2, axis))
        with pytest.raises(ValueError, match="one value per example"):
            trained.train_step(one_lot(data[0][:7], data[0][:7, :3]))

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
    def trained(self, compiled, build):
        trained = compiled(build())
        yield trained
        assert trained.ledger.updates == 0  # nothing was spent on what was refused

    def test_data_of_another_size_than_planned_are_rejected(self, trained, data):
        x, y = data
        with pytest.raises(ValueError, match="num_examples=40.*got 39"):
            trained.fit(x[:39], y[:39], verbose=0)
        with pytest.raises(ValueError, match="num_examples=40.*got 9"):  # less than a batch
            trained.fit(x[:9], y[:9], verbose=0)
        batches = poisson_batches(x, y, expected_batch_size=8)
        with pytest.raises(ValueError, match="expected_batch_size=10, as in the plan, got 8"):
            trained.fit(batches, verbose=0)

    @each(
        "argument, remedy",
        [
            ({"batch_size": 8}, "expected_batch_size"),
            ({"class_weight": "balanced"}, "each class"),
            ({"validation_split": 0.1}, "validation_data"),
        ],
    )
    def test_with_arguments_that_have_no_meaning_for_lots(self, argument, remedy, trained, data):
        with pytest.raises(ValueError, match=remedy):
            trained.fit(*data, verbose=0, **argument)

    @each("argument", ["y", "sample_weight"])
    def test_beside_poisson_batches(self, argument, trained, data):
        batches = poisson_batches(*data, expected_batch_size=10)
        with pytest.raises(ValueError, match="PoissonBatches already hold y"):
            trained.fit(batches, verbose=0, **{argument: np.ones(40)})

    @each("kind", ["sequential", "subclassed"])
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


@pytest.mark.needs_tensorflow_privacy
def test_optimizers_that_clip_by_themselves(build, private):
    from tensorflow_privacy.privacy.optimizers import dp_optimizer_keras as theirs
    from tensorflow_privacy.privacy.optimizers import dp_optimizer_keras_vectorized as vectorized

    for cls in (theirs.DPKerasAdamOptimizer, vectorized.VectorizedDPKerasSGDOptimizer):
        optimizer = cls(l2_norm_clip=1.0, noise_multiplier=1.0)
        with pytest.raises(ValueError, match="Pass the optimizer it derives from"):
            private(build()).compile(optimizer, "mse")


def test_a_changing_number_of_steps_per_execution_is_rejected(build, private):
    trained = private(build("sequential", "layer"))
    with pytest.raises(ValueError, match="fixed steps_per_execution"):
        trained.compile("sgd", "mse", steps_per_execution="auto")


@each(
    "flags, is_refused",
    [
        ("--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit", True),
        ("--tf_xla_min_cluster_size=4 --tf_xla_auto_jit=fusible", True),
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
    with pytest.raises(ValueError, match="TF_XLA_FLAGS"):
        model.compile("sgd", cross_entropy)
