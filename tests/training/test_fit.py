"""make_private, compile and fit, as a Keras user calls them."""

import csv
import math

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.privacy import BudgetExhaustedError, PrivacyBudget
from tfdpnorm.privacy.rounding import ceil_text


def assert_trained(trained, before, updates):
    after = trained.model.get_weights()
    assert trained.ledger.updates == int(trained.update_count) == updates
    assert all(np.isfinite(w).all() for w in after)
    assert any(np.any(a != b) for a, b in zip(before, after, strict=False))


def test_a_model_that_is_not_built_yet_trains(build, private, data, public, cross_entropy):
    model = build("subclassed", "public_batch")
    trained = private(model, public_batch=public, steps=2, l2_norm_clip=1)
    trained.compile(keras.optimizers.Adagrad(0.1), cross_entropy, metrics=["accuracy"])
    trained.fit(*data, verbose=0)
    assert_trained(trained, [np.full((5, 4), 9.0)], updates=2)
    right = trained.predict(data[0], verbose=0).argmax(axis=-1) == data[1]
    accuracy = trained.evaluate(*data, verbose=0, return_dict=True)["accuracy"]
    assert accuracy == pytest.approx(right.mean())
    assert trained.predict(data[0][:7], verbose=0).shape == (7, 3)
    moments = [w for w in model.non_trainable_variables if "public_rows" in w.name]
    assert [float(m) for m in moments] == [len(public)]
    # The wrapped model is ready for use by itself, with the moments of its last weights.
    np.testing.assert_allclose(
        model(data[0]), trained.predict(data[0], verbose=0), rtol=1e-4, atol=1e-5
    )


class TestPlan:
    """One run of 10 updates in uneven epochs, in executions of 4 steps."""

    @pytest.fixture
    def run(self, build, private, data, cross_entropy, tmp_path):
        trained = private(
            build(),
            budget=PrivacyBudget(epsilon=3.0, delta=1e-3),
            steps=10,
            expected_batch_size=5,
        )
        trained.compile("sgd", cross_entropy, metrics=["accuracy"], steps_per_execution=4)
        callbacks = [
            keras.callbacks.CSVLogger(str(tmp_path / "log.csv")),
            keras.callbacks.EarlyStopping("epsilon", patience=99, mode="min"),
            keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (1 + epoch)),
        ]
        # In whole executions: others have no figures before Keras 3.8, in plain fit either.
        options = {"validation_data": (data[0] + 1, data[1]), "validation_batch_size": 10}
        history = trained.fit(*data, verbose=0, epochs=50, callbacks=callbacks, **options).history
        return trained, history

    def test_stops_at_the_plan_and_reports_what_was_spent(self, run, data, tmp_path, cross_entropy):
        trained, history = run
        plan = trained.plan
        # An epoch is N / L = 8 updates: 4 + 4, and then only 2 are left.
        assert trained.ledger.updates == int(trained.update_count) == plan.steps == 10
        expected = [plan.epsilon_after(8), plan.epsilon_after(10)]
        assert history["epsilon"] == pytest.approx(expected, rel=1e-6)
        assert 0 < history["epsilon"][-1] <= 3.0 * (1 + 1e-6)
        assert history["nonfinite_gradients"] == [0, 0]
        assert {"loss", "accuracy", "val_loss", "val_accuracy"} <= set(history)
        assert not {"val_epsilon", "val_nonfinite_gradients"} & set(history)
        with open(tmp_path / "log.csv") as file:
            logged = [float(row["epsilon"]) for row in csv.DictReader(file)]
        assert logged == pytest.approx(expected, rel=1e-6)

        statement = trained.privacy_statement()
        assert 2.99 < trained.ledger.epsilon() <= 3.0
        assert f"epsilon = {ceil_text(trained.ledger.epsilon())} (rounded up)" in statement
        assert "NO GUARANTEE" not in statement and "T = 10 made, of 10" in statement

        weights = trained.get_weights()
        with pytest.raises(BudgetExhaustedError, match="10 spent of 10"):
            trained.fit(*data, verbose=0)
        trained.compile("adam", cross_entropy)  # a compilation is no new budget
        with pytest.raises(BudgetExhaustedError):
            trained.fit(*data, verbose=0)
        np.testing.assert_array_equal(weights[0], trained.get_weights()[0])


def test_weight_regularizers_come_after_noise_and_clip(private, data):
    """Exactly the gradient of the penalty, neither clipped nor divided by the lot."""
    changes = []
    for penalty in (None, keras.regularizers.L2(3.0)):
        model = keras.Sequential(
            [
                keras.layers.Dense(
                    3, input_shape=(5,), kernel_regularizer=penalty, kernel_initializer="ones"
                )
            ]
        )
        trained = private(model, steps=1, insecure_seed=1, l2_norm_clip=0.01)
        trained.compile(keras.optimizers.SGD(0.5), "mse")
        trained.fit(data[0], data[0][:, :3], verbose=0)
        changes.append(model.get_weights())
    np.testing.assert_allclose(changes[0][0] - changes[1][0], 0.5 * 2 * 3.0, rtol=1e-5)
    np.testing.assert_allclose(changes[0][1], changes[1][1], rtol=1e-6)


class TestUnknownSampling:
    def test_other_pipelines_train_and_void_the_guarantee(self, compiled, build, data):
        batches = tf.data.Dataset.from_tensor_slices(data).batch(16)
        trained = compiled(build())
        before = trained.model.get_weights()
        with pytest.warns(UserWarning, match="not Poisson-sampled by this library") as said:
            history = trained.fit(batches, epochs=1, steps_per_epoch=3, verbose=0).history
        assert not any("shuffle=True" in str(warning.message) for warning in said)
        assert_trained(trained, before, updates=3)  # a last partial batch of 8 is one of them
        assert history["epsilon"] == [math.inf]
        assert trained.privacy_statement().startswith("NO GUARANTEE")

    @pytest.mark.parametrize("eager", [False])
    def test_train_on_batch_voids_it_too(self, build, private, data, cross_entropy, eager):
        trained = private(build(), steps=1)
        trained.compile("sgd", cross_entropy, run_eagerly=eager)
        with pytest.warns(UserWarning, match="No privacy guarantee"):
            trained.train_on_batch(data[0][:5], data[1][:5])
        statement = trained.privacy_statement()  # Eager steps have no guarantee either.
        assert "the batches were not Poisson-sampled by this library" in statement
        with pytest.raises(BudgetExhaustedError):
            trained.train_on_batch(data[0][:5], data[1][:5])

    @each(
        "settings, because",
        [
            ({"noise_multiplier": 0.0}, "the noise multiplier is 0"),
            ({"insecure_seed": 1}, "a seed that is not secret"),
        ],
    )
    def test_settings_without_guarantee_say_so(self, settings, because, build, private):
        statement = private(build(), **settings).privacy_statement()
        assert statement.startswith("NO GUARANTEE") and because in statement

    def test_lot_statistics_have_no_guarantee(self, build, private, public, data, cross_entropy):
        model = build(norm="public_batch", statistics="lot")
        trained = private(model, public_batch=public, steps=1)
        assert trained.privacy_statement().startswith("NO GUARANTEE")
        trained.compile("sgd", cross_entropy)
        assert trained.fit(*data, verbose=0).history["epsilon"] == [math.inf]
