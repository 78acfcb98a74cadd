"""Folders that were copied, and runs that were ended: no two ledgers share lots or noise."""

import shutil

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm.data import _sampling
from tfdpnorm.privacy import BudgetExhaustedError, read_ledger, reopen_ledger
from tfdpnorm.privacy.ledger_file import LedgerFile

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
        if private.ledger.position == AFTER:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        private.fit(
            *data, verbose=0, callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=stop)]
        )
    private.ledger.close()
    return tmp_path / "run"


@pytest.fixture
def lots(monkeypatch):
    """The (key, update) of every lot that is drawn."""
    drawn, real = set(), _sampling.keyed_bits
    monkeypatch.setattr(
        _sampling, "keyed_bits", lambda key, update: drawn.add((key, update)) or real(key, update)
    )
    return drawn


def go_on(start, folder, data):
    private = start(folder, resume=True)
    private.fit(*data, verbose=0)
    private.ledger.close()
    return private


def test_a_copy_shares_no_lot_and_says_so(start, stopped, data, lots, tmp_path):
    shutil.copytree(stopped, tmp_path / "copy")
    with pytest.warns(UserWarning, match="maybe a copy. A new key is drawn: the 2 updates"):
        copy = go_on(start, tmp_path / "copy", data)
    of_the_copy = set(lots)
    lots.clear()
    original = go_on(start, stopped, data)
    assert lots and of_the_copy and not lots & of_the_copy
    assert original.ledger.recounted == 0 and original.ledger.position == STEPS
    # The two lost updates are made on other lots, and counted.
    assert copy.ledger.recounted == 2 and copy.ledger.updates == STEPS
    sentence = f"when the run was resumed after {AFTER} counted updates"
    assert sentence in copy.privacy_statement() and "other copies of this run" in str(
        copy.ledger.excluded
    )
    assert sentence not in original.privacy_statement()
    different = zip(copy.get_weights(), original.get_weights(), strict=True)
    assert any(np.any(a != b) for a, b in different)


def test_a_ledger_does_not_show_the_number_of_its_file(stopped):
    """That of a search's winner would tell how many files there were before it."""
    state, place = (stopped / "ledger.jsonl").stat(), read_ledger(stopped / "ledger.jsonl").place
    assert place is not None and not {state.st_dev, state.st_ino} & set(place)


def test_a_run_whose_ledger_shows_it_goes_on(start, stopped, data):
    """Those of versions before."""
    ledger = read_ledger(stopped / "ledger.jsonl")
    ledger = reopen_ledger(stopped / "ledger.jsonl", ledger.plan, ledger.settings)
    state = (stopped / "ledger.jsonl").stat()
    ledger.record_place(state.st_dev, state.st_ino)
    ledger.close()
    again = go_on(start, stopped, data)
    assert again.ledger.recounted == 0 and "copies" not in again.privacy_statement()


def test_a_run_that_has_ended_is_opened_again_in_its_place(start, stopped, data):
    go_on(start, stopped, data)
    again = start(stopped, resume=True)
    assert "copies" not in again.privacy_statement()


@pytest.mark.slow
def test_a_copy_goes_on_as_the_run_that_it_has_become(start, stopped, data, tmp_path):
    shutil.copytree(stopped, tmp_path / "copy")
    with pytest.warns(UserWarning, match="maybe a copy"):
        start(tmp_path / "copy", resume=True).ledger.close()
    again = go_on(start, tmp_path / "copy", data)
    assert str(again.ledger.excluded).count("other copies of this run") == 1
    assert again.ledger.recounted == 2


@pytest.mark.slow
def test_a_folder_that_was_moved_is_no_copy(start, stopped, data, tmp_path):
    moved = go_on(start, stopped.rename(tmp_path / "elsewhere"), data)
    assert moved.ledger.recounted == 0 and "copies" not in moved.privacy_statement()


def test_a_folder_that_does_not_say_where_it_was_may_be_a_copy(start, stopped, monkeypatch):
    """Those of older versions."""
    with monkeypatch.context() as patched:
        patched.setattr(LedgerFile, "place", None)
        before = (stopped / "secret.key").read_text()
        with pytest.warns(UserWarning, match="maybe a copy"):
            again = start(stopped, resume=True)
    assert (stopped / "secret.key").read_text() != before
    assert again.ledger.remaining_updates == STEPS - AFTER
    assert "other copies of this run" in again.privacy_statement()


def test_a_run_that_was_ended_makes_no_update_and_has_no_key(start, data, tmp_path):
    private = start(tmp_path)
    private.fit(*data, verbose=0, epochs=1)
    key = tmp_path / "secret.key"
    kept = key.read_bytes()
    assert "secret.key in the folder of this run" in private.privacy_statement()
    private.finish()
    private.finish()
    assert not key.exists() and "secret.key" not in private.privacy_statement()
    with pytest.raises(BudgetExhaustedError, match="got a run that finish.. ended, with 4 made"):
        private.fit(*data, verbose=0)
    expected = private.get_weights()
    private.ledger.close()
    key.write_bytes(kept)  # as of a process that died between the entry and the deletion
    again = start(tmp_path, resume=True)
    assert not key.exists()
    again.restore_run()
    for a, b in zip(expected, again.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(BudgetExhaustedError, match="ended, with 4 made"):
        again.fit(*data, verbose=0)
    assert again.ledger.updates == 4


def test_without_a_folder_a_run_ends_too(private, build, data, cross_entropy):
    trained = private(build())
    trained.compile("sgd", cross_entropy)
    trained.finish()
    with pytest.raises(BudgetExhaustedError, match="finish.. ended"):
        trained.fit(*data, verbose=0)
    with pytest.raises(BudgetExhaustedError, match="finish.. ended"):
        trained.train_on_batch(data[0][:5], data[1][:5])
