"""PrivateValidation: what it counts, the noise, the ledger, and Keras' callbacks that act on it."""

import math

import dp_accounting
import numpy as np
import pytest
import tensorflow as tf
from dp_accounting.pld import PLDAccountant
from tensorflow import keras

from tfdpnorm.privacy import BudgetExhaustedError, PrivacyBudget
from tfdpnorm.training.callbacks import private_validation
from tfdpnorm.training.callbacks.private_validation import PrivateValidation

NAME = "private_val_accuracy"


@pytest.fixture(scope="session")
def validation():
    """(x [30, 5], y [30] of 3 classes) that are no training rows."""
    rng = np.random.default_rng(5)
    return rng.normal(size=(30, 5)).astype(np.float32), rng.integers(3, size=30)


@pytest.fixture
def fit(data, cross_entropy):
    """Returns a function that compiles a private model and fits it."""

    def run(model, callbacks, **settings):
        if model._per_example_loss is None:
            optimizer = settings.pop("optimizer", "sgd")
            model.compile(optimizer, cross_entropy, metrics=["accuracy"], run_eagerly=True)
        return model.fit(*data, verbose=0, callbacks=callbacks, **settings).history

    return run


@pytest.fixture
def no_noise(monkeypatch):
    """The counts as they are, with the ledger's entries of noisy ones."""
    monkeypatch.setattr(private_validation, "_whole_noise", lambda stddev: 0)


def count(callback, model):
    """The un-noised count of a callback for a model."""
    callback.set_model(model)
    return int(callback._judge(callback.x, callback.y).sum())


class TestWithKerasCallbacks:
    @pytest.fixture(scope="class")
    def setting(self):
        return {"noise_multiplier": 4.0, "queries": 6}

    def test_they_act_on_the_noisy_value(
        self, setting, build, private, public, fit, validation, tmp_path, monkeypatch
    ):
        """Counts 20, 9, 8, 7: best in the first epoch, halved in the third, over in the fourth."""
        noise = iter([20, 9, 8, 7])
        monkeypatch.setattr(
            private_validation, "_whole_noise", lambda stddev: next(noise) if stddev == 4 else None
        )
        monkeypatch.setattr(PrivateValidation, "_judge", lambda self, x, y: np.zeros(len(y), bool))
        model = build(norm="public_batch")
        trained = private(model, public_batch=public, steps=24)
        saved = str(tmp_path / "best.weights.h5")
        weights = []
        values = lambda m: [v.numpy() for v in m.trainable_variables]  # noqa: E731
        history = fit(
            trained,
            [
                keras.callbacks.EarlyStopping(NAME, patience=3, restore_best_weights=True),
                keras.callbacks.ReduceLROnPlateau(NAME, factor=0.5, patience=2),
                keras.callbacks.ModelCheckpoint(
                    saved, monitor=NAME, save_best_only=True, save_weights_only=True
                ),
                keras.callbacks.LambdaCallback(
                    on_epoch_end=lambda epoch, logs: weights.append(values(model))
                ),
                PrivateValidation(*validation, **setting),
            ],
            optimizer=keras.optimizers.SGD(0.5),
        )
        assert history[NAME] == pytest.approx([20 / 30, 9 / 30, 8 / 30, 7 / 30])
        assert history["lr"] == [0.5, 0.5, 0.5, 0.25]  # as of before each reduction
        assert trained.ledger.updates == 16 and trained.ledger.queries == 4
        assert all(map(np.array_equal, values(model), weights[0]))  # restored by EarlyStopping
        assert not np.array_equal(weights[0][0], weights[2][0])
        trained.load_weights(saved)
        assert all(map(np.array_equal, values(model), weights[0]))

        # When to stop was a result: the whole plan counts, for updates and for queries.
        ledger = trained.ledger
        assert ledger.epsilon() == pytest.approx(trained.plan.epsilon_after(24))
        assert ledger.validation_epsilon() == pytest.approx(gaussian_rdp_epsilon(4.0, 6, 1e-5))
        statement = trained.privacy_statement()
        assert "EarlyStopping may end training early, by private_val_accuracy" in statement
        assert "noisy answers" in statement

    def test_values_are_in_the_history_every_other_epoch(self, build, private, fit, validation):
        trained = private(build(), steps=20)
        validate = PrivateValidation(*validation, noise_multiplier=2.0, queries=2, every=2)
        seen = []
        look = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: seen.append(trained.history)
        )
        history = fit(trained, [validate, look])
        assert len(history["loss"]) == 5 and len(history[NAME]) == 2
        # Predictions have a History of their own in Keras, which must not take the place of fit's.
        assert all(own.history is history for own in seen)
        counts = 30 * np.array(history[NAME])
        np.testing.assert_allclose(counts, np.round(counts), atol=1e-9)
        assert trained.history.history is history

    @pytest.mark.slow
    def test_several_steps_in_one_execution(self, build, private, fit, validation, no_noise):
        trained = private(build(), steps=10)
        trained.compile(
            keras.optimizers.SGD(0.0),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            steps_per_execution=4,
        )
        validate = PrivateValidation(*validation, noise_multiplier=1.0, batch_size=4)
        history = fit(trained, [validate])
        right = (trained.predict(validation[0], verbose=0).argmax(1) == validation[1]).mean()
        assert history[NAME] == pytest.approx([right] * 3)
        assert trained.ledger.updates == 10


