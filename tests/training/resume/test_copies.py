"""Folders that were copied: what copies release adds up.

No secret lies in a folder, so that no two copies can share batches or noise.
"""

import shutil

import numpy as np
import pytest
from tensorflow import keras

from tests.statements import section

STEPS, AFTER = 12, 8  # checkpoints every 3 updates: the last one before a stop after 8 is of 6


@pytest.fixture
def start(start, build):
    """With a small model, which is traced faster."""

    def make(run_dir, **settings):
        return start(run_dir, model=build("functional"), public_batch=None, **settings)

    return make


@pytest.fixture
def stopped(start, data, tmp_path):
    """The folder of a run that stopped after some updates, as a crash leaves it."""
    private = start(tmp_path / "run")

    def stop(batch, logs):
        if private.ledger.state.position == AFTER:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        private.fit(
            *data, verbose=0, callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=stop)]
        )
    private.ledger.close()
    return tmp_path / "run"


def assumes_no_copy(private):
    remarks = section(private.privacy_statement(), "Not covered")
    return any(remark.startswith("Copies of this run: ") for remark in remarks)


def go_on(start, folder, data):
    private = start(folder, resume=True)
    private.fit(*data, verbose=0)
    private.ledger.close()
    return private


def test_resumed_runs_assume_that_no_copy_goes_on(start, stopped, data, tmp_path):
    """Also where a copy took the inode of the original, which is removed: it cannot be told."""
    shutil.copytree(stopped, tmp_path / "copy")
    original = go_on(start, stopped, data)
    shutil.rmtree(stopped)
    shutil.copytree(tmp_path / "copy", stopped)
    restored = go_on(start, stopped, data)
    for run in (original, restored):
        assert (run.ledger.updates, run.ledger.state.position) == (STEPS, STEPS - 2)
        assert assumes_no_copy(run)
    different = zip(restored.get_weights(), original.get_weights(), strict=True)
    assert all(np.all(a != b) for a, b in different), "other noise on every weight"
