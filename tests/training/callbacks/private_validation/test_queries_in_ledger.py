"""PrivateValidation: what the ledger says of its queries."""

import numpy as np
import pytest
from tensorflow import keras

from tests.halting import Halt
from tests.training.callbacks.private_validation.queries import (
    NAME,
    gaussian_rdp_epsilon,
)
from tfdpnorm.privacy import BudgetExhaustedError, PrivacyBudget
from tfdpnorm.training.callbacks import private_validation
from tfdpnorm.training.callbacks.private_validation import PrivateValidation


def killed_after_an_answer(model, fit, asked):
    """Lets a run die at the end of its second epoch, and returns the answer that it got there."""
    answers = []

    def kill(epoch, logs):
        answers.append(logs[NAME])
        if epoch == 1:
            raise Halt

    with pytest.raises(Halt):
        fit(model, [asked, keras.callbacks.LambdaCallback(on_epoch_end=kill)])
    model.ledger.close()
    return answers[1]


class TestLedger:
    def test_the_query_is_written_before_the_noise_is_drawn(
        self, build, private, fit, validation, monkeypatch
    ):
        trained = private(build(), steps=4)
        seen = []

        def draw(stddev):
            seen.append((stddev, trained.ledger.state.queries(), trained.ledger.state.answer(NAME)))
            return -100  # far below 0, to see that nothing is clipped

        monkeypatch.setattr(private_validation, "_whole_noise", draw)
        history = fit(trained, [PrivateValidation(*validation, noise_multiplier=3.0)])
        assert seen == [(3.0, 1, None)]
        assert history[NAME][0] * 30 == pytest.approx(trained.ledger.state.answer(NAME))
        assert -100 <= trained.ledger.state.answer(NAME) <= -70

    def test_queries_compose_as_gaussians(self, build, private, fit, validation):
        budget = PrivacyBudget(epsilon=1.5, delta=1e-5)
        trained = private(build(), steps=12)
        training_alone = trained.plan.epsilon_after(12)
        validate = PrivateValidation(*validation, budget=budget, queries=3)
        fit(trained, [validate])
        expected = gaussian_rdp_epsilon(validate.noise_multiplier, 3, 1e-5)
        assert expected == pytest.approx(1.5, rel=2e-3)
        spent = trained.ledger.validation_epsilon()
        assert spent == pytest.approx(expected, rel=5e-3) and spent <= 1.5
        assert trained.ledger.epsilon() == pytest.approx(training_alone)
        assert trained.ledger.state.queries() == 3

    def test_examples_of_both_sets_pay_for_both(self, build, private, data, fit):
        trained = private(build(), steps=8)
        validate = PrivateValidation(*data, noise_multiplier=5.0, disjoint=False)
        history = fit(trained, [validate])
        assert trained.ledger.epsilon() > trained.plan.epsilon_after(8)
        assert trained.ledger.validation_epsilon() == 0
        assert history["epsilon"][-1] == pytest.approx(trained.ledger.epsilon())
        assert (
            trained.ledger.state.queries() == 2 and "noisy answers" in trained.privacy_statement()
        )

    def test_an_answer_in_the_ledger_is_not_asked_for_again(
        self, build, private, fit, validation, tmp_path
    ):
        """The weights that it was about are those of the checkpoint."""
        settings = dict(steps=12, run_dir=tmp_path / "run", resume=True, checkpoint_every=4)
        first = private(build(), **settings)
        asked = PrivateValidation(*validation, noise_multiplier=6.0, queries=3)
        answer = killed_after_an_answer(first, fit, asked)
        again = private(build(), **settings)
        again.compile("sgd", "sparse_categorical_crossentropy")
        again.restore_run()
        assert (again.ledger.state.position, again.ledger.state.queries()) == (8, 2)
        asked = PrivateValidation(*validation, noise_multiplier=6.0, queries=3)
        assert asked.measure(again) == answer and again.ledger.state.queries() == 2

    def test_answers_about_lost_weights_count_and_are_repeated(
        self, build, private, fit, validation, tmp_path
    ):
        """Killed at 8 of 12 updates, and resumed at 6: four are left, in two epochs."""
        settings = dict(steps=12, run_dir=tmp_path / "run", resume=True, checkpoint_every=3)
        validate = dict(noise_multiplier=6.0, queries=3)
        first = private(build(), **settings)
        answer = killed_after_an_answer(first, fit, PrivateValidation(*validation, **validate))
        again = private(build(), **settings)
        assert (again.ledger.state.position, again.ledger.state.queries()) == (6, 2)
        with pytest.warns(UserWarning, match="3 times, as often as planned"):
            history = fit(again, [PrivateValidation(*validation, **validate)])
        assert (
            again.ledger.updates,
            again.ledger.state.position,
            again.ledger.state.queries(),
        ) == (12, 10, 3)
        assert len(history["loss"]) == 2 and len(history[NAME]) == 1
        assert again.ledger.state.answer(NAME) is None and answer is not None
        assert again.ledger.validation_epsilon() == pytest.approx(
            gaussian_rdp_epsilon(6.0, 3, 1e-5)
        )


class TestQueriesPlanned:
    def test_more_than_planned_are_rejected_before_anything_is_spent(
        self, build, private, fit, validation
    ):
        trained = private(build(), steps=12)
        with pytest.raises(BudgetExhaustedError, match="3 planned for this.*queries=.*every="):
            fit(trained, [PrivateValidation(*validation, noise_multiplier=1.0, queries=2)])
        assert (trained.ledger.updates, trained.ledger.state.queries()) == (0, 0)
        assert trained.ledger.validation_epsilon() == 0


class TestSeveralAnswers:
    def test_an_answer_is_of_its_own_weights_and_rows(
        self, build, private, data, cross_entropy, validation, no_noise
    ):
        model, (x, y) = private(build()), validation
        model.compile("sgd", cross_entropy)
        model.fit(*data, steps_per_epoch=1, epochs=1, verbose=0)
        first = PrivateValidation(x, y, noise_multiplier=1.0)
        before = first.measure(model)
        assert first.measure(model) == before and model.ledger.state.queries() == 1
        model.set_weights([0 * w for w in model.get_weights()])
        assert first.measure(model) == pytest.approx(np.mean(y == 0))
        assert model.ledger.state.queries() == 2
        few = PrivateValidation(x[:5], y[:5], noise_multiplier=1.0)
        assert few.measure(model) == pytest.approx(np.mean(y[:5] == 0))
        assert model.ledger.state.queries() == 3


def test_values_are_in_the_history_every_other_epoch(build, private, fit, validation):
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
