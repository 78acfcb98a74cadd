"""Checkpoints that cannot be written: what the error says is left of the run."""

import shutil

import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.privacy.entries import Updates
from tfdpnorm.training.resume.run_folder import RunFolder


@pytest.fixture
def folder(tmp_path, small_plan):
    return RunFolder(tmp_path / "run", small_plan, {})


def failed(folder, monkeypatch):
    """What the error says after its first sentence, when the disk is full."""

    def write(*_, **__):
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    with monkeypatch.context() as patched:
        patched.setattr(tf.train.Checkpoint, "write", write)
        with pytest.raises(OSError, match="run/checkpoint-") as told:
            folder.save(model, {})
    return str(told.value).split(". ", 1)[1]


def saved(folder, updates):
    folder.ledger.record(Updates(updates))
    folder.save(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]), {})


REPAIR = "repair the folder, then resume with resume=True (--resume)."


def test_the_first_one(folder, monkeypatch):
    assert failed(folder, monkeypatch) == f"It is the first one, and no update is spent: {REPAIR}"
    folder.ledger.close()
    assert RunFolder(folder.path, folder.ledger.plan, {}, resume=True).checkpoint is None


def test_one_after_others(folder, monkeypatch):
    saved(folder, 2)
    folder.ledger.record(Updates(1))
    said = f"The checkpoint of update 2 and the ledger are intact: {REPAIR}"
    assert failed(folder, monkeypatch) == said
    folder.ledger.close()
    again = RunFolder(folder.path, folder.ledger.plan, {}, resume=True)
    assert again.checkpoint["updates"] == 2


def test_the_others_are_gone(folder, monkeypatch):
    saved(folder, 2)
    shutil.rmtree(folder.path / "checkpoint-00000002")
    said = failed(folder, monkeypatch)
    assert "no intact checkpoint before it: this run cannot be resumed" in said
    assert "counts 2 updates (epsilon " in said


def test_the_whole_folder_is_gone(folder, monkeypatch):
    saved(folder, 2)
    shutil.rmtree(folder.path)
    said = failed(folder, monkeypatch)
    assert said.startswith("The ledger.jsonl is gone as well: this run cannot be resumed.")
    assert "It has spent 2 updates (epsilon " in said and REPAIR not in said