class TestLedger:
    def test_the_query_is_written_before_the_noise_is_drawn(
        self, build, private, fit, validation, monkeypatch
    ):
        trained = private(build(), steps=4)
        seen = []

        def draw(stddev):
            seen.append((stddev, trained.ledger.queries, trained.ledger.answer(NAME)))
            return -100  # far below 0, to see that nothing is clipped

        monkeypatch.setattr(private_validation, "_whole_noise", draw)
        history = fit(trained, [PrivateValidation(*validation, noise_multiplier=3.0)])
        assert seen == [(3.0, 1, None)]
        assert history[NAME][0] * 30 == pytest.approx(trained.ledger.answer(NAME))
        assert -100 <= trained.ledger.answer(NAME) <= -70

    @pytest.mark.slow_cases("pld")
    @pytest.mark.parametrize("accountant", ["rdp", "pld"])
    def test_queries_compose_as_gaussians(self, accountant, build, private, fit, validation):
        budget = PrivacyBudget(epsilon=1.5, delta=1e-5)
        trained = private(build(), steps=12, accountant=accountant)
        training_alone = trained.plan.epsilon_after(12)
        validate = PrivateValidation(*validation, budget=budget, queries=3)
        fit(trained, [validate])
        event = dp_accounting.SelfComposedDpEvent(
            dp_accounting.GaussianDpEvent(validate.noise_multiplier), 3
        )
        if accountant == "rdp":
            expected = gaussian_rdp_epsilon(validate.noise_multiplier, 3, 1e-5)
            assert expected == pytest.approx(1.5, rel=2e-3)
        else:
            expected = PLDAccountant().compose(event).get_epsilon(1e-5)
        spent = trained.ledger.validation_epsilon()
        assert spent == pytest.approx(expected, rel=5e-3) and spent <= 1.5
        assert trained.ledger.epsilon() == pytest.approx(training_alone)
        assert trained.ledger.queries == 3

    def test_examples_of_both_sets_pay_for_both(self, build, private, data, fit):
        trained = private(build(), steps=8)
        validate = PrivateValidation(*data, noise_multiplier=5.0, disjoint=False)
        history = fit(trained, [validate])
        assert trained.ledger.epsilon() > trained.plan.epsilon_after(8)
        assert trained.ledger.validation_epsilon() == 0
        assert history["epsilon"][-1] == pytest.approx(trained.ledger.epsilon())
        assert trained.ledger.queries == 2 and "noisy answers" in trained.privacy_statement()

    def test_an_answer_in_the_ledger_is_not_asked_for_again(
        self, build, private, fit, validation, tmp_path
    ):
        class Killed(Exception):
            pass

        def kill(epoch, logs):
            if epoch == 1:
                raised.append(logs[NAME])
                raise Killed

        raised = []
        settings = dict(steps=12, run_dir=tmp_path / "run", resume=True)
        validate = dict(noise_multiplier=6.0, queries=3)
        killer = keras.callbacks.LambdaCallback(on_epoch_end=kill)
        first = private(build(), **settings)
        with pytest.raises(Killed):
            fit(first, [PrivateValidation(*validation, **validate), killer])
        first.ledger.close()
        again = private(build(), **settings)
        assert (again.ledger.position, again.ledger.queries) == (4, 2)
        history = fit(again, [PrivateValidation(*validation, **validate)])
        assert len(history[NAME]) == 2 and history[NAME][0] == raised[0]
        assert (again.ledger.updates, again.ledger.queries) == (12, 3)
        assert again.ledger.validation_epsilon() == pytest.approx(
            gaussian_rdp_epsilon(6.0, 3, 1e-5)
        )

    def test_queries_that_a_resumption_used_up_are_missed_at_the_end(
        self, build, private, fit, validation, tmp_path
    ):
        """Killed at 8 of 12 updates, and resumed at 6, in an epoch of the caller's own.

        Epochs end at 4, 8, then 10 and 12. By themselves they would end at 8 and 12.
        """

        class Killed(Exception):
            pass

        def kill(epoch, logs):
            if epoch == 1:
                raise Killed

        settings = dict(steps=12, run_dir=tmp_path / "run", resume=True, checkpoint_every=3)
        validate = dict(noise_multiplier=6.0, queries=3)
        killer = keras.callbacks.LambdaCallback(on_epoch_end=kill)
        first = private(build(), **settings)
        with pytest.raises(Killed):
            fit(first, [PrivateValidation(*validation, **validate), killer])
        first.ledger.close()
        again = private(build(), **settings)
        assert (again.ledger.position, again.ledger.queries) == (6, 2)
        with pytest.warns(UserWarning, match="3 times, as often as planned"):
            history = fit(again, [PrivateValidation(*validation, **validate)], initial_epoch=1)
        assert (again.ledger.updates, again.ledger.queries) == (12, 3)
        assert len(history["loss"]) == 2 and len(history[NAME]) == 1


