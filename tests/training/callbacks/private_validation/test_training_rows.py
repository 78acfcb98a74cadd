"""PrivateValidation: rows that were trained on, or are public."""

import numpy as np
import pytest

from tfdpnorm.training.callbacks.private_validation import PrivateValidation


class TestTrainingData:
    def test_asked_outside_of_fit_they_are_checked_too(self, compiled, build, data):
        rows = PrivateValidation(*data, noise_multiplier=1.0)
        trained = compiled(build())
        rows.measure(trained)  # nothing has been trained on
        with pytest.raises(ValueError, match="40 of 40 are"):
            trained.fit(*data, epochs=1, verbose=0)
        assert trained.ledger.updates == 0
        trained = compiled(build())
        trained.fit(*data, epochs=1, verbose=0)
        with pytest.raises(ValueError, match="40 of 40 are"):
            rows.measure(trained)
        assert not trained.ledger.state.times_asked(rows.name)

    def test_rows_of_earlier_and_later_fits_are_checked(self, compiled, build, data):
        x, y = data
        asked = PrivateValidation(x + 1, y, noise_multiplier=1.0)
        trained = compiled(build())
        trained.fit(x + 2, y, steps_per_epoch=1, epochs=1, verbose=0)
        trained.fit(x, y, steps_per_epoch=1, epochs=1, verbose=0, callbacks=[asked])
        with pytest.raises(ValueError, match="40 of 40 are"):
            trained.fit(x + 1, y, steps_per_epoch=1, epochs=1, verbose=0)
        with pytest.raises(ValueError, match="40 of 40 are"):
            PrivateValidation(x + 2, y, noise_multiplier=1.0).measure(trained)
        assert trained.ledger.updates == 2

    def test_they_are_kept_as_they_were_given(self, data):
        x, y = data[0] + 1, np.array(data[1])
        callback = PrivateValidation(x, y, noise_multiplier=1.0)
        x[:], y[:] = data[0], 0
        callback.check_training_data(data[0])
        assert callback.y.any()

    def test_training_rows_are_rejected(self, data, validation):
        x = np.concatenate([validation[0], data[0][[3, 8]]])
        x[0] = 0.0
        callback = PrivateValidation(x, np.zeros(32, int), noise_multiplier=1)
        with pytest.raises(ValueError, match=r"2 of 32 .* \[30, 31\]"):
            callback.check_training_data(data[0])
        with pytest.raises(ValueError, match=r"1 of 32 .* \[0\]"):
            callback.check_training_data(np.full((4, 5), -0.0, np.float32))
        PrivateValidation(*validation, noise_multiplier=1).check_training_data(data[0])
        PrivateValidation(*data, noise_multiplier=1, disjoint=False).check_training_data(data[0])

    def test_fit_checks_public_rows_too(self, build, private, public, fit):
        trained = private(build(norm="public_batch"), public_batch=public)
        callback = PrivateValidation(public, np.zeros(8, int), noise_multiplier=1)
        with pytest.raises(ValueError, match="Expected public rows that are not private, got 8"):
            fit(trained, [callback])
        assert trained.ledger.updates == trained.ledger.state.queries() == 0
