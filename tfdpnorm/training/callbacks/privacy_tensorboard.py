"""Scalars for TensorBoard, grouped by whether the guarantee covers them."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.training.callbacks.private_validation import NAME_PREFIX

if TYPE_CHECKING:
    import os


COVERED, VALIDATION, NOT_COVERED = "covered", "validation", "not covered by the guarantee"
_FREE = ("epsilon", "learning_rate", "lr")


class PrivacyTensorBoard(keras.callbacks.Callback):
    """Writes scalars for TensorBoard at the end of each epoch, in three groups.

    | group | what is in it |
    |---|---|
    | covered | epsilon, the learning rate, and the noisy accuracies of `PrivateValidation` |
    | validation | `val_...`, of validation data: theirs is the privacy to think of |
    | not covered by the guarantee | loss and metrics of the training examples |

        private.fit(x, y, callbacks=[tfdpnorm.training.PrivacyTensorBoard("logs")])

    The statement says that a file holds numbers that are not covered.

    Args:
        log_dir: Folder that `tensorboard --logdir` reads.

    Raises:
        ImportError: without the package tensorboard.
    """

    def __init__(self, log_dir: str | os.PathLike) -> None:
        super().__init__()
        check_tensorboard(type(self).__name__)
        self.log_dir = str(log_dir)
        self._writer = None

    def on_train_begin(self, logs: dict | None = None) -> None:
        self._writer = tf.summary.create_file_writer(self.log_dir)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        with self._writer.as_default(step=self.model.ledger.state.updates):
            for name, value in (logs or {}).items():
                group = VALIDATION if name.startswith("val_") else NOT_COVERED
                if name in _FREE or name.startswith(NAME_PREFIX):
                    group = COVERED
                tf.summary.scalar(f"{group}/{name}", float(value))

    def on_train_end(self, logs: dict | None = None) -> None:
        self._writer.close()


def check_tensorboard(name):
    """Raises ImportError without TensorBoard, which the callback of this name needs later."""
    if importlib.util.find_spec("tensorboard") is None:
        raise ImportError(
            f"{name} needs the package tensorboard, which is not installed. Write: pip install "
            "tensorboard"
        )
