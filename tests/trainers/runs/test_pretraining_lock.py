"""Processes that want the same pre-trained network at once: one trains it, the others wait."""

import fcntl
import os
import threading

import numpy as np

from tfdpnorm.data import Examples
from trainers.davody import cells as davody
from trainers.runs import pretraining
from trainers.runs.pretraining import _PublicTraining

IMAGES = np.random.default_rng(0).random((20, 12, 12, 3), np.float32)


def test_the_lock_is_waited_for_and_held_while_it_trains(monkeypatch, tmp_path):
    """flock asks for the open file, not for the process."""
    public = Examples("cifar100", "train", IMAGES, np.arange(20) % 10, 10, is_complete=True)
    monkeypatch.setattr(pretraining, "load_examples", lambda *_: public)
    spec = davody.spec("cifar10", "none", 8.0, pretraining_epochs=1)
    waits, seen = threading.Event(), []
    training = _PublicTraining(spec, (12, 12, 3), None, tmp_path, lambda line: waits.set())

    def taken():
        descriptor = os.open(training.folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    monkeypatch.setattr(_PublicTraining, "_train", lambda *_: seen.append(taken()))
    other = taken()
    thread = threading.Thread(target=training.network)
    thread.start()
    assert waits.wait(60) and seen == [], "it did not wait"
    os.close(other)
    thread.join(60)
    assert seen == [None], "the lock was held"
    os.close(taken())
    training.network()
    assert seen == [None], "it is trained once"
