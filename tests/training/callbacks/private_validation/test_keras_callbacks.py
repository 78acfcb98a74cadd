"""PrivateValidation: Keras' callbacks that act on its answers."""

import numpy as np
from tensorflow import keras

from tests.training.callbacks.private_validation.queries import (
    NAME,
)
from tfdpnorm.training.callbacks.private_validation import PrivateValidation


class TestWithKerasCallbacks:
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
