"""How a private model keeps its run on the disk, and resumes it."""

from tfdpnorm.training.resume.checkpointing import Checkpointing


class NotKept:
    """A run that is kept in memory alone: nothing is saved, nothing is resumed."""

    secret_key = None
    restores = False

    def finish(self):
        """Deletes what only a run needs that goes on: nothing."""

    def remarks(self):
        """Returns sentences for the statement, a tuple."""
        return ()

    def restore_weights(self, model):
        """Does nothing."""

    def restore(self, private, noise, callbacks):
        """Restores nothing; returns False."""
        return False

    def discard(self, private, noise):
        """Returns to the last checkpoint; there is none, since nothing was resumed."""
        raise RuntimeError("Expected a run that was resumed, got one that is kept in memory.")

    def callbacks(self, private, noise, callbacks):
        """Returns the callbacks that save the run: none."""
        return []

    def take_start(self, steps_per_epoch):
        """Returns the epoch and the step in it that `fit` begins with; None for its default."""
        return None


class Resumption(NotKept):
    """A run that is kept in a folder, and resumed from its last checkpoint.

    Args:
        folder: `tfdpnorm.training.resume.run_folder.RunFolder`.
        checkpoint_every: Save after at least so many updates; None: after every epoch.
    """

    def __init__(self, folder, checkpoint_every=None):
        self._folder = folder
        self._every = checkpoint_every
        self._to_restore = self._is_resumed = folder.checkpoint is not None
        self._saving = None

    @property
    def secret_key(self):
        """Bytes that noise and lots are drawn from, or None with an insecure seed."""
        return self._folder.key

    @property
    def restores(self):
        """Whether there is a checkpoint whose weights replace those that the model came with."""
        return self._is_resumed

    def finish(self):
        """Deletes the secret key."""
        self._folder.finish()

    def remarks(self):
        """Returns a sentence if the secret key lies in the folder of the run: a tuple."""
        return self._folder.remarks()

    def restore_weights(self, model):
        """Gives a model that is built the weights of the checkpoint, if there is one.

        Everything else that a checkpoint holds waits for the optimizer.
        """
        if self._to_restore and model.built:
            self._folder.restore_weights(model)

    def restore(self, private, noise, callbacks):
        """Restores the last checkpoint, unless that was done; returns whether it did.

        Args:
            private: `PrivateModel`, compiled.
            noise: Its `GaussianNoise`.
            callbacks: Those of `fit`.

        Raises:
            ValueError: if the model, the optimizer or the callbacks are not those of the run.
        """
        if not self._to_restore:
            return False
        self._checkpointing(private, noise, callbacks).restore()
        self._to_restore = False
        return True

    def discard(self, private, noise):
        """Gives all variables the values of the last checkpoint, and says so in the ledger.

        As after a crash: the ledger knows the updates since as announced, and not as shown.
        """
        self._saving.restore()
        self._is_resumed = True
        self._folder.ledger.resume(self._folder.checkpoint["updates"], same_randomness=True)

    def callbacks(self, private, noise, callbacks):
        """Returns the callbacks that save the run; they come after all others."""
        self._saving = self._checkpointing(private, noise, callbacks)
        return [self._saving]

    def take_start(self, steps_per_epoch):
        """Returns where the first `fit` after a resumption begins; else None.

        Within an epoch, if the checkpoint was: so epochs end where they did, and callbacks act and
        executions of several steps are cut as before.

        Returns:
            Pair of the epoch and the step in it, or None.
        """
        if not self._is_resumed:
            return None
        self._is_resumed = False
        return divmod(self._folder.ledger.position, steps_per_epoch)

    def _checkpointing(self, private, noise, callbacks):
        return Checkpointing(private, self._folder, noise, callbacks, self._every, self._is_resumed)
