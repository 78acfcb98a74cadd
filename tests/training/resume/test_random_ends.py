"""Runs whose processes end in every way at random: what was really released is never uncounted.

A witness sits in the optimizer and keeps what each update gave to the weights, and from which lot.
What a killed process did after its last callback has been seen by nobody; everything else has.
"""

import random
import sys

import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.privacy import BudgetExhaustedError, dp_sgd_event
from tfdpnorm.privacy.accountants import rdp_of, rdp_to_epsilon
from tfdpnorm.training.step import ledger_entries

RUNS = 6


@keras.utils.register_keras_serializable("tests")
class Shaken(keras.layers.Layer):
    """Draws by a kernel, whose numbers no key repeats."""

    def call(self, x, training=None):
        return x + 0.1 * tf.random.normal(tf.shape(x)) if training else x


class Killed(BaseException):
    """The end of a process: it does nothing more."""


class Witness:
    """What was released: for each lot, by key and number, a set of what came from it."""

    def __init__(self):
        self.releases, self._unseen = {}, []

    def begins(self, lot):
        self._unseen.append([lot, b""])

    def gives(self, gradient):
        self._unseen[-1][1] += gradient.numpy().tobytes()

    def sees(self):
        for lot, release in self._unseen:
            self.releases.setdefault(lot, set()).add(release)
        self._unseen.clear()

    def forgets(self):
        self._unseen.clear()


class Witnessed(keras.optimizers.SGD):
    """Shows the witness every update, variable by variable, and fails at one of them."""

    def __init__(self, rate, private, witness, fails_at, error):
        super().__init__(rate)
        self._seen_by, self._private = witness, [private]
        self._left, self._error = fails_at, error

    def update_step(self, gradient, variable):
        (private,) = self._private
        if variable is private.model.trainable_variables[0]:
            self._seen_by.begins((private._kept.secret_key, int(private.update_count)))
        self._seen_by.gives(gradient)
        self._left -= 1
        if self._left == 0:
            raise self._error
        super().update_step(gradient, variable)


class Look(keras.callbacks.Callback):
    """Sees the weights after each execution, and may end the process then."""

    def __init__(self, witness, fails_at, error):
        super().__init__()
        self._witness, self._fails_at, self._error = witness, fails_at, error

    def on_train_batch_end(self, batch, logs=None):
        self._witness.sees()
        if self._fails_at is not None and self.model.ledger.position >= self._fails_at:
            raise self._error


def session(start, folder, data, cross_entropy, rng, witness, layer, steps):
    """One process: it resumes the run, and ends somehow. Returns its ledger."""
    model = keras.Sequential([keras.Input((5,)), layer, keras.layers.Dense(3)])
    private = start(
        folder, resume=True, model=model, public_batch=None, checkpoint_every=4, steps=steps
    )
    keras.utils.set_random_seed(rng.randrange(10**6))  # other draws than before
    ledger = private.ledger
    for _ in range(rng.choice([1, 2, 3])):  # a process that survives may call fit again
        if not ledger.remaining_updates:
            break
        error = rng.choice([KeyboardInterrupt, ValueError, Killed])
        in_callback = rng.random() < 0.3
        fails_at = rng.randrange(1, 12)
        optimizer = Witnessed(0.1, private, witness, 0 if in_callback else fails_at, error)
        at_once = rng.choice([1, 3])
        private.compile(optimizer, cross_entropy, run_eagerly=True, steps_per_execution=at_once)

        look = Look(witness, fails_at if in_callback else None, error)
        try:
            private.fit(*data, verbose=0, callbacks=[look])
        except Killed:
            witness.forgets()
            break
        except BudgetExhaustedError:  # thrown away
            witness.forgets()
            break
        except (KeyboardInterrupt, ValueError):
            if private.is_erased:
                witness.forgets()
                break
            witness.sees()
    witness.sees()
    ledger.close()
    return ledger


def epsilon_of(releases, plan):
    """Of what was seen: m different releases of one lot are one of noise z / sqrt(m)."""
    q, z = plan.sampling_rate, plan.noise_multiplier
    counts = [len(seen) for seen in releases.values()]
    rdp = sum(counts.count(m) * rdp_of(dp_sgd_event(q, z / m**0.5, 1)) for m in set(counts))
    return rdp_to_epsilon(rdp, plan.delta)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(RUNS))
def test_nothing_that_was_released_is_uncounted(
    start, data, cross_entropy, tmp_path, monkeypatch, seed
):
    real = ledger_entries.settle_interrupted

    def of_the_living(*arguments):
        if not issubclass(sys.exc_info()[0], Killed):
            real(*arguments)

    monkeypatch.setattr(ledger_entries, "settle_interrupted", of_the_living)
    rng, witness = random.Random(seed), Witness()
    layer = [keras.layers.Dropout(0.5), Shaken(), keras.layers.Activation("linear")][seed % 3]
    steps = 12 if seed < 3 else 100
    for _ in range(7):
        ledger = session(start, tmp_path, data, cross_entropy, rng, witness, layer, steps)
        assert ledger.claimed_epsilon() <= ledger.plan.claimed_epsilon_after(ledger.plan.steps)
        released = sum(map(len, witness.releases.values()))
        # Without a key, as after the last update, the ledger keeps no lot apart any more.
        if bool(ledger._lots._uses) == bool(ledger._lots.shared):
            for (_, lot), seen in witness.releases.items():
                assert ledger._lots._uses.get(lot + 1, 1) >= len(seen)
        assert ledger.updates >= released
        if released:
            assert ledger.claimed_epsilon() >= epsilon_of(witness.releases, ledger.plan) * (
                1 - 1e-9
            )
