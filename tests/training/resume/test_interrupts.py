"""A process that survives an interrupt: what it may show is counted, and nothing is used twice.

What was really released is taken from the optimizer, which counts the updates that it applied.
"""

import errno
import os
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.data import _sampling
from tfdpnorm.privacy import BudgetExhaustedError, read_ledger
from tfdpnorm.training.step import ledger_entries

STEPS, AT_ONCE, FAILS_AT = 12, 4, 6  # within the second execution of four updates
PLENTY = 200  # steps of a plan that can afford to count some of them again


class Trap:
    """Raises at one call of those that it counts, then never again."""

    def __init__(self, error=None):
        self.calls, self._error, self.fails_at = 0, error, FAILS_AT

    def __call__(self):
        self.calls += 1
        if self.calls == self.fails_at:
            self.fail()

    def fail(self):
        raise self._error or KeyboardInterrupt


class Trapped(keras.optimizers.SGD):
    """Fails between two variables of an update: its noise is drawn, and half of it applied."""

    def __init__(self, trap):
        super().__init__(0.1)
        self._trap = trap

    def update_step(self, gradient, variable):
        if len(variable.shape) == 1 and variable.shape[0] == 3:  # the last bias
            tf.numpy_function(lambda: self._trap() or 0, [], tf.int64)
        super().update_step(gradient, variable)


def with_dropout():
    layers = [keras.layers.Dense(4), keras.layers.Dropout(0.5), keras.layers.Dense(3)]
    return keras.Sequential([keras.Input((5,)), *layers])


def without_dropout():
    layers = [keras.layers.Dense(4), keras.layers.Dense(3)]
    return keras.Sequential([keras.Input((5,)), *layers])


@pytest.fixture
def begun(start, tmp_path, cross_entropy, monkeypatch):
    """Returns a function to a private model whose second execution fails, once."""

    def make(where, model=with_dropout, resume=False, run_eagerly=False, **settings):
        trap, idle = Trap(), Trap()
        idle.fails_at = 0
        settings = {"checkpoint_every": AT_ONCE, "public_batch": None, **settings}
        private = start(tmp_path / "run", resume=resume, model=model(), **settings)
        # The optimizer of a resumed run has to be the same.
        optimizer = Trapped(trap if where in ("graph", "eager") else idle)
        if where == "lots":
            real = _sampling.poisson_rows
            monkeypatch.setattr(_sampling, "poisson_rows", lambda *a: trap() or real(*a))
        eager = run_eagerly or where == "eager"
        private.compile(
            optimizer,
            cross_entropy,
            run_eagerly=eager,
            steps_per_execution=1 if eager else AT_ONCE,
        )
        return private

    return make


def released(private):
    """Updates of which something is in the weights; the last may be there in part."""
    return int(private.optimizer.iterations)


def interrupt(private, data):
    with pytest.raises((KeyboardInterrupt, tf.errors.OpError)):
        private.fit(*data, verbose=0)
    assert private.ledger.position == int(private.update_count)
    assert not private.ledger.awaits_made


@pytest.mark.slow_cases("lots", "eager")
@pytest.mark.parametrize("where", ["graph", "lots", "eager"])
def test_what_was_shown_and_then_repeated_otherwise_is_counted(begun, data, tmp_path, where):
    private = begun(where, steps=PLENTY)
    interrupt(private, data)
    assert private.ledger.updates == (FAILS_AT if where == "eager" else 2 * AT_ONCE)
    assert read_ledger(tmp_path / "run" / "ledger.jsonl").updates == private.ledger.updates
    private.save_weights(str(tmp_path / "shown.weights.h5"))  # the first release
    shown = released(private)
    assert shown in (FAILS_AT - 1, FAILS_AT)
    private.ledger.close()
    again = begun("nowhere", resume=True, run_eagerly=where == "eager", steps=PLENTY)
    again.fit(*data, verbose=0, epochs=1, steps_per_epoch=STEPS)
    repeated = released(again) - AT_ONCE
    assert again.ledger.position > AT_ONCE and again.ledger.updates >= shown + repeated
    assert again.ledger.recounted >= FAILS_AT - AT_ONCE - 1
    # Each of the lots after the checkpoint that were used twice counts as one, with less noise.
    assert again.ledger.epsilon() > again.plan.epsilon_after(again.ledger.updates)


