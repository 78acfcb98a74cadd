"""PrivateValidation: the noise of its answers."""

import math

import numpy as np
import pytest
from tensorflow import keras

from tests.training.callbacks.private_validation.queries import (
    NAME,
    count,
)
from tfdpnorm.training.callbacks import private_validation
from tfdpnorm.training.callbacks.private_validation import PrivateValidation


class TestNoise:
    def test_is_gaussian_and_whole(self):
        draws = [private_validation._whole_noise(5.0) for _ in range(20000)]
        assert all(isinstance(value, int) for value in draws)
        assert abs(np.mean(draws)) < 5 * 5 / math.sqrt(20000)
        # Rounding adds a variance of 1 / 12.
        assert np.std(draws) == pytest.approx(math.sqrt(25 + 1 / 12), rel=5 / math.sqrt(40000))
        assert np.mean(np.abs(draws) <= 5) == pytest.approx(math.erf(5.5 / 5 / 2**0.5), abs=0.02)

    def test_seeds_do_not_repeat_validation_noise(self, build, private, fit, validation):
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

    def test_the_noise_has_no_end_that_a_delta_would_see(self, monkeypatch):
        class Outermost:
            getrandbits, random = staticmethod(lambda bits: 0), staticmethod(lambda: 0.0)

        monkeypatch.setattr(private_validation.random, "SystemRandom", Outermost)
        assert 1800 < private_validation._whole_noise(100.0) < 1900