class TestQueriesPlanned:
    def test_more_than_planned_are_refused_before_anything_is_spent(
        self, build, private, fit, validation
    ):
        trained = private(build(), steps=12)
        with pytest.raises(BudgetExhaustedError, match="3 to come.*queries=.*every="):
            fit(trained, [PrivateValidation(*validation, noise_multiplier=1.0, queries=2)])
        assert (trained.ledger.updates, trained.ledger.queries) == (0, 0)
        assert trained.ledger.validation_epsilon() == 0

    @pytest.mark.slow
    def test_earlier_fits_count(self, build, private, fit, validation):
        trained = private(build(), steps=20)
        validate = PrivateValidation(*validation, noise_multiplier=1.0, queries=4)
        fit(trained, [validate], epochs=2)
        fit(trained, [validate], epochs=3, initial_epoch=2)
        with pytest.raises(BudgetExhaustedError, match="2 to come in this fit.* after 3 before"):
            fit(trained, [validate])
        assert (trained.ledger.updates, trained.ledger.queries) == (12, 3)
        fit(trained, [validate], epochs=1)
        assert trained.ledger.queries == 4


class TestCount:
    @pytest.mark.parametrize("batch_size", [1, 7, 30, 64])
    @pytest.mark.parametrize("norm", ["public_batch", "none"])
    def test_one_row_moves_it_by_at_most_one(
        self, norm, batch_size, build, private, public, validation, data
    ):
        """Rows far off, too: under batch statistics of its own they would move the others."""
        settings = {"public_batch": public} if norm == "public_batch" else {}
        trained = private(build(norm=norm), **settings)
        x, y = validation
        trained(x)
        settings = {"noise_multiplier": 1.0, "batch_size": batch_size}
        before = PrivateValidation(x, y, **settings)
        before.set_model(trained)
        right = before._judge(x, y)
        for row, scale in [(0, 1e6), (13, -3.0), (29, 1e30)]:
            x_after, y_after = x.copy(), y.copy()
            x_after[row] *= np.float32(scale)
            y_after[row] = (y[row] + 1) % 3
            after = before._judge(x_after, y_after)
            assert set(np.flatnonzero(after != right)) <= {row}
            assert abs(int(after.sum()) - int(right.sum())) <= 1

    def test_batches_change_nothing(self, build, private, public, validation):
        trained = private(build(norm="public_batch"), public_batch=public)
        trained(validation[0])
        counts = {
            count(PrivateValidation(*validation, noise_multiplier=1, batch_size=b), trained)
            for b in (1, 4, 30, 100)
        }
        expected = trained.predict(validation[0], verbose=0).argmax(1) == validation[1]
        assert counts == {int(expected.sum())}

    def test_statistics_are_those_of_the_present_weights(self, build, private, public, validation):
        model = build(norm="public_batch")
        trained = private(model, public_batch=public)
        trained(validation[0])
        model.layers[0].kernel.assign(100 * tf.random.normal([5, 4]))
        model.layers[-1].kernel.assign(tf.random.normal([4, 3]))
        expected = trained.predict(validation[0], verbose=0).argmax(1)
        assert len(set(expected)) > 1
        callback = PrivateValidation(validation[0], expected, noise_multiplier=1)
        assert count(callback, trained) == 30

    def test_nan_is_wrong(self, validation):
        """Though NumPy's argmax finds NaN to be the largest."""
        weights = np.eye(5, 3, dtype=np.float32)
        weights[0, 0] = np.nan
        model = keras.Sequential([keras.layers.Dense(3, use_bias=False, input_shape=(5,))])
        model.set_weights([weights])
        x, y = np.ones((6, 5), np.float32), np.zeros(6, int)
        assert count(PrivateValidation(x, y, noise_multiplier=1), model) == 0
        single = keras.Sequential([keras.layers.Dense(1, use_bias=False, input_shape=(5,))])
        single.set_weights([weights[:, :1]])
        callback = PrivateValidation(x, y, noise_multiplier=1, from_logits=True)
        assert count(callback, single) == 0

    @pytest.mark.parametrize("form", ["numbers", "column", "one_hot", "floats"])
    def test_forms_of_class_numbers(self, form, build, validation):
        x, y = validation
        model = build()
        given = {
            "numbers": y,
            "column": y[:, np.newaxis],
            "one_hot": keras.utils.to_categorical(y, 3),
            "floats": y.astype(np.float64),
        }[form]
        expected = (model.predict(x, verbose=0).argmax(1) == y).sum()
        assert count(PrivateValidation(x, given, noise_multiplier=1), model) == expected

    @pytest.mark.parametrize("shape", [(), (1,)], ids=str)
    @pytest.mark.parametrize(("from_logits", "right"), [(True, 3), (False, 2)])
    def test_single_outputs(self, from_logits, right, shape):
        """0.3 is class 1 as a logit, and class 0 as a probability."""
        model = keras.Sequential([keras.layers.Reshape(shape, input_shape=(1,))])
        x, y = np.array([[0.9], [0.3], [-0.1], [0.7]], np.float32), np.array([1, 1, 0, 0])
        callback = PrivateValidation(x, y, noise_multiplier=1, from_logits=from_logits)
        assert count(callback, model) == right

    def test_an_own_judgement_of_several_outputs(self, validation):
        left, right = keras.Input((2,)), keras.Input((3,))
        model = keras.Model(
            {"left": left, "right": right},
            [keras.layers.Dense(1)(left), keras.layers.Dense(2)(right)],
        )
        x = {"left": validation[0][:, :2], "right": validation[0][:, 2:]}
        callback = PrivateValidation(
            x,
            (validation[1], validation[1]),
            noise_multiplier=1,
            correct=lambda y, p: (y[0] == y[1]) & (p[0][:, 0] > p[1][:, 0]),
        )
        one, two = model.predict(x, verbose=0)
        assert count(callback, model) == (one[:, 0] > two[:, 0]).sum()


