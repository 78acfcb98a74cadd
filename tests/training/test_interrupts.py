"""What a user is told who interrupts a training."""

import re
import warnings

import pytest
from tensorflow import keras

from tfdpnorm.errors import PrivacyWarning


class Interrupts(keras.callbacks.Callback):
    """As Control-C does, after so many updates."""

    def __init__(self, after):
        super().__init__()
        self._after = after

    def on_train_begin(self, logs=None):
        if not self._after:
            raise KeyboardInterrupt

    def on_train_batch_end(self, batch, logs=None):
        if batch + 1 == self._after:
            raise KeyboardInterrupt


@pytest.fixture
def told(compiled, build, data):
    """Returns a function: the private model, and the warnings of an interrupted training."""

    def told(after=2, **settings):
        made = compiled(build(), steps=6, **settings)
        with warnings.catch_warnings(record=True) as caught, pytest.raises(KeyboardInterrupt):
            warnings.simplefilter("always")
            made.fit(*data, verbose=0, callbacks=[Interrupts(after)])
        messages = [str(w.message) for w in caught if issubclass(w.category, PrivacyWarning)]
        return made, [m for m in messages if m.startswith("Interrupted")]

    return told


def test_the_epsilon_that_is_spent(told):
    private, (message,) = told()
    assert message.startswith("Interrupted after 2 of 6 updates. Epsilon ")
    assert float(re.search(r"Epsilon (\S+) is spent", message)[1]) >= private.ledger.epsilon() > 0
    assert "run_dir=" in message
    assert told(after=0)[1] == []


def test_no_epsilon_without_guarantee(told):
    _, (message,) = told(validate=False)
    assert "epsilon" not in message.lower() and "What they released is spent" in message
