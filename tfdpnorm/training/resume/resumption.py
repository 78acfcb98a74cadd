"""How a private model keeps its run on the disk, and resumes it."""

from tfdpnorm.training.resume.checkpointing import Checkpointing

_CHECKPOINTS = 50  # of a whole run, if nobody says how many


class NotKept:
    """A run that is kept in memory alone: nothing is saved, nothing is resumed."""

    restores = False

    def restore_weights(self, model):
        """Does nothing."""

    def restore(self, private, callbacks):
        """Restores nothing; returns False."""
        return False

    def callbacks(self, private, callbacks):
        """Returns the callbacks that save the run: none."""
        return []

    def take_start(self, steps_per_epoch):
        """Returns the epoch and the step in it that `fit` begins with; None for its default."""
        return None


class Resumption(NotKept):
    """A run that is kept in a folder, and resumed from its last checkpoint.

    Args:
        folder: `tfdpnorm.training.resume.run_folder.RunFolder`.
        checkpoint_every: Save after at least so many updates; None for a fiftieth of those planned,
            so that a crash costs at most 2 % of them.
    """

    def __init__(self, folder, checkpoint_every=None):
        self._folder = folder
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

        Args:
            private: `PrivateModel`, compiled.
            callbacks: Those of `fit`.

        Raises:
            ValueError: if the weights do not fit the model.
        """
        if not self._to_restore:
            return False
        self._checkpointing(private, callbacks).restore()
        self._to_restore = False
        return True

    def callbacks(self, private, callbacks):
        """Returns the callbacks that save the run; they come after all others."""
        return [self._checkpointing(private, callbacks)]

    def take_start(self, steps_per_epoch):
        """Returns where the first `fit` after a resumption begins; else None.

        Within an epoch, if the checkpoint was: so epochs end where they did, and callbacks act as
        before.

        Returns:
            Pair of the epoch and the step in it, or None.
        """
        if not self._is_resumed:
            return None
        self._is_resumed = False
        return divmod(self._folder.ledger.state.position, steps_per_epoch)

    def _checkpointing(self, private, callbacks):
        return Checkpointing(private, self._folder, callbacks, self._every, self._is_resumed)
