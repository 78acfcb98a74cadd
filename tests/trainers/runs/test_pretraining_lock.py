"""Processes that want the same pre-trained network or features at once: one makes them."""

import fcntl
import os
import threading

import numpy as np
import pytest

from tfdpnorm.data import Examples
from trainers.davody import cells as davody
from trainers.runs import pretraining
from trainers.runs.pretraining import _PublicTraining

IMAGES = np.random.default_rng(0).random((20, 12, 12, 3), np.float32)
WAITING = "another process is working"


@pytest.fixture
def training(monkeypatch, tmp_path):
    """A `_PublicTraining` on few public images, and the lines that it shows."""
    public = Examples("cifar100", "train", IMAGES, np.arange(20) % 10, 10, is_complete=True)
    monkeypatch.setattr(pretraining, "load_examples", lambda *_: public)
    spec = davody.spec("cifar10", "none", 8.0, pretraining_epochs=1)
    lines = []
    public_training = _PublicTraining(spec, (12, 12, 3), None, tmp_path, lines.append)
    public_training.lines = lines
    return public_training


class Holder:
    """Another process's lock; flock asks for the open file, not for the process."""

    def __init__(self, folder):
        self.descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def let_go(self):
        os.close(self.descriptor)


def while_another_works(training, call, finish):
    """What `call` returns that had to wait until another process was done with `finish`."""
    holder, waits, results = Holder(training.folder), threading.Event(), []

    def echo(line):
        training.lines.append(line)
        if WAITING in line:
            waits.set()

    training.echo = echo
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    try:
        assert waits.wait(60), "it did not wait"
        assert results == [] and thread.is_alive()
        finish()
    finally:
        holder.let_go()
    thread.join(60)
    (result,) = results
    return result


def test_who_waited_for_one_that_died_does_it_itself(training):
    features = while_another_works(
        training,
        lambda: training.features(lambda x, training: 2 * x[:, 0, 0], IMAGES),
        lambda: None,
    )
    np.testing.assert_allclose(features, 2 * IMAGES[:, 0, 0], rtol=1e-6)


def test_the_lock_is_held_while_it_works_and_not_after(training, monkeypatch):
    seen = []

    def locked():
        try:
            Holder(training.folder).let_go()
        except BlockingIOError:
            return True
        return False

    monkeypatch.setattr(_PublicTraining, "_train", lambda *_: seen.append(locked()))

    def network(x, training):
        return x

    training.network()
    plain = np.save
    monkeypatch.setattr(np, "save", lambda *given: (seen.append(locked()), plain(*given)))
    training.features(network, IMAGES)
    assert seen == [True, True] and not locked()

    def fails(*_):
        raise MemoryError

    monkeypatch.setattr(np, "save", fails)
    with pytest.raises(MemoryError):
        training.features(network, IMAGES[:3])
    assert not locked()