class TestNoise:
    def test_is_gaussian_and_whole(self):
        draws = [private_validation._whole_noise(5.0) for _ in range(20000)]
        assert all(isinstance(value, int) for value in draws)
        assert abs(np.mean(draws)) < 5 * 5 / math.sqrt(20000)
        # Rounding adds a variance of 1 / 12.
        assert np.std(draws) == pytest.approx(math.sqrt(25 + 1 / 12), rel=5 / math.sqrt(40000))
        assert np.mean(np.abs(draws) <= 5) == pytest.approx(math.erf(5.5 / 5 / 2**0.5), abs=0.02)

    def test_no_seed_repeats_it(self, build, private, fit, validation):
        histories = []
        for _ in range(2):
            keras.utils.set_random_seed(3)
            trained = private(build(), steps=4, insecure_seed=1)
            validate = PrivateValidation(*validation, noise_multiplier=1e6)
            histories.append(fit(trained, [validate]))
        assert histories[0]["loss"] == histories[1]["loss"]
        assert histories[0][NAME] != histories[1][NAME]

    def test_none_without_guarantee_only(self, build, private, fit, validation):
        validate = PrivateValidation(*validation, noise_multiplier=0)
        with pytest.raises(ValueError, match="noise_multiplier > 0 in a run that has a guarantee"):
            fit(private(build()), [validate])
        trained = private(build(), noise_multiplier=0.0, steps=4)
        history = fit(trained, [validate])
        assert history[NAME] == [count(validate, trained) / 30]
        assert "private_val_accuracy was computed" in trained.privacy_statement()


