"""PrivateValidation: Keras' callbacks that act on its answers."""

import numpy as np
import pytest
from tensorflow import keras

from tests.training.callbacks.private_validation.queries import (
    NAME,
    gaussian_rdp_epsilon,
)
from tfdpnorm.keras_compat.variables import KERAS_3
from tfdpnorm.training.callbacks import private_validation
from tfdpnorm.training.callbacks.private_validation import PrivateValidation


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
                keras.callbacks.EarlyStopping(
                    NAME, patience=3, mode="max", restore_best_weights=True
                ),
                keras.callbacks.ReduceLROnPlateau(NAME, factor=0.5, patience=2, mode="max"),
                keras.callbacks.ModelCheckpoint(
                    saved, monitor=NAME, mode="max", save_best_only=True, save_weights_only=True
                ),
                keras.callbacks.LambdaCallback(
                    on_epoch_end=lambda epoch, logs: weights.append(values(model))
                ),
                PrivateValidation(*validation, **setting),
            ],
            optimizer=keras.optimizers.SGD(0.5),
        )
        assert history[NAME] == pytest.approx([20 / 30, 9 / 30, 8 / 30, 7 / 30])
        assert history["learning_rate" if KERAS_3 else "lr"] == [
            0.5,
            0.5,
            0.5,
            0.25,
        ]  # as of before each reduction
        assert trained.ledger.updates == 16 and trained.ledger.state.queries() == 4
        assert all(map(np.array_equal, values(model), weights[0]))  # restored by EarlyStopping
        assert not np.array_equal(weights[0][0], weights[2][0])
        trained.load_weights(saved)
        assert all(map(np.array_equal, values(model), weights[0]))

        # When to stop was a result: the whole plan counts, for updates and for queries.
        ledger = trained.ledger
        assert ledger.epsilon() == pytest.approx(trained.plan.epsilon_after(24))
        assert ledger.validation_epsilon() == pytest.approx(gaussian_rdp_epsilon(4.0, 6, 1e-5))
        statement = trained.privacy_statement()
        assert "EarlyStopping may end training early, based on private_val_accuracy" in statement
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
