"""Runs without privacy: ordinary training by Keras, with shuffled batches and no clipping."""

import math
import pathlib
import shutil

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.models import sublayers
from trainers.runs.build import build_network
from trainers.runs.optimizers import make_optimizer, validation_callbacks
from trainers.runs.skeleton import TEST_ROWS, Run, rounded, test_accuracies

NOT_PRIVATE = "trained without differential privacy"


def reason_of(spec):
    """Returns why nothing is guaranteed, in words."""
    noise = "; the noise in the weights protects nobody"
    return NOT_PRIVATE + (noise if spec.weight_noise_stddev is not None else "")


class NonPrivateRun(Run):
    """A run of a `NonPrivateSpec`.

    Its `run_dir` has a backup after each epoch, and is removed at the end. The curve has dicts with
    "epoch" and "validation_accuracy" in percent.
    """

    def __init__(self, spec, data, **more):
        super().__init__(spec, data, **more)
        self._stddev = spec.weight_noise_stddev
        noise = {} if self._stddev is None else {"weight_noise_stddev": self._stddev}
        self.model = build_network(spec, data, **noise)
        for layer in sublayers(self.model):
            if isinstance(layer, keras.layers.BatchNormalization):
                layer.momentum = spec.batch_norm_momentum
        self._updates = spec.updates(data.num_examples)
        self._epoch = min(self._updates, math.ceil(data.num_examples / spec.batch_size))
        self._epochs = math.ceil(self._updates / self._epoch)
        self._backup = None if self.run_dir is None else _Backup(self.run_dir)

    def describe(self):
        spec, data = self.spec, self.data
        held_out = 0 if data.validation_y is None else len(data.validation_y)
        noise = ""
        if self._stddev is not None:
            noise = f", weights drawn with standard deviation {self._stddev:g}"
        return (
            f"{spec.experiment} {spec.cell}: {spec.model}, {self.model.count_params():,} "
            f"parameters, norm {spec.norm}{noise}\n"
            f"  {spec.dataset}: {data.num_examples:,} training examples ({data.scale}), "
            f"{held_out:,} held out; {self._updates} updates, {self._epoch} an epoch, "
            f"{spec.optimizer}, learning rate {spec.learning_rate:g} "
            f"({spec.learning_rate_schedule}{_watched(spec)}), seed {spec.seed}\n"
            f"  NO GUARANTEE: {reason_of(spec)}"
        )

    def restore(self):
        self.model.compile(
            optimizer=make_optimizer(self.spec, self._updates, self.data.num_examples),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
        if self._backup is not None:
            self.curve = self._backup.curve()

    def train(self):
        data, backup, last = self.data, self._backup, _LastUpdate(self._updates)
        held_out = None if data.validation_x is None else (data.validation_x, data.validation_y)
        self.model.fit(
            batches(data, self.spec),
            epochs=self._epochs,
            steps_per_epoch=self._epoch,
            validation_data=held_out,
            validation_batch_size=TEST_ROWS,
            verbose=0,
            callbacks=[
                last,
                _Progress(self._epochs, self.echo, self.curve),
                *validation_callbacks(self.spec),
                *self.callbacks,
                *([] if backup is None else backup.callbacks()),
            ],
        )
        return last.made * self.spec.batch_size

    def measured(self):
        accuracy, top5 = rounded(test_accuracies(self.model, self.data))
        return {
            "test_accuracy": accuracy,
            "test_top5": top5,
            "no_guarantee_because": [reason_of(self.spec)],
            "weight_noise_stddev": self._stddev,
            "num_examples": self.data.num_examples,
            "updates": int(self.model.optimizer.iterations),
            "curve": self.curve,
        }

    def close(self):
        if self._backup is not None:
            self._backup.delete()


def _watched(spec):
    """What the loss on the examples held out decides, in words."""
    halved = f", halved after {spec.plateau_patience} epochs without progress"
    ended = f", ended after {spec.early_stopping} epochs without progress"
    return (halved if spec.plateau != "none" else "") + (ended if spec.early_stopping else "")


def batches(data, spec):
    """Returns the endless shuffled batches of a run, a `tf.data.Dataset`."""
    rows = tf.data.Dataset.from_tensor_slices((data.train_x, data.train_y))
    rows = rows.shuffle(data.num_examples, seed=spec.seed).repeat()
    return rows.batch(spec.batch_size).prefetch(2)


class _LastUpdate(keras.callbacks.Callback):
    """Ends training at the last update, which may be amid the last epoch.

    Attributes:
        made: Updates of this process.
    """

    def __init__(self, updates):
        super().__init__()
        self._updates = updates
        self.made = 0

    def on_train_batch_end(self, batch, logs=None):
        self.made += 1
        if int(self.model.optimizer.iterations) >= self._updates:
            self.model.stop_training = True


class _Progress(keras.callbacks.Callback):
    """Keeps the curve and shows it after each epoch."""

    def __init__(self, epochs, echo, curve):
        super().__init__()
        self._curve = curve
        self._epochs = epochs
        self._echo = echo

    def on_epoch_end(self, epoch, logs=None):
        line = f"  epoch {epoch + 1}/{self._epochs}  loss {logs['loss']:.3f}"
        if "val_accuracy" in logs:
            accuracy = round(100 * float(logs["val_accuracy"]), 4)
            # An epoch after whose log entry a crash came is in the curve already.
            self._curve[:] = [point for point in self._curve if point["epoch"] <= epoch]
            self._curve.append({"epoch": epoch + 1, "validation_accuracy": accuracy})
            line += f"  validation accuracy {accuracy:.1f} %"
        self._echo(line)


class _Backup:
    """State of Keras' own callbacks in a run folder: the last epoch, and the curve so far."""

    def __init__(self, run_dir):
        self._folder = pathlib.Path(run_dir)
        self._log = self._folder / "epochs.csv"

    def callbacks(self):
        """Backup last: whatever it restores has been logged."""
        return [
            keras.callbacks.CSVLogger(str(self._log), append=True),
            keras.callbacks.BackupAndRestore(str(self._folder / "backup"), delete_checkpoint=False),
        ]

    def curve(self):
        """The curve of the epochs that were logged before; the last entry of each."""
        if not self._log.exists():
            return []
        header, *lines = [line.split(",") for line in self._log.read_text().splitlines()]
        if "val_accuracy" not in header:
            return []
        epoch, accuracy = header.index("epoch"), header.index("val_accuracy")
        # A killed process may have left half a line.
        lines = [line for line in lines if len(line) == len(header)]
        last = {int(line[epoch]): float(line[accuracy]) for line in lines}
        return [
            {"epoch": number + 1, "validation_accuracy": round(100 * value, 4)}
            for number, value in sorted(last.items())
        ]

    def delete(self):
        """Removes the folder."""
        shutil.rmtree(self._folder)
