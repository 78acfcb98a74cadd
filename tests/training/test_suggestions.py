"""Settings by rule: what they follow from, and that three arguments suffice to train."""

import math
import warnings

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

import tfdpnorm
from tests.each import each
from tfdpnorm import Clipping, PrivacyBudget, PublicBatch, Views, make_private, models, suggest
from tfdpnorm.training.checks.advice import confused_with_logits
from tfdpnorm.training.suggested_rate import OPTIMIZERS, optimizer_at, suggested_rate

BUDGET = PrivacyBudget(3.0, 1e-5)
N = 60


def mlp(norm="none"):
    return models.build("mlp", norm=norm, num_classes=3, input_shape=(4,), hidden_units=(8,))


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, 4)).astype("float32")
    return x, x[:, :3].argmax(1)


def loss():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class TestThreeArguments:
    def test_suffice(self, data):
        private = make_private(mlp("public_batch"), budget=BUDGET, num_examples=N, epochs=1)
        for name in OPTIMIZERS:
            private.compile(name, loss())
            config = private.optimizer.get_config()["learning_rate"]["config"]
            rate = suggested_rate(private.model, private.plan, name)
            assert config["initial_learning_rate"] == pytest.approx(rate)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of rates
            private.compile("adagrad", loss())  # of Keras
            assert float(private.optimizer.learning_rate) == pytest.approx(1e-3)
            private.compile(keras.optimizers.SGD(1e-6), loss())
            assert float(private.optimizer.learning_rate) == pytest.approx(1e-6)
        private.compile(loss=loss())
        private.fit(*data, verbose=0)
        assert private.ledger.state.updates == private.plan.steps
        assert 0.98 * BUDGET.epsilon <= private.ledger.epsilon() <= BUDGET.epsilon
        assert private.ledger.guarantee_holds
        schedule = private.optimizer.get_config()["learning_rate"]["config"]
        rate = suggested_rate(private.model, private.plan, "rmsprop")
        assert schedule["initial_learning_rate"] == pytest.approx(rate)

    def test_given_settings_are_kept(self):
        given = {
            "clipping": Clipping(grouping="per_layer"),
            "views": Views(multiplicity=2),
            "public_batch": PublicBatch(np.random.default_rng(0).random((8, 4)), pull_back="whole"),
            "physical_batch_size": 5,
        }
        private = make_private(mlp("public_batch"), budget=BUDGET, num_examples=N, **given)
        suggestion = private.suggestion
        plan = private.plan
        slots = private.slots
        assert suggestion.passes == 2 * plan.steps * slots.batches * slots.rows
        assert suggestion.passes > 2 * plan.steps * plan.expected_batch_size
        assert suggestion.clipping is given["clipping"] and suggestion.views is given["views"]
        assert suggestion.physical_batch_size == 5 == private.slots.rows
        assert suggestion.public_batch is given["public_batch"]
        assert [suggestion.reasons[name] for name in given] == ["as given"] * 4
        assert "given" in str(suggestion)

    def test_settings_of_a_given_plan_are_not_suggested(self):
        plan = tfdpnorm.make_plan(
            num_examples=N, expected_batch_size=20, epochs=2, l2_norm_clip=1.0, budget=BUDGET
        )
        private = make_private(mlp(), plan)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            private.compile("sgd", loss())
        assert private.suggestion is None and plan.steps == 6
        assert float(private.optimizer.learning_rate) == pytest.approx(0.01)

    def test_ordinary_batch_normalization_is_rejected_with_a_way_that_works(self):
        inputs = keras.Input((4,))
        hidden = keras.layers.BatchNormalization()(keras.layers.Dense(8)(inputs))
        model = keras.Model(inputs, keras.layers.Dense(3)(hidden))
        settings = {"budget": BUDGET, "num_examples": N, "most_per_person": 3}
        with pytest.raises(ValueError, match='convert="public_batch"'):
            suggest(model, **settings)
        plan = suggest(mlp(), **settings).plan
        assert suggest(mlp(), **settings, unit="row").plan.stated_per_person == 3
        with pytest.raises(ValueError, match='public_batch="synthetic"'):
            make_private(model, plan, convert="public_batch")
        private = make_private(model, convert="public_batch", **settings)
        assert private.plan.most_per_person == 3
        assert "3 for each person, also of fewer; epsilon is the same" in str(private.suggestion)
        assert private.suggestion.public_batch == "synthetic"
        assert "persons, of 3 rows each; at most" in str(private.suggestion)

    def test_too_little_or_too_much_is_rejected(self):
        both = {"budget": BUDGET, "num_examples": N}
        plan = suggest(mlp(), **both)
        assert make_private(mlp(), **plan.arguments).plan == plan.plan
        for settings, words in (
            ({}, "got none"),
            ({"budget": BUDGET}, r"got \['budget'\]"),
            ({"num_examples": N}, r"got \['num_examples'\]"),
            ({"budget": 3.0, "num_examples": N}, "budget"),
            ({"plan": plan.plan, "num_examples": N, "epochs": 3}, "got both"),
        ):
            with pytest.raises((TypeError, ValueError), match=words):
                make_private(mlp(), **settings)
        with pytest.raises(ValueError, match="no weights"):
            make_private(keras.Sequential([keras.layers.Dense(3)]), **both)


