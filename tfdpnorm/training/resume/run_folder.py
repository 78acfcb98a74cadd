"""The folder of a run that can be taken up again: its ledger, its secret key, its checkpoints."""

import hashlib
import json
import os
import pathlib
import secrets
import shutil
import warnings

import tensorflow as tf

from tfdpnorm.privacy import create_ledger, reopen_ledger
from tfdpnorm.privacy.rounding import ceil_text

LEDGER = "ledger.jsonl"
KEY = "secret.key"
STATE = "state.json"
_VARIABLES = "variables"
_KEPT = 2


class RunFolder:
    """Opens the folder of a run, and keeps it.

    What is in it: `ledger.jsonl` (see `tfdpnorm.privacy.ledger_file`), `secret.key`, from which
    noise and lots are drawn, and `checkpoint-<updates>/` folders, of which the last two are kept.
    A checkpoint appears whole or not at all. **Whoever reads `secret.key` can subtract the noise**:
    its mode is 0600, and it is deleted after the last planned update.

    After a crash training goes on from the last checkpoint. The updates that the ledger counts
    beyond it are repeated with the same key, hence with the same lots and the same noise: they
    release what they released before, and are not counted twice. The ledger holds a number for
    what each update released; one that comes out otherwise is counted again. So are all of them
    where the key is gone.

    Args:
        path: Folder; made if absent.
        plan: `tfdpnorm.privacy.PrivacyPlan`.
        details: Dict of what else must not change (engine, clipping, ...).
        resume: Whether to go on with what the folder holds, if anything.
        insecure_seed: That of the run: then no secret is needed.

    Attributes:
        ledger: `tfdpnorm.privacy.PrivacyLedger`, written to the file.
        key: Bytes, or None with an insecure seed.
        checkpoint: Dict, the state of the checkpoint to go on from; None at the beginning.

    Raises:
        ValueError: if the folder holds a run and `resume` is False, or a run with another plan or
            other details, or a ledger without a checkpoint, or the reverse.
        LedgerCorruptError: if the ledger was changed.
        OSError: if the folder cannot be made or written to.
    """

    def __init__(self, path, plan, details, *, resume=False, insecure_seed=None):
        self.path = pathlib.Path(path)
        self.checkpoint = None
        if not resume:
            check_no_ledger(self.path)
        holds = (self.path / LEDGER).exists()
        checkpoints = sorted(self.path.glob("checkpoint-*[0-9]"), reverse=True)
        if checkpoints and not holds:
            raise ValueError(
                f"Expected a {LEDGER} beside the checkpoints in {self.path}, got none: nobody "
                "knows what was spent. Bring it back, or name another run_dir."
            )
        make_run_dir(self.path)
        if holds:
            self.ledger = reopen_ledger(self.path / LEDGER, plan, details)
            self.checkpoint = self._last_whole(checkpoints)
        else:
            self.ledger = create_ledger(self.path / LEDGER, plan, details)
        self.key, is_old = None, insecure_seed is not None
        if not is_old and not self._has_ended():
            self.key, is_old = self._kept_key()
        if self.checkpoint is not None:
            self.ledger.check_reaches(tuple(self.checkpoint["ledger"]))
            self.ledger.resume(self.checkpoint["updates"], same_randomness=is_old)

    def save(self, model, variables, callbacks=()):
        """Writes a checkpoint, whole or not at all, and removes old ones.

        Args:
            model: The Keras model.
            variables: Dict of lists of variables: "weights", those of the model, and others.
            callbacks: List of dicts of numbers, what callbacks remember.

        Raises:
            OSError: if it cannot be written; then the last checkpoint is still there.
        """
        updates = self.ledger.position
        final = self.path / f"checkpoint-{updates:08d}"
        partial = self.path / f"{final.name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        try:
            partial.mkdir()
            tf.train.Checkpoint(**variables).write(str(partial / _VARIABLES))
            state = {
                "updates": updates,
                "ledger": list(self.ledger.tail),
                "weights": _weights(model),
                "callbacks": list(callbacks),
                "files": {file.name: _digest(file) for file in sorted(partial.iterdir())},
            }
            (partial / STATE).write_text(json.dumps(state, indent=1) + "\n")
            for file in (*partial.iterdir(), partial):
                _flush(file)
            shutil.rmtree(final, ignore_errors=True)
            os.rename(partial, final)
            _flush(self.path)
        except (OSError, tf.errors.OpError) as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise OSError(
                f"Expected to write a checkpoint to {final}, got: {_reason(error)}. The checkpoint "
                "before it and the ledger are whole: mend the folder, then go on with resume=True "
                "(--resume)."
            ) from error
        self.checkpoint = state
        for old in sorted(self.path.glob("checkpoint-*[0-9]"))[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)

    def restore(self, model, variables):
        """Gives all variables of a run the values of `checkpoint`.

        Args:
            model: The Keras model.
            variables: Dict of lists of variables, as they were saved.

        Raises:
            ValueError: if they are not those that were saved.
        """
        self._check_model(model)
        try:
            status = tf.train.Checkpoint(**variables).read(self._prefix())
            status.assert_existing_objects_matched()
            status.assert_consumed()
        except (AssertionError, ValueError, tf.errors.OpError) as error:
            raise ValueError(
                f"Expected the optimizer and the callbacks that {self.path} was trained with, got "
                f"others: {_first_line(error)} Use the same ones, or name another run_dir."
            ) from None

    def restore_weights(self, model):
        """Gives a model the weights of `checkpoint`.

        Raises:
            ValueError: if it is another model.
        """
        self._check_model(model)
        checkpoint = tf.train.Checkpoint(weights=list(model.weights))
        checkpoint.read(self._prefix()).expect_partial()

    def finish(self):
        """Deletes the secret key: the planned updates are made, none will be repeated."""
        (self.path / KEY).unlink(missing_ok=True)

    def _prefix(self):
        return str(self.path / f"checkpoint-{self.checkpoint['updates']:08d}" / _VARIABLES)

    def _check_model(self, model):
        both = [[*lines, "nothing"] for lines in (self.checkpoint["weights"], _weights(model))]
        for old, new in zip(*both, strict=False):
            if old != new:
                raise ValueError(
                    f"Expected the model that {self.path} was trained with, got another one: it "
                    f"had {old} where this one has {new}. Build the same model, or name another "
                    "run_dir."
                )

    def _last_whole(self, checkpoints):
        """The state of the newest checkpoint that is whole."""
        damaged = []
        for folder in checkpoints:
            try:
                state = _whole_state(folder)
            except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
                damaged.append(f"{folder.name} ({_first_line(error)})")
                continue
            if damaged:
                warnings.warn(
                    f"Expected whole checkpoints in {self.path}, got damaged ones: "
                    f"{', '.join(damaged)}. Going on from {folder.name}.",
                    stacklevel=2,
                )
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
        return self.ledger.updates >= self.ledger.plan.steps and not self._lost_updates()

    def _kept_key(self):
        """The key in the folder, or a new one, and whether it is the old one."""
        file = self.path / KEY
        if self.ledger.updates:
            try:
                key = bytes.fromhex(file.read_text())
                if len(key) == 32:
                    return key, True
            except (OSError, ValueError):
                pass
            if self._lost_updates():
                warnings.warn(
                    f"Expected the secret key of the run in {file}, got none. A new one is drawn: "
                    f"the {self._lost_updates()} updates after the last checkpoint are made anew "
                    "and counted again.",
                    stacklevel=4,
                )
        key = secrets.token_bytes(32)
        try:
            file.unlink(missing_ok=True)
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as opened:
                opened.write(key.hex())
        except OSError as error:
            raise OSError(
                f"Expected to write the secret key of the run to {file}, got: {_reason(error)}. "
                "Remove what is there."
            ) from error
        _flush(file)
        _flush(self.path)
        return key, False


