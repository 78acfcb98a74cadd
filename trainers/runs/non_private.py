"""Runs without privacy: ordinary training by Keras, with shuffled batches and no clipping."""

import contextlib
import csv
import math
import pathlib
import shutil

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.keras_compat.models import sublayers
from trainers.runs.build import augmentations, build_network
from trainers.runs.optimizers import make_optimizer, validation_callbacks
from trainers.runs.skeleton import Run, rounded, test_accuracies, test_rows


def reason_of(spec):
    """Returns why nothing is guaranteed, in words."""
    noise = "; the noise in the weights protects nobody"
    has_noise = spec.weight_noise_stddev is not None
    return "trained without differential privacy" + (noise if has_noise else "")


class NonPrivateRun(Run):
    """A run of a `NonPrivateSpec`.

    Its `run_dir` has a backup after each epoch, and is removed at the end. The curve has dicts with
    "epoch" and "validation_accuracy" in percent.
    """

    can_share = True

    def __init__(self, spec, data, **more):
        super().__init__(spec, data, **more)
        self._scope = self.strategy.scope if self.strategy else contextlib.nullcontext
        self._stddev = spec.weight_noise_stddev
        noise = {} if self._stddev is None else {"weight_noise_stddev": self._stddev}
        with self._scope():
            self.model = build_network(spec, data, **noise)
        for layer in sublayers(self.model):
            if isinstance(layer, keras.layers.BatchNormalization):
                layer.momentum = spec.batch_norm_momentum
        self._updates = spec.updates(data.num_examples)
        self._epoch = min(self._updates, math.ceil(data.num_examples / spec.batch_size))
        self._epochs = math.ceil(self._updates / self._epoch)
        self._folder = None if self.run_dir is None else pathlib.Path(self.run_dir)

    def describe(self):
        spec, data = self.spec, self.data
        held_out = 0 if data.validation_y is None else len(data.validation_y)
        noise = ""
        if self._stddev is not None:
            noise = f", weights drawn with standard deviation {self._stddev:g}"
        watched = ""
        if spec.plateau != "none":
            watched = f", halved after {spec.plateau_patience} epochs without progress"
        if spec.early_stopping:
            watched += f", ended after {spec.early_stopping} epochs without progress"
        return (
            f"{spec.experiment} {spec.cell}: {spec.model}, {self.model.count_params():,} "
            f"parameters, norm {spec.norm}{noise}\n"
            f"  {spec.dataset}: {data.num_examples:,} training examples ({data.scale}), "
            f"{held_out:,} held out; {self._updates} updates, {self._epoch} an epoch, "
            f"{spec.optimizer}, learning rate {spec.learning_rate:g} "
            f"({spec.learning_rate_schedule}{watched}), augmentation {spec.augmentation}, seed "
            f"{spec.seed}\n"
            f"  NO GUARANTEE: {reason_of(spec)}"
        )

    def restore(self):
        """Compiles the model; Keras restores its backup when training begins."""
        with self._scope():
            self.model.compile(
                optimizer=make_optimizer(self.spec, self._updates, self.data.num_examples),
                loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                metrics=["accuracy"],
            )
        if self._folder is not None:
            self.curve = _logged_curve(self._folder / "epochs.csv")

    def train(self):
        data, last = self.data, _LastUpdate(self._updates)
        backup = []
        if self._folder is not None:  # last: whatever it restores has been logged
            log, kept = str(self._folder / "epochs.csv"), str(self._folder / "backup")
            backup = [
                keras.callbacks.CSVLogger(log, append=True),
                keras.callbacks.BackupAndRestore(kept, delete_checkpoint=False),
            ]
        self.model.fit(
            batches(data, self.spec),
            epochs=self._epochs,
            steps_per_epoch=self._epoch,
            validation_data=(
                None if data.validation_x is None else (data.validation_x, data.validation_y)
            ),
            validation_batch_size=test_rows(data.train_x),
            verbose=0,
            callbacks=[
                last,
                keras.callbacks.LambdaCallback(on_epoch_end=self._show),
                *validation_callbacks(self.spec),
                *self.callbacks,
                *backup,
            ],
        )
        return last.made * self.spec.batch_size

    def _show(self, epoch, logs):
        line = f"  epoch {epoch + 1}/{self._epochs}  loss {logs['loss']:.3f}"
        if "val_accuracy" in logs:
            # An epoch after whose log entry a crash came is in the curve already.
            self.curve[:] = [point for point in self.curve if point["epoch"] <= epoch]
            self.curve.append(_point(epoch, logs["val_accuracy"]))
            line += f"  validation accuracy {self.curve[-1]['validation_accuracy']:.1f} %"
        self.echo(line)

    def measured(self):
        accuracy, top5 = rounded(test_accuracies(self.model, self.data))
        return {
            "test_accuracy": accuracy,
            "test_top5": top5,
            "no_guarantee_because": [reason_of(self.spec)],
            "weight_noise_stddev": self._stddev,
            "num_examples": self.data.num_examples,
            "updates": int(self.model.optimizer.iterations.numpy()),
            "curve": self.curve,
        }

    def close(self):
        if self._folder is not None:
            shutil.rmtree(self._folder)


def batches(data, spec):
    """Returns the endless shuffled batches of a run, a `tf.data.Dataset`."""
    rows = tf.data.Dataset.from_tensor_slices((data.train_x, data.train_y))
    rows = rows.shuffle(data.num_examples, seed=spec.seed).repeat().batch(spec.batch_size)
    if spec.augmentation == "random":
        views = augmentations(1, data.train_x.shape[1:], "random")
        rows = rows.map(lambda x, y: (views(x, training=True), y))
    return rows.prefetch(2)


class _LastUpdate(keras.callbacks.Callback):
    """Ends training at the last update, which may be amid the last epoch; counts the `made` ones.

    Only those of this process are counted.
    """

    def __init__(self, updates):
        super().__init__()
        self._updates, self.made = updates, 0

    def on_train_batch_end(self, batch, logs=None):
        self.made += 1
        if int(self.model.optimizer.iterations.numpy()) >= self._updates:
            self.model.stop_training = True


def _point(epoch, accuracy):
    return {"epoch": epoch + 1, "validation_accuracy": round(100 * float(accuracy), 4)}


def _logged_curve(log):
    """The curve of the epochs that were logged before; the last entry of each."""
    if not log.exists():
        return []
    with log.open(newline="") as lines:
        # A killed process may have left half a line, which lacks columns.
        rows = [row for row in csv.DictReader(lines) if None not in row.values()]
    accuracies = {int(r["epoch"]): r["val_accuracy"] for r in rows if "val_accuracy" in r}
    return [_point(*entry) for entry in sorted(accuracies.items())]