class TestSuggestion:
    def test_linear_models_have_whole_batches(self):
        def plan(*parts, **settings):
            model = keras.Sequential([keras.Input((4,)), *parts, keras.layers.Dense(3)])
            given = {"budget": BUDGET, "num_examples": N, **settings}
            return suggest(model, **given).plan

        nested = keras.Sequential([keras.Input((4,)), keras.layers.Activation("linear")])
        assert plan().sampling_rate == plan(nested).sampling_rate == 1 and plan().steps == 100
        frozen = keras.layers.Dense(4, trainable=False)
        assert plan(frozen).sampling_rate < 1 and plan(keras.layers.Dense(4)).steps == 400
        assert plan(steps=7).steps == 7 and plan(num_examples=10**5).sampling_rate < 1
        assert plan().epsilon_after(100) == pytest.approx(3.0, rel=0.01)

    def test_the_views_move_images_and_do_not_flip_them(self):
        inputs = keras.Input((32, 32, 3))
        model = keras.Model(inputs, keras.layers.Conv2D(2, 3, padding="same")(inputs))
        assert suggest(model, budget=BUDGET, num_examples=N).views is None  # of masks
        inputs = keras.Input((28, 28, 1))
        model = keras.Model(inputs, keras.layers.Dense(2)(keras.layers.Flatten()(inputs)))
        views = suggest(model, budget=BUDGET, num_examples=N).views
        image = np.tile(np.arange(28, dtype="float32")[None, None, :, None], (1, 28, 1, 1))
        seen = np.asarray(views(tf.constant(image)))
        middle = seen[:, 10, 8:20, 0]
        np.testing.assert_array_equal(np.diff(middle, axis=-1), 1.0)
        assert abs(middle[:, 0] - 8).max() <= 1


