"""A process that survives an interrupt: all that it announced is spent, and no noise is used twice.

What was really released is taken from the optimizer, which sees every gradient with its noise.
"""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.data import poisson_batches
from tfdpnorm.privacy import read_ledger

STEPS, AT_ONCE, FAILS_AT = 12, 4, 6  # within the second execution of four updates


class Trap:
    """Raises at one call of those that it counts, then never again."""

    def __init__(self, fails_at=FAILS_AT):
        self.calls, self.fails_at = 0, fails_at

    def __call__(self):
        self.calls += 1
        if self.calls == self.fails_at:
            raise KeyboardInterrupt


class Witnessed(keras.optimizers.SGD):
    """Keeps each gradient of the first kernel, and fails between two variables of an update.

    There, the noise is drawn and a part of it is in the weights.
    """

    def __init__(self, trap, seen):
        super().__init__(0.1)
        self._trap, self._see = trap, seen.append  # Keras 3 copies lists.

    def update_step(self, gradient, variable, *rate):  # which Keras 3 passes
        def look(value):
            self._see(value.copy())
            self._trap()
            return np.int64(0)

        super().update_step(gradient, variable, *rate)
        if len(variable.shape) == 2 and variable.shape[0] == 5:  # the first kernel
            tf.numpy_function(look, [gradient], tf.int64)


def small():
    layers = [keras.layers.Dense(40), keras.layers.Dropout(0.5), keras.layers.Dense(3)]
    return keras.Sequential([keras.Input((5,)), *layers])


def no_gradient(y, outputs):
    """Every sum is 0, so that what is released is the noise."""
    return 0.0 * tf.reduce_sum(outputs, axis=-1)


@pytest.fixture
def seen():
    """All gradients that the optimizers of a test were given."""
    return []


@pytest.fixture
def begun(start, tmp_path, seen):
    """Returns a function to a private model whose sixth update fails, unless told otherwise."""

    def make(where="graph", resume=False, fails=True, **settings):
        settings = {"checkpoint_every": AT_ONCE, "public_batch": None, **settings}
        private = start(tmp_path / "run", resume=resume, model=small(), **settings)
        eager = where == "eager"
        private.compile(
            Witnessed(Trap(FAILS_AT if fails else 0), seen),
            no_gradient,
            run_eagerly=eager,
            steps_per_execution=1 if eager else AT_ONCE,
        )
        return private

    return make


def interrupt(private, data):
    with pytest.raises((KeyboardInterrupt, tf.errors.OpError)):
        private.fit(*data, verbose=0)
    assert private.ledger.state.position >= int(private.update_count)


def check_no_noise_is_shared(releases):
    """Of any two releases of equal sums: the difference is that of two independent Gaussians."""
    flat = np.array([np.ravel(release) for release in releases])
    differences = flat[:, None] - flat[None]
    pairs = ~np.eye(len(flat), dtype=bool)
    zeros = (differences[pairs] == 0).mean(axis=-1)
    assert zeros.max() < 0.2, "numbers that are rounded to a grid agree now and then"
    correlations = np.corrcoef(flat)[pairs]
    assert np.abs(correlations).max() < 6 / np.sqrt(flat.shape[1])


def test_releases_never_share_noise(begun, data, seen, tmp_path):
    """Within an execution, after an interrupt, in a second fit, with old weights, after a crash."""
    private = begun()
    interrupt(private, data)
    assert len(seen) == FAILS_AT
    assert private.ledger.updates == 2 * AT_ONCE
    assert read_ledger(tmp_path / "run" / "ledger.jsonl").updates == private.ledger.updates
    private.model.save_weights(tmp_path / "kept.weights.h5")
    private.fit(*data, verbose=0, epochs=1, steps_per_epoch=2)
    private.load_weights(tmp_path / "kept.weights.h5")
    left = private.ledger.state.remaining_updates
    private.fit(*data, verbose=0, epochs=1, steps_per_epoch=max(1, left - 1))
    assert FAILS_AT < len(seen) <= private.ledger.updates
    private.ledger.close()
    if left > 1:
        again = begun(resume=True, fails=False)
        again.fit(*data, verbose=0)
        assert len(seen) <= again.ledger.updates == STEPS
    check_no_noise_is_shared(seen)


def test_a_seed_does_not_repeat_noise_either(begun, data, seen):
    private = begun(insecure_seed=3)
    interrupt(private, data)
    private.ledger.close()
    again = begun(resume=True, fails=False, insecure_seed=3)
    again.fit(*data, verbose=0)
    check_no_noise_is_shared(seen)


def test_steps_by_hand_after_an_interrupt_have_their_own_noise(begun, data, seen):
    """Without a guarantee, and yet the noise on both sides must not cancel.

    In eager steps, where nothing that comes after the interrupt was made yet, and outside of the
    ledger, which passes over the numbers of updates that it has announced.
    """
    private = begun("eager", noise_generator="philox")  # of a key and the update's number
    batches = poisson_batches(*data, expected_batch_size=private.plan.expected_batch_size)
    batches = iter(batches.as_dataset(private.slots))
    with pytest.raises((KeyboardInterrupt, tf.errors.OpError)):
        for _ in range(FAILS_AT):
            private.train_step(next(batches))
    private.train_step(next(batches))
    assert len(seen) == FAILS_AT + 1
    assert not private.ledger.guarantee_holds
    check_no_noise_is_shared(seen)