class TestRefusals:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({}, "either a noise_multiplier or a budget, got None and None"),
            ({"noise_multiplier": 1, "budget": PrivacyBudget(1, 1e-5)}, "either"),
            ({"budget": PrivacyBudget(1, 1e-5)}, "queries=None"),
            ({"budget": 3.0, "queries": 2}, "PrivacyBudget.* got 3.0"),
            ({"noise_multiplier": math.nan}, "noise_multiplier >= 0 and finite, got nan"),
            ({"noise_multiplier": math.inf}, "got inf"),
            ({"noise_multiplier": -1.0}, "got -1.0"),
            ({"noise_multiplier": "1"}, "got '1'"),
            ({"noise_multiplier": 1, "queries": 0}, "queries to be an integer >= 1, got 0"),
            ({"noise_multiplier": 1, "every": 1.5}, "every to be an integer >= 1, got 1.5"),
            ({"noise_multiplier": 1, "batch_size": True}, "batch_size .* got True"),
            ({"noise_multiplier": 1, "name": "loss"}, "begin with \"private_val_\", got 'loss'"),
        ],
    )
    def test_settings_out_of_range_are_refused(self, settings, message, validation):
        with pytest.raises(ValueError, match=message):
            PrivateValidation(*validation, **settings)

    @pytest.mark.parametrize(
        ("x", "y", "message"),
        [
            (np.ones((0, 5)), np.ones(0), "at least 1 example"),
            (np.ones((3, 5)), np.ones(2), "same number of rows"),
            (np.full((3, 5), np.nan), np.ones(3), "finite values in x"),
            (np.ones((3, 5)), np.full(3, 0.5), "class numbers 0, 1, ... in y"),
            (np.ones((3, 5)), np.array([-1, 1, 1]), "class numbers"),
            (np.ones((3, 5)), np.ones((3, 4)), "one-hot rows"),
            (np.ones((3, 5)), np.full((3, 2), 0.5), "one-hot rows"),
            (np.ones((3, 5)), np.ones((3, 4, 2)), r"got \[3, 4, 2\]. Pass correct"),
            (np.ones((3, 5)), {"a": np.ones(3)}, "a dict of arrays"),
        ],
    )
    def test_data_that_cannot_be_judged_are_refused(self, x, y, message):
        with pytest.raises(ValueError, match=message):
            PrivateValidation(x, y, noise_multiplier=1)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"correct": lambda y, p: p[:, 0]}, r"bool \[30\].* float32 \[30\]"),
            ({"correct": lambda y, p: y[:, None] == p.argmax(1)}, r"got bool \[30, 30\]"),
            ({"correct": lambda y, p: p[:, 0] > np.median(p[:, 0])}, "each row by itself"),
            ({"correct": lambda y, p: np.arange(len(y)) > 3}, "each row by itself"),
        ],
    )
    def test_judgements_that_could_count_a_row_twice_are_refused(
        self, settings, message, build, private, fit, validation
    ):
        trained = private(build())
        with pytest.raises(ValueError, match=message):
            fit(trained, [PrivateValidation(*validation, noise_multiplier=1, **settings)])
        assert trained.ledger.updates == 0

    @pytest.mark.parametrize(
        ("outputs", "labels", "message"),
        [
            (1, 2, "from_logits=True or False"),
            (1, 3, "class numbers below 2"),
            (2, 3, "class numbers below 2"),
        ],
    )
    def test_labels_that_do_not_fit_the_outputs(self, outputs, labels, message, validation):
        model = keras.Sequential([keras.layers.Dense(outputs, input_shape=(5,))])
        y = np.arange(30) % labels
        with pytest.raises(ValueError, match=message):
            count(PrivateValidation(validation[0], y, noise_multiplier=1), model)

    def test_more_than_one_row_of_outputs(self, validation):
        model = keras.Sequential([keras.layers.Reshape((5, 1), input_shape=(5,))])
        with pytest.raises(ValueError, match="one output"):
            count(PrivateValidation(*validation, noise_multiplier=1), model)

    def test_a_budget_at_another_delta(self, build, private, fit, validation):
        budget = PrivacyBudget(1.0, 1e-3)
        with pytest.raises(ValueError, match="the plan's delta, 1e-05.* got 0.001"):
            fit(private(build()), [PrivateValidation(*validation, budget=budget, queries=2)])

    def test_models_without_a_ledger_are_refused(self, build, validation, data, cross_entropy):
        model = build()
        model.compile("sgd", cross_entropy)
        with pytest.raises(ValueError, match="no ledger to charge"):
            callbacks = [PrivateValidation(*validation, noise_multiplier=1)]
            model.fit(*data, verbose=0, callbacks=callbacks)


