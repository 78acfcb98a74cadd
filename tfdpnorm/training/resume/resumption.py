"""How a private model keeps its run on the disk, and resumes it."""

import json
import warnings

from tensorflow import keras

from tfdpnorm.keras_compat.training import (
    make_optimizer_variables,
    optimizer_variables,
    rate_variables,
    with_held_optimizers,
)
from tfdpnorm.training.resume.checkpoints import restore
from tfdpnorm.training.resume.run_folder import write_statement

_CHECKPOINTS = 50  # of a whole run, by default


class WithoutRunFolder:
    """A run that is kept in memory alone: nothing is saved, nothing is resumed."""

    restores = False
    path = None  # of the folder

    def restore_weights(self, model):
        """Does nothing."""

    def restore(self, private, callbacks):
        """Restores nothing; returns False."""
        return False

    def callbacks(self, private, callbacks):
        """Returns the callbacks that save the run: none."""
        return []

    def start_within_epoch(self, steps_per_epoch):
        """Returns the epoch and the step in it that `fit` begins with; None for its default."""
        return None

    def trained(self, private):
        """Does nothing, when a `fit` has ended."""


class Resumption(WithoutRunFolder):
    """A run that is kept in a `RunFolder`, and resumed from its last checkpoint.

    It is saved after at least `checkpoint_every` updates; None for a fiftieth of those planned, so
    that a crash costs at most 2 % of them.
    """

    def __init__(self, folder, checkpoint_every=None):
        self._folder, self.path = folder, folder.path
        self._every = checkpoint_every or max(1, folder.ledger.plan.steps // _CHECKPOINTS)
        self._to_restore = self._is_resumed = folder.checkpoint is not None

    @property
    def restores(self):
        """Whether there is a checkpoint whose weights replace those that the model came with."""
        return self._is_resumed

    def restore_weights(self, model):
        """Gives a model that is built the weights of the checkpoint, if there is one.

        Everything else that a checkpoint holds waits for the optimizer.
        """
        if self._to_restore and model.built:
            self._folder.restore_weights(model)

    def restore(self, private, callbacks):
        """Restores the last checkpoint, unless that was done; returns whether it did.

        `private` is compiled. Raises ValueError if the weights do not fit the model.
        """
        if not self._to_restore:
            return False
        self._checkpointing(private, callbacks).restore()
        self._to_restore = False
        return True

    def callbacks(self, private, callbacks):
        """Returns the callbacks that save the run; they come after all others."""
        return [self._checkpointing(private, callbacks)]

    def start_within_epoch(self, steps_per_epoch):
        """Returns the epoch and the step with which the first `fit` after a resumption begins.

        That is within an epoch, if the checkpoint was: so epochs end where they did, and callbacks
        act as before. None for other calls of `fit`.
        """
        if not self._is_resumed:
            return None
        self._is_resumed = False
        return divmod(self._folder.ledger.state.position, steps_per_epoch)

    def trained(self, private):
        """Writes the statement of a run that has come to its end.

        Not of a trial of a search: its date would reveal how many trials there were before it.
        """
        state = self._folder.ledger.state
        if not state.remaining_updates and state.search is None:
            write_statement(self._folder.path, private)

    def _checkpointing(self, private, callbacks):
        return Checkpointing(private, self._folder, callbacks, self._every, self._is_resumed)


# The state of Keras' callbacks from epoch to epoch.
_MEMORIES = {
    keras.callbacks.EarlyStopping: ("wait", "best", "best_epoch"),
    keras.callbacks.ReduceLROnPlateau: ("wait", "cooldown_counter", "best"),
    keras.callbacks.ModelCheckpoint: ("best",),
}


class Checkpointing(keras.callbacks.Callback):
    """Saves a private training to its `RunFolder`, and restores it.

    Saved are the weights, all variables that the optimizer keeps, its learning rate, the variables
    of every callback that has a method `training_state(model)`, which returns a list of them, and
    what EarlyStopping, ReduceLROnPlateau and ModelCheckpoint compare with. Not saved: the weights
    that EarlyStopping may restore, and the state of other callbacks.

    The model's weights must fit. A resumed run may have another optimizer, learning rate or list of
    callbacks: what was saved of others is left out, with a warning.

    Args:
        private: `PrivateModel`, compiled.
        callbacks: The other callbacks, which are called before this one.
        every: Save after at least so many updates.
        is_resumed: Whether the training that begins resumes that of the folder's checkpoint.
    """

    def __init__(self, private, folder, callbacks, every, is_resumed=False):
        super().__init__()
        self._private, self._folder = private, folder
        self._callbacks, self._every, self._is_resumed = callbacks, every, is_resumed
        self._saved_at = folder.checkpoint["updates"] if is_resumed else None
        self._rates = []  # Those within the epoch that training begins in.

    def restore(self):
        """Restores the matching parts of the folder's checkpoint; warns of the others.

        Raises ValueError if the weights do not fit the model.
        """
        # Before callbacks are asked for their variables, which may begin as copies of the weights.
        self._folder.restore_weights(self._private.model)
        left = restore(self._folder.path, self._folder.checkpoint, self._variables())
        if self._memories() is None:
            left.append("EarlyStopping, ReduceLROnPlateau and ModelCheckpoint")
        if left:
            warnings.warn(
                f"The run of {self._folder.path} is resumed, but not the state of "
                f"{', '.join(left)}: compile() or callbacks= differ from before. The guarantee is "
                "the same.",
                stacklevel=5,
            )

    def on_train_begin(self, logs=None):
        if self._is_resumed:
            # Here, since Keras' callbacks forget all when training begins.
            for callback, memory in zip(self._with_memory(), self._memories() or (), strict=False):
                vars(callback).update({n: x for n, x in memory.items() if n != "class"})
            steps = self.params.get("steps")
            if steps and self._private.ledger.state.position % steps:
                self._rates = [rate.numpy() for rate in rate_variables(self._private.optimizer)]
            if self.params.get("verbose"):
                state = self._private.ledger.state
                print(
                    f"Resumed {self._folder.path}: {state.updates} of {state.plan.steps} updates "
                    f"are spent, {state.lost_updates} of them lost in crashes."
                )
        self._save()

    def on_epoch_begin(self, epoch, logs=None):
        # A scheduler, which is called before, has set the rate for this epoch already.
        if self._rates:
            rates = rate_variables(self._private.optimizer)
            for rate, value in zip(rates, self._rates, strict=True):
                rate.assign(value)
            self._rates = []

    def on_train_batch_end(self, batch, logs=None):
        if self._private.ledger.state.position - self._saved_at >= self._every:
            self._save()

    def on_epoch_end(self, epoch, logs=None):
        if self._saved_at == self._private.ledger.state.position:
            self._saved_at = None  # The callbacks have acted since.
            self._save()

    def on_train_end(self, logs=None):
        held = with_held_optimizers(self._private.optimizer)
        if any(getattr(optimizer, "use_ema", False) for optimizer in held):
            self._saved_at = None  # Keras has put the averages in the place of the weights since.
        self._save()

    def _save(self):
        if self._saved_at != self._private.ledger.state.position:
            memories = []
            for callback in self._with_memory():
                names = next(names for cls, names in _MEMORIES.items() if isinstance(callback, cls))
                found = {name: getattr(callback, name, None) for name in names}
                # As plain numbers, which JSON can hold. In Keras 3 the best is None before there
                # was any.
                numbers = {name: float(n) for name, n in found.items() if n is not None}
                memories.append({"class": _name(callback), **numbers})
            rows = self._private.physical_batch_size
            self._folder.save(self._private.model, self._variables(), memories, rows)
            self._saved_at = self._private.ledger.state.position

    def _variables(self):
        """The groups of variables for `save_checkpoint`, besides the weights."""
        model, optimizer = self._private.model, self._private.optimizer
        make_optimizer_variables(optimizer, model.trainable_variables)
        with_state = [c for c in self._callbacks if hasattr(c, "training_state")]
        states = [callback.training_state(self._private) for callback in with_state]
        return {
            "the optimizer": (_name(optimizer), optimizer_variables(optimizer)),
            # They may have changed since `compile`; with other settings there, those hold.
            "the learning rate": (self._private.optimizer_settings, rate_variables(optimizer)),
            "callbacks": ([_name(c) for c in with_state], [v for state in states for v in state]),
        }

    def _with_memory(self):
        return [callback for callback in self._callbacks if isinstance(callback, tuple(_MEMORIES))]

    def _memories(self):
        """The checkpoint's state of stateful callbacks; None if it belongs to others."""
        memories = self._folder.checkpoint["callbacks"]
        names = [_name(callback) for callback in self._with_memory()]
        return memories if names == [memory["class"] for memory in memories] else None


def optimizer_settings(optimizer):
    """Returns an optimizer's present settings, learning rate included, as JSON text.

    None if its `get_config` fails.
    """
    try:
        config = optimizer.get_config()
    except Exception:  # whatever a class of the user's raises
        return None
    return json.dumps(_without_names(config), sort_keys=True, default=_plain)


def _without_names(config):
    """A config without the names of optimizers, which Keras numbers, at any depth."""
    if isinstance(config, dict):
        return {key: _without_names(value) for key, value in config.items() if key != "name"}
    return config


def _plain(value):
    """A number of NumPy's or TensorFlow's as Python has it; of anything else the class."""
    if hasattr(value, "numpy"):
        value = value.numpy()
    return value.item() if getattr(value, "size", 0) == 1 else type(value).__name__


def _name(value):
    return f"{type(value).__module__}.{type(value).__qualname__}"