def test_what_the_budget_cannot_count_again_is_not_repeated(begun, data, tmp_path):
    private = begun("graph", without_dropout)
    interrupt(private, data)
    private.save_weights(str(tmp_path / "shown.weights.h5"))
    private.ledger.close()
    again = begun("nowhere", without_dropout, resume=True)
    of_checkpoint = again.model.get_weights()
    with pytest.raises(BudgetExhaustedError, match="weights are those of update 4 again"):
        again.fit(*data, verbose=0)
    for expected, found in zip(of_checkpoint, again.get_weights(), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert again.ledger.updates == 2 * AT_ONCE
    assert again.ledger.epsilon() <= again.ledger.planned_epsilon


@pytest.mark.slow_cases("lots", "eager")
@pytest.mark.parametrize("where", ["graph", "lots", "eager"])
def test_a_further_fit_uses_no_lot_of_the_interrupted_updates(begun, data, where, monkeypatch):
    private = begun(where, without_dropout)
    interrupt(private, data)
    position, shown = private.ledger.position, released(private)
    used, real = [], _sampling.keyed_bits
    monkeypatch.setattr(
        _sampling, "keyed_bits", lambda key, update: used.append(update) or real(key, update)
    )
    private.fit(*data, verbose=0)
    assert min(used) == position and private.ledger.updates == STEPS
    assert private.ledger.position == int(private.update_count) == STEPS
    assert shown < released(private) <= private.ledger.updates


@pytest.mark.slow
def test_without_a_folder_it_is_the_same(private, data, cross_entropy):
    trained = private(without_dropout(), steps=STEPS)
    trained.compile(Trapped(Trap()), cross_entropy, steps_per_execution=AT_ONCE)
    interrupt(trained, data)
    trained.fit(*data, verbose=0)
    assert trained.ledger.updates == STEPS >= released(trained)


@pytest.mark.parametrize("when", ["on_train_batch_begin", "on_train_batch_end", "on_epoch_end"])
@pytest.mark.slow_cases("on_*")
def test_a_callback_that_fails_leaves_nothing_uncounted(begun, data, when):
    trap = Trap()
    trap.fails_at = 2
    private = begun("nowhere")
    callback = keras.callbacks.LambdaCallback(**{when: lambda *_: trap()})
    with pytest.raises(KeyboardInterrupt):
        private.fit(*data, verbose=0, callbacks=[callback])
    ledger = private.ledger
    assert ledger.updates == ledger.position == int(private.update_count) == released(private) > 0
    private.fit(*data, verbose=0)
    assert ledger.updates == released(private) == STEPS


@pytest.mark.slow
def test_a_repetition_that_is_equal_is_confirmed_by_a_later_digest(begun, data, tmp_path):
    """Nothing was cut off: only the digest was not entered."""
    private = begun("nowhere", without_dropout)
    real, trap = private.ledger.record_made, Trap()
    trap.fails_at = 2
    private.ledger.record_made = lambda digest: trap() or real(digest)
    interrupt(private, data)
    del private.ledger.record_made
    assert private.ledger.updates == 2 * AT_ONCE
    private.fit(*data, verbose=0)
    expected = private.get_weights()
    private.ledger.close()
    # The last checkpoints are those after the interrupt; the run repeats nothing.
    again = begun("nowhere", without_dropout, resume=True)
    again.restore_run()
    assert again.ledger.updates == again.ledger.position == STEPS
    for a, b in zip(expected, again.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow_cases("graph-*")
@pytest.mark.parametrize(("where", "entry"), [("graph", b'"interrupted"'), ("nowhere", b'"made"')])
def test_if_it_cannot_be_entered_the_weights_are_erased(where, entry, begun, data, monkeypatch):
    """Also where an update was made whole, and a shorter entry would fit yet."""
    private = begun(where, without_dropout)
    real = os.write

    def full(descriptor, line):
        if entry in line:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, line)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(OSError, match="Expected to write to the ledger.*No space left"):
            private.fit(*data, verbose=0)
    assert all(np.isnan(w).all() for w in private.model.get_weights())
    assert not any(np.isfinite(v).any() for v in private.optimizer.variables() if v.shape.rank)
    with pytest.raises(RuntimeError, match="Expected a model with weights, got one whose .*erased"):
        private.fit(*data, verbose=0)
    private.ledger.close()
    # Nothing was shown: the repetition is free, as after a kill.
    again = begun("nowhere", without_dropout, resume=True)
    again.fit(*data, verbose=0)
    assert again.ledger.updates == again.ledger.position == STEPS
    assert all(np.isfinite(w).all() for w in again.get_weights())


@pytest.mark.slow
def test_a_second_interrupt_only_delays_the_entry(begun, data, monkeypatch):
    private = begun("graph", without_dropout)
    with monkeypatch.context() as patched:
        patched.setattr(ledger_entries, "settle_interrupted", lambda *_: Trap().fail())
        with pytest.raises(KeyboardInterrupt):
            private.fit(*data, verbose=0)
    assert private.ledger.awaits_made
    private.get_weights()
    assert not private.ledger.awaits_made and private.ledger.position == int(private.update_count)


@pytest.mark.slow
def test_a_fork_of_the_process_does_not_train(begun, data):
    """It has the same key and, without a folder, a ledger of its own."""
    private = begun("nowhere", without_dropout)
    with mock.patch("os.getpid", lambda: -1), pytest.raises(RuntimeError, match="a fork of it"):
        private.fit(*data, verbose=0)
    assert private.ledger.updates == 0
