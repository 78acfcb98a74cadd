"""Folders that were copied, and runs that were ended: what copies release adds up, and they say so.

No secret lies in a folder, so that no two copies can share batches or noise.
"""

import os
import shutil

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm.privacy import BudgetExhaustedError, read_ledger
from tfdpnorm.privacy.entries import Finish
from tfdpnorm.training.resume import run_folder

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


def go_on(start, folder, data):
    private = start(folder, resume=True)
    private.fit(*data, verbose=0)
    private.ledger.close()
    return private


def copies_in(private):
    return str(private.ledger.state.sentences("not_covered")).count("Other copies of this run")


def test_a_copy_goes_on_as_a_run_of_its_own_and_says_so(start, stopped, data, tmp_path):
    shutil.copytree(stopped, tmp_path / "copy")
    copy = go_on(start, tmp_path / "copy", data)
    original = go_on(start, stopped, data)
    for run in (copy, original):
        assert (run.ledger.updates, run.ledger.state.position) == (STEPS, STEPS - 2)
    sentence = f"when the run was resumed after {AFTER} spent updates"
    assert sentence in copy.privacy_statement() and copies_in(copy) == 1
    assert sentence not in original.privacy_statement() and not copies_in(original)
    different = zip(copy.get_weights(), original.get_weights(), strict=True)
    assert all(np.all(a != b) for a, b in different), "other noise on every weight"


def test_a_ledger_does_not_show_the_number_of_its_file(stopped):
    """That of a search's winner would tell how many files there were before it."""
    state = (stopped / "ledger.jsonl").stat()
    assert (stopped / "place").read_text() == f"{state.st_dev} {state.st_ino}\n"
    assert str(state.st_ino) not in (stopped / "ledger.jsonl").read_text()


@pytest.mark.slow
def test_a_run_that_has_ended_is_opened_again_wherever_it_is(start, stopped, data, tmp_path):
    """Copies of it release nothing new."""
    go_on(start, stopped, data)
    for folder in (stopped, shutil.copytree(stopped, tmp_path / "copy")):
        os.remove(folder / "place")
        again = start(folder, resume=True)
        assert not copies_in(again) and not (folder / "place").exists()
        again.ledger.close()


@pytest.mark.slow
def test_a_copy_says_once_that_it_is_one(start, stopped, data, tmp_path):
    shutil.copytree(stopped, tmp_path / "copy")
    start(tmp_path / "copy", resume=True).ledger.close()
    again = go_on(start, tmp_path / "copy", data)
    assert copies_in(again) == 1


@pytest.mark.slow
def test_a_folder_that_was_moved_is_no_copy(start, stopped, data, tmp_path):
    assert not copies_in(go_on(start, stopped.rename(tmp_path / "elsewhere"), data))


@pytest.mark.parametrize("harm", ["gone", "folder", "bytes", "empty"])
def test_a_folder_that_does_not_say_where_it_was_may_be_a_copy(start, stopped, harm):
    place = stopped / "place"
    place.unlink()
    if harm == "folder":
        place.mkdir()
        place.rmdir()
    elif harm != "gone":
        place.write_bytes(b"\xff\x00" if harm == "bytes" else b"")
    again = start(stopped, resume=True)
    assert copies_in(again) == 1 and "Other copies of this run" in again.privacy_statement()
    assert again.ledger.state.remaining_updates == STEPS - AFTER


def test_the_ledger_says_it_before_the_place_is_noted(start, stopped, tmp_path, monkeypatch):
    """A process that dies in between leaves what the next one takes for a copy."""
    shutil.copytree(stopped, tmp_path / "copy")
    with monkeypatch.context() as patched:
        patched.setattr(run_folder, "note_place", lambda ledger: (_ for _ in ()).throw(OSError()))
        with pytest.raises(OSError):
            start(tmp_path / "copy", resume=True)
    copied = read_ledger(tmp_path / "copy" / "ledger.jsonl")
    assert "Other copies" in str(copied.state.sentences("not_covered"))
    assert copies_in(start(tmp_path / "copy", resume=True)) == 1


def test_a_copy_of_what_was_never_trained_is_another_run(start, data, tmp_path):
    start(tmp_path / "run").ledger.close()
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    assert not copies_in(go_on(start, tmp_path / "copy", data))


def test_a_run_that_was_ended_makes_no_update(start, data, tmp_path):
    private = start(tmp_path)
    private.fit(*data, verbose=0, epochs=1)
    private.ledger.record(Finish())
    private.ledger.record(Finish())
    with pytest.raises(BudgetExhaustedError, match="the run was ended, with 4 spent"):
        private.fit(*data, verbose=0)
    with pytest.raises(BudgetExhaustedError, match="the run was ended, with 4 spent"):
        private.train_on_batch(data[0][:5], data[1][:5])
    expected = private.get_weights()
    private.ledger.close()
    again = start(tmp_path, resume=True)
    again.restore_run()
    for a, b in zip(expected, again.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(BudgetExhaustedError, match="was ended, with 4 spent"):
        again.fit(*data, verbose=0)
    assert again.ledger.updates == 4
