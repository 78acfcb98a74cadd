"""Validation rows, and how models are fitted with them."""

import numpy as np
import pytest

from tfdpnorm.training.callbacks import private_validation


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
            model.compile(optimizer, cross_entropy, metrics=["accuracy"])
        return model.fit(*data, verbose=0, callbacks=callbacks, **settings).history

    return run


@pytest.fixture
def no_noise(monkeypatch):
    """The counts as they are, with the ledger's entries of noisy ones."""
    monkeypatch.setattr(private_validation, "_whole_noise", lambda stddev: 0)
