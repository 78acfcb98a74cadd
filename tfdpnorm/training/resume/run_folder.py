"""The folder of a run that can be resumed: its ledger, its secret key, its checkpoints."""

import hashlib
import os
import pathlib
import warnings

from tfdpnorm import files
from tfdpnorm.privacy import create_ledger, reopen_ledger
from tfdpnorm.privacy.rounding import ceil_text
from tfdpnorm.training.resume import checkpoints, secret_key
from tfdpnorm.training.resume.described import differences

LEDGER = "ledger.jsonl"

_COPY = (
    "What other copies of this run release: its folder was in another place when the run was "
    "resumed after {updates} counted updates, and from there it may go on as well. What this and "
    "the others release beyond these updates adds up, and no ledger counts all of it."
)
_KEY_LEFT = (
    f"Anybody who reads {secret_key.NAME} in the folder of this run, where it lies for as long as "
    "the run may go on: who has it can subtract the noise. finish() ends the run and deletes it."
)


class RunFolder:
    """Opens the folder of a run, and keeps it.

    What is in it: `ledger.jsonl` (see `tfdpnorm.privacy.ledger_file`), `secret.key`, from which
    noise and lots are drawn, and `checkpoint-<updates>/` folders, of which the last two are kept.
    A checkpoint appears whole or not at all. **Whoever reads `secret.key` can subtract the noise**:
    its mode is 0600, and it is deleted after the last planned update.

    The ledger says where its file lies (file system and inode). In another place the folder may be
    a copy, from another copy of which the run may go on too. Then a new key is drawn, so that no
    lot and no noise is used by both, and the ledger says that what both release adds up. Moving a
    folder within a file system is no copying.

    A resumed run trains on from the last checkpoint. The updates that the ledger counts beyond it
    are repeated with the same key, hence with the same lots and the same noise: they release what
    they released before, and are not counted twice. The ledger holds a number for what each update
    released; one that gives another result is counted again, and is thrown away where that would
    exceed the planned epsilon. All of them are counted again where the key is gone.

    Args:
        path: Folder; made if absent.
        plan: `tfdpnorm.privacy.PrivacyPlan`.
        settings: Dict of what else must not change (engine, clipping, ...).
        resume: Whether to resume the run that the folder holds, if any.
        insecure_seed: That of the run: then no secret is needed.

    Attributes:
        ledger: `tfdpnorm.privacy.PrivacyLedger`, written to the file.
        key: Bytes, or None with an insecure seed.
        checkpoint: Dict, the state of the checkpoint to resume from; None at the beginning.

    Raises:
        ValueError: if the folder holds a run and `resume` is False, or a run with another plan or
            other settings, or a ledger without a checkpoint, or the reverse.
        LedgerCorruptError: if the ledger was changed.
        OSError: if the folder cannot be made or written to.
    """

    def __init__(self, path, plan, settings, *, resume=False, insecure_seed=None):
        self.path = pathlib.Path(path)
        self.checkpoint = None
        if not resume:
            check_no_ledger(self.path)
        holds = (self.path / LEDGER).exists()
        if checkpoints.checkpoint_folders(self.path) and not holds:
            raise ValueError(
                f"Expected a {LEDGER} beside the checkpoints in {self.path}, got none: nobody "
                "knows what was spent. Bring it back, or name another run_dir."
            )
        files.make_folder(self.path, "run_dir")
        if holds:
            self.ledger = reopen_ledger(self.path / LEDGER, plan, settings)
            self.checkpoint = self._last_whole()
        else:
            self.ledger = create_ledger(self.path / LEDGER, plan, settings)
        if self.checkpoint is not None:
            self.ledger.check_reaches(tuple(self.checkpoint["ledger"]))
        self.key, is_old = None, insecure_seed is not None
        key = secret_key.read_key(self.path)
        is_copy = may_be_copy(self.ledger, key)
        if self._has_ended():
            # Without the key nothing tells, and copies of a run that has ended release nothing new.
            is_copy = is_copy and key is not None
            self.finish()
        elif not is_old:
            self.key, is_old = self._kept_key(is_copy)
        if self.checkpoint is not None:
            known = self.ledger.updates
            self.ledger.resume(self.checkpoint["updates"], same_randomness=is_old)
            if is_copy:
                self.ledger.exclude(_COPY.format(updates=known))
        if is_copy:
            # Last: a process that dies before this leaves a copy, which draws another key.
            note_place(self.ledger, self.key)

    def save(self, model, variables, callbacks=(), training=None):
        """Writes a checkpoint, whole or not at all, and removes old ones.

        Args:
            model: The Keras model.
            variables: Dict of lists of variables: "weights", those of the model, and others.
            callbacks: List of dicts of numbers, what callbacks remember.
            training: Dict of what `check_training` compares.

        Raises:
            OSError: if it cannot be written; then the last checkpoint is still there.
        """
        self.checkpoint = checkpoints.save_checkpoint(
            self.path,
            self.ledger.position,
            self.ledger.tail,
            model,
            variables,
            callbacks=callbacks,
            training=training or {},
        )

    def check_training(self, training):
        """Refuses to resume with another optimizer, loss, model, augmentation or public batch.

        Repeated updates would come out otherwise.

        Args:
            training: Dict of plain values by name, as for `save`.

        Raises:
            ValueError: with what differs from that of `checkpoint`.
        """
        known = self.checkpoint.get("training")
        if known is None:
            return  # A checkpoint of an earlier version: what differs shows in what is repeated.
        found = differences(known, training)
        if found:
            raise ValueError(
                f"Expected to resume {self.path} with the optimizer, loss, model, augmentation and "
                f"public batch that it was trained with, got others: {'; '.join(found)}. Nothing "
                "was trained or spent. Restore these settings, or name another run_dir; what this "
                "run has spent adds to what another one on the same data spends."
            )

    def restore(self, model, variables):
        """Gives all variables of a run the values of `checkpoint`.

        Args:
            model: The Keras model.
            variables: Dict of lists of variables, as they were saved.

        Raises:
            ValueError: if they are not those that were saved.
        """
        self._check_model(model)
        checkpoints.restore_all(self.path, self.checkpoint, variables)

    def restore_weights(self, model):
        """Gives a model the weights of `checkpoint`.

        Raises:
            ValueError: if it is another model.
        """
        self._check_model(model)
        checkpoints.restore_weights(self.path, self.checkpoint, model)

    def finish(self):
        """Deletes the secret key: the run is over, nothing will be repeated."""
        secret_key.delete_key(self.path)

    def remarks(self):
        """Returns a sentence if the secret key lies in the folder: a tuple."""
        return (_KEY_LEFT,) if secret_key.read_key(self.path) is not None else ()

    def _check_model(self, model):
        both = (self.checkpoint["weights"], checkpoints.described_weights(model))
        for old, new in zip(*([*lines, "nothing"] for lines in both), strict=False):
            if old != new:
                raise ValueError(
                    f"Expected the model that {self.path} was trained with, got another one: it "
                    f"had {old} where this one has {new}. Build the same model, or name another "
                    "run_dir."
                )

    def _last_whole(self):
        """The state of the newest checkpoint that is whole."""
        state, damaged = checkpoints.last_whole_state(self.path)
        if state is not None:
            return state
        if self.ledger.updates == 0 and not damaged:
            return None  # The run died before its first checkpoint, hence before its first update.
        raise ValueError(
            f"Expected a whole checkpoint in {self.path}, whose ledger counts "
            f"{self.ledger.updates} updates (epsilon {ceil_text(self.ledger.epsilon())}), got "
            f"{', '.join(damaged) or 'none'}. Bring it back from a copy, or name another run_dir; "
            "what was spent here adds to what another run on the same data spends."
        )

    def _lost_updates(self):
        """How many updates the ledger counts beyond the checkpoint."""
        return self.ledger.position - (self.checkpoint or {"updates": 0})["updates"]

    def _has_ended(self):
        if self.ledger.is_finished:
            return True
        return self.ledger.remaining_updates < 1 and not self._lost_updates()

    def _kept_key(self, is_copy):
        """The key in the folder, or a new one, and whether it is the old one."""
        if self.ledger.updates:
            key = secret_key.read_key(self.path)
            if key is not None and not is_copy:
                return key, True
            if self._lost_updates():
                what = f"the secret key of the run in {self.path / secret_key.NAME}, got none"
                if key is not None:
                    what = f"the folder of the run in its place, got {self.path}, maybe a copy"
                warnings.warn(
                    f"Expected {what}. A new key is drawn: the {self._lost_updates()} updates "
                    "after the last checkpoint are made anew and counted again.",
                    stacklevel=5,
                )
        return secret_key.new_key(self.path), False


