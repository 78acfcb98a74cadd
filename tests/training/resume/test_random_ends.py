"""Runs whose processes end in every way at random: every noise that was drawn is counted.

A witness sits in the optimizer and keeps what each update gave to the weights, whether somebody has
seen it or not.
"""

import random

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

RUNS = 2


class Killed(BaseException):
    """The end of a process: it does nothing more."""


class Witnessed(keras.optimizers.SGD):
    """Keeps the gradient of the first variable of every update, and fails within one of them."""

    def __init__(self, releases, fails_at, error):
        super().__init__(0.1)
        self._releases, self._left, self._error = releases, fails_at, error

    def update_step(self, gradient, variable, *rate):  # which Keras 3 passes
        if len(variable.shape) == 2 and variable.shape[0] == 5:
            self._releases.append(np.ravel(gradient.numpy()))
        self._left -= 1
        if self._left == 0:
            raise self._error
        super().update_step(gradient, variable, *rate)


class FailsAt(keras.callbacks.Callback):
    """Ends the process after an execution."""

    def __init__(self, fails_at, error):
        super().__init__()
        self._fails_at, self._error = fails_at, error

    def on_train_batch_end(self, batch, logs=None):
        if self._fails_at is not None and self.model.ledger.state.position >= self._fails_at:
            raise self._error


def session(start, folder, data, rng, releases, steps):
    """One process: it resumes the run, and ends somehow. Returns its ledger."""
    model = keras.Sequential(
        [keras.Input((5,)), keras.layers.Dense(40), keras.layers.Dropout(0.5)]
        + [keras.layers.Dense(3)]
    )
    private = start(
        folder, resume=True, model=model, public_batch=None, checkpoint_every=4, steps=steps
    )
    keras.utils.set_random_seed(3)  # the same in each process: no noise may come from it
    ledger = private.ledger
    for _ in range(rng.choice([1, 2, 3])):  # a process that survives may call fit again
        if not ledger.state.remaining_updates:
            break
        error = rng.choice([KeyboardInterrupt, ValueError, Killed])
        in_callback = rng.random() < 0.3
        fails_at = rng.randrange(1, 12)
        optimizer = Witnessed(releases, 0 if in_callback else fails_at, error)
        private.compile(
            optimizer,
            lambda y, outputs: 0.0 * tf.reduce_sum(outputs, axis=-1),
            run_eagerly=True,
            steps_per_execution=rng.choice([1, 3]),
        )
        at = ledger.state.position + fails_at if in_callback else None
        try:
            private.fit(*data, verbose=0, callbacks=[FailsAt(at, error)])
        except Killed:
            break
        except (KeyboardInterrupt, ValueError):
            pass
    ledger.close()
    return ledger


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(RUNS))
@pytest.mark.filterwarnings("ignore:Expected the optimizer")
def test_every_noise_is_counted_and_used_once(start, data, tmp_path, seed):
    rng, releases = random.Random(seed), []
    steps = (12, 40)[seed]
    for _ in range(7):
        ledger = session(start, tmp_path, data, rng, releases, steps)
        assert len(releases) <= ledger.updates <= steps
        assert ledger.plan.epsilon_after(len(releases)) <= ledger.epsilon()
        assert ledger.epsilon() <= ledger.epsilon(whole_plan=True)
    correlations = np.corrcoef(releases) - np.eye(len(releases))
    assert len(releases) > 5 and np.abs(correlations).max() < 6 / np.sqrt(releases[0].size)