class Meeting(keras.layers.Layer):
    """Takes the mean of many rows away, in inference."""

    def call(self, x, training=None):
        if training:
            return x
        return tf.cond(tf.shape(x)[0] > 20, lambda: x - tf.reduce_mean(x, 0), lambda: x)


class Keeping(keras.layers.Layer):
    """Counts rows in inference."""

    def __init__(self):
        super().__init__()
        self.rows = tf.Variable(0.0, trainable=False)

    def call(self, x, training=None):
        if not training:
            self.rows.assign_add(1.0)
        return x


class TestRowsThatMeet:
    @pytest.mark.filterwarnings("ignore:Per-example independence")
    @pytest.mark.parametrize("batch_size", [8, 32, 256])
    def test_they_are_asked_one_by_one(self, batch_size, private, data, validation, monkeypatch):
        network = keras.Sequential([keras.Input((5,)), Meeting(), keras.layers.Dense(3)])
        trained = private(network)
        asked = PrivateValidation(*validation, noise_multiplier=1.0, batch_size=batch_size)
        monkeypatch.setattr(private_validation, "_whole_noise", lambda stddev: 0)
        alone = np.concatenate([network.predict(x[np.newaxis], verbose=0) for x in validation[0]])
        right = np.mean(alone.argmax(axis=1) == validation[1])
        assert asked.measure(trained) == right
        assert trained.rows_to_predict_at_once(validation[0], batch_size) == (
            8 if batch_size == 8 else 1
        )

    @pytest.mark.filterwarnings("ignore:Per-example independence")
    def test_the_last_rows_are_looked_at_too(self, private, validation):
        """30 rows, 8 at a time, end with 6."""
        of_six = keras.layers.Lambda(
            lambda x: tf.cond(tf.shape(x)[0] == 6, lambda: x - tf.reduce_mean(x, 0), lambda: x)
        )
        trained = private(keras.Sequential([keras.Input((5,)), of_six, keras.layers.Dense(3)]))
        assert trained.rows_to_predict_at_once(validation[0], 8) == 1
        assert trained.rows_to_predict_at_once(validation[0], 10) == 10

    @pytest.mark.filterwarnings("ignore:Per-example independence")
    def test_a_model_that_keeps_something_is_refused(self, private, validation):
        network = keras.Sequential([keras.Input((5,)), Keeping(), keras.layers.Dense(3)])
        trained = private(network)
        with pytest.raises(ValueError, match="Expected a model whose answer for one row depends"):
            PrivateValidation(*validation, noise_multiplier=1.0).measure(trained)
        assert trained.ledger.queries == 0