def may_be_copy(ledger, key=None):
    """Whether a `LedgerFile` is not where it was last: its folder may have been copied.

    Args:
        ledger: The `LedgerFile`.
        key: The key that its place may have been noted under.
    """
    place = place_of(ledger.path)
    return ledger.place not in (place, _hidden(place, key))


def note_place(ledger, key=None):
    """Notes in a `LedgerFile` where it is, for `may_be_copy`.

    Under a key, for a ledger that is released: numbers of files are given in order, and that of a
    search's winner tells how many trials there may have been before it.
    """
    ledger.record_place(*_hidden(place_of(ledger.path), key))


def _hidden(place, key):
    """Two numbers that tell the place to those who have the key; the place itself without one."""
    if key is None:
        return place
    digest = hashlib.blake2b(repr(place).encode(), key=key, digest_size=16).digest()
    return tuple(int.from_bytes(half, "big") >> 1 for half in (digest[:8], digest[8:]))


def place_of(file):
    """Returns (file system, inode) of a file: two integers that no copy of it shares with it."""
    state = os.stat(file)
    return state.st_dev, state.st_ino


def check_no_ledger(path):
    """Raises ValueError if a folder holds a private run, before another one is begun there."""
    if (path / LEDGER).exists():
        raise ValueError(
            f"Expected run_dir to hold no run yet, got {path}, which has a {LEDGER}. Pass "
            "resume=True (--resume) to resume it, or name another folder; what this run has "
            "spent adds to what another one on the same data spends."
        )
