"""The folder of a run that can be resumed: its ledger and its checkpoints."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from typing import TYPE_CHECKING, Protocol

import tensorflow as tf

from tfdpnorm import arguments, files
from tfdpnorm.errors import PrivacyError
from tfdpnorm.keras_compat.variables import weights
from tfdpnorm.privacy import create_ledger, reopen_ledger
from tfdpnorm.privacy.entries import Resume
from tfdpnorm.privacy.rounding import ceil_text
from tfdpnorm.training.resume import checkpoints

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tensorflow import keras

    from tfdpnorm.privacy.plan import PrivacyPlan

LEDGER, STATEMENT = "ledger.jsonl", "privacy_statement"


@dataclasses.dataclass(frozen=True)
class RunDir:
    """The folder in which a run is kept, so that it survives a crash.

    Attributes:
        path: Folder for the ledger, written before each update, and for checkpoints; see
            `RunFolder`.
        resume: Resume the run that the folder holds, or start one if it holds none. It continues
            from its last checkpoint, with new noise and new batches; the updates after that
            checkpoint are lost, and stay spent. What the guarantee rests on must be as it was: the
            plan, the statistics, the noise, the bound on rounding. Optimizer, learning rate, engine
            and physical batch size may be others.
        checkpoint_every: Updates between checkpoints; None for a fiftieth of the plan, so that a
            crash costs at most 2 % of the updates (at least one, and an execution of several).

    Raises:
        ValueError: for a value out of its range.

    Example::

        run_dir = tfdpnorm.RunDir("run", resume=True)
        private = tfdpnorm.make_private(model, plan, public_batch=public_rows, run_dir=run_dir)
    """

    path: str | os.PathLike
    resume: bool = False
    checkpoint_every: int | None = None

    def __post_init__(self):
        if self.checkpoint_every is not None:
            arguments.integer(
                "checkpoint_every", self.checkpoint_every, at_least=1, wrong_type=ValueError
            )

    @classmethod
    def of(cls, path: RunDir | str | os.PathLike | None) -> RunDir | None:
        """Returns a `RunDir` as it is; a path in one; None for None."""
        return path if path is None or isinstance(path, cls) else cls(path)


class RunFolder:
    """Opens the folder of a run, and keeps it.

    What is in it: `ledger.jsonl` (see `tfdpnorm.privacy.journal`), `checkpoint-<updates>/` folders,
    of which the last two are kept, `verified-*.json.gz`, which `tfdpnorm-verify` reads, and at the
    end the privacy statement. A checkpoint appears whole or not at all. No secret is in it.

    A resumed run continues from its last whole checkpoint, with new noise and new batches. The
    updates that the ledger counts beyond the checkpoint are lost, and stay spent.

    A copy of the folder, or an earlier state of it that was restored, looks like the run itself.
    The statement of a resumed run says what is assumed of them.

    Args:
        path: Folder; made if absent.
        plan: `tfdpnorm.privacy.PrivacyPlan`.
        settings: Dict of further settings that the guarantee depends on and must not change.
        resume: Whether to resume the run that the folder holds, if any.

    Attributes:
        ledger: `tfdpnorm.privacy.PrivacyLedger`, written to the file.
        checkpoint: Dict, the state of the checkpoint to resume from; None at the beginning.

    Raises:
        ValueError: if the folder holds a run and `resume` is False, or a run with another plan or
            other settings, or a ledger without a checkpoint, or the reverse.
        LedgerCorruptError: if the ledger was changed.
        OSError: if the folder cannot be made or written to.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        plan: PrivacyPlan,
        settings: dict[str, Any],
        *,
        resume: bool = False,
    ) -> None:
        self.path = pathlib.Path(path)
        self.checkpoint = None
        if not resume:
            check_no_ledger(self.path)
        holds = (self.path / LEDGER).exists()
        if checkpoints.checkpoint_folders(self.path) and not holds:
            raise PrivacyError(
                f"The {LEDGER} that belongs to the checkpoints in {self.path} is missing: the "
                "budget spent is unknown. Restore it, or name another run_dir."
            )
        files.make_folder(self.path, "run_dir")
        if holds:
            self.ledger = reopen_ledger(self.path / LEDGER, plan, settings)
            self.checkpoint = self._last_whole()
        else:
            self.ledger = create_ledger(self.path / LEDGER, plan, settings)
        if self.checkpoint is not None:
            self.ledger.file.check_reaches(tuple(self.checkpoint["ledger"]))
            state, updates = self.ledger.state, self.checkpoint["updates"]
            # A run that made all of its updates, and lost none, is read, not resumed.
            if state.remaining_updates or updates != state.position:
                self.ledger.record(Resume(updates))

    def save(
        self,
        model: keras.Model,
        variables: Any,
        callbacks: Sequence[dict] = (),
        physical_batch_size: int | None = None,
    ) -> None:
        """Writes a checkpoint as `checkpoints.save_checkpoint` does, and removes old ones.

        Raises OSError if it cannot be written; it says what the folder still has.
        """
        try:
            self.checkpoint = checkpoints.save_checkpoint(
                self.path,
                self.ledger.state.position,
                self.ledger.file.tail,
                model,
                variables,
                callbacks=callbacks,
                physical_batch_size=physical_batch_size,
            )
        except OSError as error:
            raise OSError(f"{error} {self._what_is_left()}") from error

    def restore_weights(self, model: keras.Model) -> None:
        """Gives a model the weights of `checkpoint`. Raises ValueError if they do not fit."""
        both = (self.checkpoint["weights"], checkpoints.described_weights(model))
        for old, new in zip(*([*lines, "nothing"] for lines in both), strict=False):
            if old != new:
                raise ValueError(
                    f"The weights in {self.path} do not fit this model: they have {old} where the "
                    f"model has {new}. Build the same model, or name another run_dir."
                )
        saved = tf.train.Checkpoint(weights=weights(model))
        saved.read(checkpoints.prefix(self.path, self.checkpoint)).expect_partial()

    def _what_is_left(self):
        """What a checkpoint that failed has left in the folder, and what to do, in words."""
        if not (self.path / LEDGER).exists():
            return (
                f"The {LEDGER} is gone as well: this run cannot be resumed. It has spent "
                f"{self._spent()}, which adds up with that of other runs on the same data."
            )
        state, damaged = checkpoints.last_whole_state(self.path)
        how = "repair the folder, then resume with resume=True (--resume)."
        if state is not None:
            return f"The checkpoint of update {state['updates']} and the ledger are intact: {how}"
        if self.ledger.updates == 0 and not damaged:
            return f"It is the first one, and no update is spent: {how}"
        return (
            f"There is no intact checkpoint before it: this run cannot be resumed. Its {LEDGER} "
            f"counts {self._spent()}."
        )

    def _spent(self):
        return f"{self.ledger.updates} updates (epsilon {ceil_text(self.ledger.epsilon())})"

    def _last_whole(self):
        """The state of the newest checkpoint that is whole."""
        state, damaged = checkpoints.last_whole_state(self.path)
        if state is not None:
            return state
        if self.ledger.updates == 0 and not damaged:
            return None  # The run died before its first checkpoint, hence before its first update.
        raise PrivacyError(
            f"There is no intact checkpoint in {self.path}, whose ledger counts {self._spent()}. "
            f"Found: {', '.join(damaged) or 'none'}. Restore it from a copy, or name another "
            "run_dir; the epsilons of several runs on the same data add up."
        )


class Stated(Protocol):
    """What states its guarantee: a private model, or a private head."""

    def privacy_statement(self) -> str:
        """As that of `PrivateModel`."""

    def privacy_statement_json(self) -> dict[str, Any]:
        """As that of `PrivateModel`."""


def write_statement(folder: str | os.PathLike, private: Stated) -> tuple:
    """Writes the privacy statement of a private model or head, as text and as JSON.

    Returns the paths, `privacy_statement.txt` and `.json` in the folder.
    """
    folder = pathlib.Path(folder)
    fields = json.dumps(private.privacy_statement_json(), indent=1)
    return (
        files.write_whole(folder / f"{STATEMENT}.txt", private.privacy_statement() + "\n"),
        files.write_whole(folder / f"{STATEMENT}.json", fields + "\n"),
    )


def check_no_ledger(path):
    """Raises ValueError if a folder holds a private run, before another one is begun there."""
    if (path / LEDGER).exists():
        raise PrivacyError(
            f"The run_dir {path} holds a run already (it has a {LEDGER}). Pass RunDir(path, "
            "resume=True) (--resume) to continue it, or name another folder; the epsilons of "
            "several runs on the same data add up."
        )
