"""The checkpoints of a run: folders that appear whole or not at all, and are checked when read."""

import hashlib
import json
import os
import shutil
import warnings

import tensorflow as tf

from tfdpnorm import files
from tfdpnorm.keras_compat.variables import trainable_variables, weights

_STATE = "state.json"
_SEAL = "digest"
_VARIABLES = "variables"
_PATTERN = "checkpoint-*[0-9]"
_KEPT = 2
_REPLACED = ".replaced"


def checkpoint_folders(path):
    """Returns the checkpoint folders of a run, the newest first, whole or not."""
    return sorted(path.glob(_PATTERN), reverse=True)


def save_checkpoint(path, updates, tail, model, variables, *, callbacks, physical_batch_size):
    """Writes a checkpoint, whole or not at all, removes old ones, and returns its state, a dict.

    Raises OSError if it cannot be written; then the last checkpoint is still there.

    Args:
        updates: The updates that the weights have seen.
        tail: Where the ledger is, see `tfdpnorm.privacy.journal.Journal.tail`.
        variables: Dict of groups of variables by name, each a pair: what it is of, anything that
            JSON can hold, and the list of variables. They are "the optimizer", "the learning rate"
            and "callbacks" (`Checkpointing`); the weights of the model are a group besides.
        callbacks: List of dicts, what callbacks remember.
        physical_batch_size: The rows of a physical batch, None for a whole batch at once.
    """
    final = _folder(path, updates)
    partial = path / f"{final.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir()
        groups = {name: group for name, (_, group) in variables.items()}
        saved = tf.train.Checkpoint(weights=weights(model), **groups)
        saved.write(str(partial / _VARIABLES))
        state = {
            "updates": updates,
            "ledger": list(tail),
            "weights": described_weights(model),
            "callbacks": list(callbacks),
            "physical_batch_size": physical_batch_size,
            "variables": {name: _described(*group) for name, group in variables.items()},
            "files": {file.name: _digest(file) for file in sorted(partial.iterdir())},
        }
        sealed = {**state, _SEAL: _seal(state)}
        (partial / _STATE).write_text(json.dumps(sealed, indent=1) + "\n")
        for file in (*partial.iterdir(), partial):
            files.flush(file)
        replaced = path / f"{final.name}{_REPLACED}"
        if final.exists():
            os.rename(final, replaced)
        os.rename(partial, final)
        files.flush(path)
        shutil.rmtree(replaced, ignore_errors=True)
    except (OSError, tf.errors.OpError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise OSError(f"Cannot write a checkpoint to {final}: {files.reason(error)}.") from error
    for old in checkpoint_folders(path)[_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    return state


def last_whole_state(path):
    """Finds the newest checkpoint that is whole, and warns of newer ones that are not.

    Returns its state, or None without one, and the list of damaged ones, in words.
    """
    damaged = []
    # Undoes what a process began that died while it replaced a checkpoint.
    for replaced in path.glob(f"{_PATTERN}{_REPLACED}"):
        final = replaced.with_name(replaced.name.removesuffix(_REPLACED))
        if final.exists():
            shutil.rmtree(replaced, ignore_errors=True)
        else:
            os.rename(replaced, final)
    for folder in checkpoint_folders(path):
        try:
            state = _whole_state(folder)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            damaged.append(f"{folder.name} ({_first_line(error)})")
            continue
        if damaged:
            warnings.warn(
                f"Some checkpoints in {path} are damaged: {', '.join(damaged)}. Resuming from "
                f"{folder.name}.",
                stacklevel=6,
            )
        return state, damaged
    return None, damaged


def restore(path, state, variables):
    """Gives groups of variables, as for `save_checkpoint`, the values of a checkpoint's state.

    A group that differs from what was saved, in what it is of or in the shapes of its variables, is
    left as it is. Returns the list of the names of those groups.
    """
    fitting = {
        name: group
        for name, (of, group) in variables.items()
        if state["variables"].get(name) == _described(of, group)
    }
    status = tf.train.Checkpoint(**fitting).read(prefix(path, state))
    status.assert_existing_objects_matched().expect_partial()
    return [name for name in variables if name not in fitting]


def described_weights(model):
    """The model's weights as JSON can hold them: one line of text for each.

    Names are left out: Keras numbers them again in each process.
    """
    trained = {id(v) for v in trainable_variables(model)}
    return [
        f"a {'trained' if id(v) in trained else 'constant'} weight {list(v.shape)} {v.dtype.name}"
        for v in weights(model)
    ]


def _described(of, variables):
    """The description that a group of variables shares with a saved one, as read from JSON."""
    shapes = [f"{list(v.shape)} {v.dtype.name}" for v in variables]
    return json.loads(json.dumps([of, shapes]))


def _folder(path, updates):
    return path / f"checkpoint-{updates:08d}"


def prefix(path, state):
    """Returns the path that TensorFlow knows the variables of a checkpoint by."""
    return str(_folder(path, state["updates"]) / _VARIABLES)


def _whole_state(folder):
    state = json.loads((folder / _STATE).read_text())
    if state.pop(_SEAL, None) != _seal(state):
        raise ValueError(f"{_STATE} is not what was written")
    for name, digest in state["files"].items():
        if _digest(folder / name) != digest:
            raise ValueError(f"{name} is not what was written")
    lines, checksum = state["ledger"]
    if not isinstance(lines, int) or not isinstance(checksum, str):
        raise ValueError(f"{_STATE} has no position in the ledger")
    if not all(isinstance(line, str) for line in state["weights"]):
        raise ValueError(f"{_STATE} has no weights")
    if folder.name != f"checkpoint-{state['updates']:08d}" or not state["files"]:
        raise ValueError(f"{_STATE} is of another checkpoint")
    return state


def _seal(state):
    """A digest of a state, which shows whether it was damaged since it was written."""
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def _digest(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _first_line(error):
    return (str(error).splitlines() or [type(error).__name__])[0]