class TestRate:
    PLAN = tfdpnorm.make_plan(
        num_examples=6_000,
        expected_batch_size=300,
        steps=150,
        l2_norm_clip=0.5,
        budget=PrivacyBudget(0.5, 1e-5),
        accountant="pld",
    )

    def moved(self, name, gradients):
        """By how much an optimizer with the suggested rate moves weights of the same shapes."""
        model = mlp()
        rate = suggested_rate(model, self.PLAN, name)
        optimizer = optimizer_at(rate, self.PLAN.steps, name)
        variables = [tf.Variable(np.zeros(v.shape, "float32")) for v in model.trainable_variables]
        if hasattr(keras, "Variable"):
            variables = [keras.Variable(v.numpy()) for v in variables]
        for _ in range(self.PLAN.steps):
            optimizer.apply_gradients([(gradients(v.shape), v) for v in variables])
        return math.sqrt(sum(float(np.sum(np.square(v.numpy()))) for v in variables)), model

    def noise(self, shape):
        stddev = self.PLAN.noise_multiplier * self.PLAN.l2_norm_clip / self.PLAN.expected_batch_size
        return tf.random.normal(tuple(shape), stddev=stddev)

    @each("name", OPTIMIZERS)
    def test_the_noise_alone_moves_the_weights_as_the_rule_says(self, name):
        keras.utils.set_random_seed(0)
        moved, model = self.moved(name, self.noise)
        numbers = sum(int(np.prod(v.shape)) for v in model.trainable_variables)
        kernels = 4 * 8 * 2 / 12 + 8 * 3 * 2 / 11  # Glorot & Bengio (2010)
        signal = math.sqrt(self.PLAN.steps) * self.PLAN.expected_batch_size
        signal /= self.PLAN.noise_multiplier * math.sqrt(numbers)
        assert 3 < signal < 200
        assert moved == pytest.approx(2 * math.sqrt(kernels), rel=0.35)

    def test_models_without_a_suggested_rate_are_rejected(self):
        inputs = keras.Input((4,))
        bare = keras.Model(inputs, keras.layers.LayerNormalization()(inputs))
        with pytest.raises(ValueError, match="no kernels to train"):
            suggested_rate(bare, self.PLAN)
        with pytest.raises(ValueError, match="Expected optimizer"):
            suggested_rate(mlp(), self.PLAN, "adagrad")


class TestWarns:
    def compiled(self, optimizer, model=None, **settings):
        settings = {"expected_batch_size": 30, "steps": 40, "budget": BUDGET, **settings}
        plan = tfdpnorm.make_plan(num_examples=N, l2_norm_clip=1.0, **settings)
        private = make_private(model or mlp(), plan)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            private.compile(optimizer, loss())
        return [str(w.message) for w in caught if "may train badly" in str(w.message)]

    def usual(self, name="sgd"):
        plan = tfdpnorm.make_plan(
            num_examples=N, expected_batch_size=30, steps=40, l2_norm_clip=1.0, budget=BUDGET
        )
        return suggested_rate(mlp(), plan, name)

    def test_unusual_rates_are_warned_of(self):
        """One without momentum is ten times as large; without noise none is unusual."""
        rate, sgd = self.usual(), keras.optimizers.SGD
        for factor, word in ((0.05, "small"), (0.5, None), (30, "large")):
            found = self.compiled(sgd(rate * factor, momentum=0.9))
            assert [word in sentence for sentence in found] == ([True] if word else [])
        assert not self.compiled(sgd(rate * 30))
        assert not self.compiled(sgd(1e-9), budget=PrivacyBudget(math.inf, 1e-5))
        schedule = keras.optimizers.schedules.CosineDecay(self.usual("adam") / 50, 40)
        (found,) = self.compiled(keras.optimizers.Adam(schedule))
        assert "small for adam" in found
        few = dict(expected_batch_size=1, budget=PrivacyBudget(8.0, 1e-3))
        assert any("Batches of 1 are small" in said for said in self.compiled(sgd(0.1), **few))

    @each(
        "last, loss, word, nested",
        [
            (None, "sparse_categorical_crossentropy", "gives logits", False),
            (None, keras.losses.CategoricalCrossentropy(), "gives logits", True),
            (None, keras.losses.SparseCategoricalCrossentropy(from_logits=True), None, True),
            ("softmax", keras.losses.CategoricalCrossentropy(from_logits=True), "gives prob", True),
            ("sigmoid", keras.losses.BinaryCrossentropy(from_logits=True), "gives prob", False),
            ("softmax", "sparse_categorical_crossentropy", None, True),
            ("softplus", "categorical_crossentropy", None, False),
            (None, "mean_squared_error", None, False),
        ],
    )
    def test_losses_that_confuse_logits_with_probabilities_are_warned_of(
        self, last, loss, word, nested
    ):
        layers = [keras.layers.Dense(8, "relu"), keras.layers.Dense(3, activation=last)]
        if nested:
            inside = keras.Input([8])
            layers[1] = keras.Model(inside, layers[1](inside))
        found = confused_with_logits(keras.Sequential([keras.Input([4]), *layers]), loss)
        assert (found is not None) == (word is not None) and (word or "") in (found or "")