class TestTrainingData:
    def test_asked_outside_of_fit_they_are_checked_too(self, build, private, data, cross_entropy):
        rows = PrivateValidation(*data, noise_multiplier=1.0)
        trained = private(build())
        trained.compile("sgd", cross_entropy)
        rows.measure(trained)  # nothing has been trained on
        with pytest.raises(ValueError, match="got 40 of 40"):
            trained.fit(*data, epochs=1, verbose=0)
        assert trained.ledger.updates == 0
        trained = private(build())
        trained.compile("sgd", cross_entropy)
        trained.fit(*data, epochs=1, verbose=0)
        with pytest.raises(ValueError, match="got 40 of 40"):
            rows.measure(trained)
        assert not trained.ledger.asked(rows.name)

    def test_rows_of_earlier_and_later_fits_are_checked(self, build, private, data, cross_entropy):
        x, y = data
        asked = PrivateValidation(x + 1, y, noise_multiplier=1.0)
        trained = private(build())
        trained.compile("sgd", cross_entropy)
        trained.fit(x + 2, y, steps_per_epoch=1, epochs=1, verbose=0)
        trained.fit(x, y, steps_per_epoch=1, epochs=1, verbose=0, callbacks=[asked])
        with pytest.raises(ValueError, match="got 40 of 40"):
            trained.fit(x + 1, y, steps_per_epoch=1, epochs=1, verbose=0)
        with pytest.raises(ValueError, match="got 40 of 40"):
            PrivateValidation(x + 2, y, noise_multiplier=1.0).measure(trained)
        assert trained.ledger.updates == 2

    def test_they_are_kept_as_they_were_given(self, data):
        x, y = data[0] + 1, np.array(data[1])
        callback = PrivateValidation(x, y, noise_multiplier=1.0)
        x[:], y[:] = data[0], 0
        callback.check_training_data(data[0])
        assert callback.y.any()

    def test_public_ones_are_checked_too(self, build, private, data, cross_entropy):
        trained = private(build())
        trained.compile("sgd", cross_entropy)
        settings = {"validation_is_public": True, "verbose": 0, "epochs": 1}
        x, y = data
        for rows in (data, [x, y], (tf.constant(x), tf.constant(y)), (x[:, :, None], y)):
            with pytest.raises(ValueError, match="Expected public validation_data .* got 40 of 40"):
                trained.fit(*data, validation_data=rows, **settings)
        stopping = keras.callbacks.EarlyStopping("val_loss")
        rows = (x + 1, y)
        trained.fit(*data, validation_data=rows, callbacks=[stopping], **settings)
        statement = trained.privacy_statement()
        assert "whose val_loss EarlyStopping acted on, are public was said to fit()" in statement

    @pytest.mark.parametrize("change", [lambda x: x, lambda x: x.astype(np.float64)])
    def test_training_rows_are_refused(self, change, data, validation):
        x = np.concatenate([validation[0], data[0][[3, 8]]])
        x[0] = 0.0
        callback = PrivateValidation(change(x), np.zeros(32, int), noise_multiplier=1)
        with pytest.raises(ValueError, match=r"2 of 32 that are, .* \[30, 31\].*disjoint=False"):
            callback.check_training_data(data[0])
        with pytest.raises(ValueError, match=r"got 1 of 32 that are, .* \[0\]"):
            callback.check_training_data(np.full((4, 5), -0.0, np.float32))

    def test_a_copy_in_higher_precision_is_recognised(self):
        x = np.random.default_rng(0).normal(size=(4, 5))
        for ours, theirs in ((x, x.astype(np.float32)), (x.astype(np.float32), x)):
            callback = PrivateValidation(ours, np.zeros(4, int), noise_multiplier=1)
            with pytest.raises(ValueError, match="got 4 of 4"):
                callback.check_training_data(theirs)

    def test_fit_checks_them(self, build, private, data, fit):
        trained = private(build())
        with pytest.raises(ValueError, match="got 40 of 40"):
            fit(trained, [PrivateValidation(*data, noise_multiplier=1)])
        assert trained.ledger.updates == trained.ledger.queries == 0

    def test_fit_checks_public_rows_too(self, build, private, public, fit):
        trained = private(build(norm="public_batch"), public_batch=public)
        callback = PrivateValidation(public, np.zeros(8, int), noise_multiplier=1)
        with pytest.raises(ValueError, match="Expected public rows that are not private, got 8"):
            fit(trained, [callback])
        assert trained.ledger.updates == trained.ledger.queries == 0

    def test_others_and_those_that_pay_are_not(self, data, validation):
        PrivateValidation(*validation, noise_multiplier=1).check_training_data(data[0])
        PrivateValidation(*data, noise_multiplier=1, disjoint=False).check_training_data(data[0])

    def test_a_row_is_all_of_its_inputs(self, data, validation):
        split = lambda x: {"a": x[:, :2], "b": x[:, 2:]}  # noqa: E731
        half = np.concatenate([data[0][:30, :2], validation[0][:, 2:]], axis=1)
        callback = PrivateValidation(split(half), validation[1], noise_multiplier=1)
        callback.check_training_data(split(data[0]))
        with pytest.raises(ValueError, match="got 30 of 30"):
            callback.check_training_data(split(half))

    def test_rows_of_other_shapes_cannot_be_compared(self, validation):
        callback = PrivateValidation(*validation, noise_multiplier=1)
        with pytest.raises(ValueError, match=r"\[\[4\]\], got \[\[5\]\]"):
            callback.check_training_data(np.ones((3, 4)))


