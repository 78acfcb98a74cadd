"""`PrivateValidation.measure`, by which trials are scored."""

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm import PrivacyError
from tfdpnorm.training import PrivateValidation


def test_asks_once_and_is_charged_and_not_beyond_the_plan(build, private, data, cross_entropy):
    trained = private(build())
    trained.compile(keras.optimizers.SGD(0.1), cross_entropy)
    trained.fit(*data, verbose=0, epochs=1)
    validation = PrivateValidation(data[0] + 1, data[1], noise_multiplier=5.0, queries=1)
    first = validation.measure(trained)
    assert first == validation.measure(trained)
    ledger = trained.ledger
    assert ledger.state.queries(disjoint=True) == 1 and ledger.validation_epsilon() > 0
    right = np.mean(trained.predict(data[0] + 1, verbose=0).argmax(1) == data[1])
    assert abs(first - right) < 5 * 5.0 / 40 and (40 * first) == pytest.approx(round(40 * first))
    trained.fit(*data, verbose=0, epochs=1)
    with pytest.raises(PrivacyError, match="All 1 planned queries"):
        validation.measure(trained)