def check_no_ledger(path):
    """Raises ValueError if a folder holds a private run, before another one is begun there."""
    if (path / LEDGER).exists():
        raise ValueError(
            f"Expected run_dir to hold no run yet, got {path}, which has a {LEDGER}. Pass "
            "resume=True (--resume) to go on with it, or name another folder; what this run has "
            "spent adds to what another one on the same data spends."
        )


def make_run_dir(path):
    """Makes the folder of a run; raises OSError if it cannot be made or written to."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".writable"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise OSError(
            f"Expected run_dir to be a folder that can be written to, got {path}: "
            f"{_reason(error)}. Name another one."
        ) from error


def _weights(model):
    """The model's weights as JSON can hold them: one line of text for each.

    Names are left out: Keras numbers them anew in each process.
    """
    trained = {id(v) for v in model.trainable_weights}
    return [
        f"a {'trained' if id(v) in trained else 'constant'} weight {list(v.shape)} {v.dtype.name}"
        for v in model.weights
    ]


def _whole_state(folder):
    state = json.loads((folder / STATE).read_text())
    for name, digest in state["files"].items():
        if _digest(folder / name) != digest:
            raise ValueError(f"{name} is not what was written")
    lines, checksum = state["ledger"]
    if not isinstance(lines, int) or not isinstance(checksum, str):
        raise ValueError(f"{STATE} has no place in the ledger")
    if not all(isinstance(line, str) for line in state["weights"]):
        raise ValueError(f"{STATE} has no weights")
    if folder.name != f"checkpoint-{state['updates']:08d}" or not state["files"]:
        raise ValueError(f"{STATE} is of another checkpoint")
    return state


def _digest(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _flush(path):
    """Has the operating system write a file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _reason(error):
    return getattr(error, "strerror", None) or _first_line(error)


def _first_line(error):
    return (str(error).splitlines() or [type(error).__name__])[0]