def gaussian_rdp_epsilon(noise_multiplier, queries, delta):
    """Epsilon of Gaussian queries by dp_accounting's own Renyi orders and ours above them."""
    from tfdpnorm.privacy import RDP_ORDERS

    event = dp_accounting.SelfComposedDpEvent(
        dp_accounting.GaussianDpEvent(noise_multiplier), queries
    )
    accountant = dp_accounting.rdp.RdpAccountant(orders=RDP_ORDERS).compose(event)
    return accountant.get_epsilon(delta)


class TestSeveralAnswers:
    @pytest.fixture
    def trained(self, build, private, data, cross_entropy):
        def train():
            model = private(build())
            model.compile("sgd", cross_entropy)
            model.fit(*data, steps_per_epoch=1, epochs=1, verbose=0)
            return model

        return train

    def test_an_answer_is_of_the_weights_and_the_rows_that_it_was_asked_of(
        self, trained, validation, no_noise
    ):
        model, (x, y) = trained(), validation
        first = PrivateValidation(x, y, noise_multiplier=1.0)
        before = first.measure(model)
        assert first.measure(model) == before and model.ledger.queries == 1
        model.set_weights([0 * w for w in model.get_weights()])
        assert first.measure(model) == pytest.approx(np.mean(y == 0))
        assert model.ledger.queries == 2
        few = PrivateValidation(x[:5], y[:5], noise_multiplier=1.0)
        assert few.measure(model) == pytest.approx(np.mean(y[:5] == 0))
        assert model.ledger.queries == 3

    def test_answers_in_several_runs_are_said_to_add_up(self, trained, validation):
        first, second = trained(), trained()
        callback = PrivateValidation(*validation, noise_multiplier=1.0)
        callback.measure(first)
        assert "for them the epsilons and the deltas add up" not in first.privacy_statement()
        callback.measure(second)
        for model in (first, second):
            assert "for them the epsilons and the deltas add up" in model.privacy_statement()

    def test_the_noise_has_no_end_that_a_delta_would_see(self, monkeypatch):
        class Outermost:
            getrandbits, random = staticmethod(lambda bits: 0), staticmethod(lambda: 0.0)

        monkeypatch.setattr(private_validation.random, "SystemRandom", Outermost)
        assert 1800 < private_validation._whole_noise(100.0) < 1900
