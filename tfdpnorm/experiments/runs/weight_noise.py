"""Runs without privacy, with noise in the weights: a `WeightNoiseSpec` goes in, a record comes out.

Davody et al. (2020), Section 2. Ordinary training by Keras: shuffled batches, Adam, no clipping.
"""

import math
import pathlib
import shutil
import time
from typing import NamedTuple

import tensorflow as tf
from tensorflow import keras

from tfdpnorm import models
from tfdpnorm.experiments.records.record import (
    FIELDS,
    make_folder,
    paper_text,
    provenance,
    write_record,
)
from tfdpnorm.experiments.runs.data import load_experiment_data
from tfdpnorm.experiments.runs.optimizers import make_optimizer
from tfdpnorm.experiments.runs.private import TEST_ROWS, test_accuracy
from tfdpnorm.experiments.runs.settings import claim_run_dir, settings

NOT_PRIVATE = "trained without differential privacy; the noise in the weights protects nobody"


class WeightNoiseResult(NamedTuple):
    """What a run gives.

    Attributes:
        record: Dict with the fields of `tfdpnorm.experiments.records.record.FIELDS`.
        model: The trained Keras model.
        curve: List of dicts with "epoch" and "validation_accuracy" in percent.
    """

    record: dict
    model: keras.Model
    curve: list


def run(spec, *, data_dir=None, output_dir=None, data=None, echo=print, run_dir=None, resume=False):
    """Trains one cell and writes its record.

    Args:
        spec: `WeightNoiseSpec`.
        data_dir: TFDS directory.
        output_dir: Folder for the record; None writes none.
        data: `ExperimentData` if already loaded.
        echo: Function that shows a line.
        run_dir: Folder for a backup after each epoch, so that the run survives a crash; it is
            emptied at the end. None keeps none.
        resume: Go on with the run that `run_dir` holds.

    Returns:
        A `WeightNoiseResult`; its seconds are those since the run was last taken up.

    Raises:
        ValueError: if `run_dir` holds a run and `resume` is false, or another run.
        OSError: before training, if `output_dir` cannot be written to.
    """
    if output_dir is not None:
        make_folder(output_dir)
    with claim_run_dir(run_dir, spec, resume):
        data = data or load_experiment_data(spec, data_dir)
        model = build(spec, data)
    updates = spec.updates(data.num_examples)
    steps_per_epoch = min(updates, math.ceil(data.num_examples / spec.batch_size))
    epochs = math.ceil(updates / steps_per_epoch)
    model.compile(
        optimizer=make_optimizer(spec, epochs * steps_per_epoch),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    echo(describe(spec, data, model, epochs, steps_per_epoch))
    backup = None if run_dir is None else _Backup(run_dir)
    progress = _Progress(epochs, echo, [] if backup is None else backup.curve())
    started = time.perf_counter()
    history = model.fit(
        _batches(data, spec),
        epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        validation_data=None
        if data.validation_x is None
        else (data.validation_x, data.validation_y),
        validation_batch_size=TEST_ROWS,
        verbose=0,
        callbacks=[progress, *([] if backup is None else backup.callbacks())],
    )
    seconds = time.perf_counter() - started
    accuracy = test_accuracy(model, data)
    made = len(history.epoch) * steps_per_epoch
    record = make_record(spec, data, accuracy, progress.curve, seconds, updates, made)
    echo(_summary(record))
    if output_dir is not None:
        echo(f"Record: {write_record(output_dir, record)}")
    if backup is not None:
        backup.delete()
    return WeightNoiseResult(record, model, progress.curve)


def build(spec, data):
    """Builds the network of a spec, noise in its weights included; nothing is trained yet."""
    keras.utils.set_random_seed(spec.seed)  # initial weights, their noise, the order of the rows
    return models.build(
        spec.model,
        norm=spec.norm,
        num_classes=data.num_classes,
        input_shape=data.train_x.shape[1:],
        weight_noise_stddev=spec.weight_noise_stddev,
        **{**data.model_options, **dict(spec.model_options)},
    )


def describe(spec, data, model, epochs, steps_per_epoch):
    """Returns in words what is about to be trained."""
    held_out = 0 if data.validation_y is None else len(data.validation_y)
    return (
        f"{spec.experiment} {spec.cell}: {spec.model}, {model.count_params():,} parameters, norm "
        f"{spec.norm}, weights drawn with standard deviation {spec.weight_noise_stddev:g}\n"
        f"  {spec.dataset}: {data.num_examples:,} training examples ({data.scale}), {held_out:,} "
        f"held out; {epochs} epochs of {steps_per_epoch} updates, {spec.optimizer}, learning rate "
        f"{spec.learning_rate:g} ({spec.learning_rate_schedule}), seed {spec.seed}\n"
        f"  NO GUARANTEE: {NOT_PRIVATE}"
    )


def make_record(spec, data, accuracy, curve, seconds, updates, made):
    """Returns the record of a finished run; what concerns private training only is None."""
    inf = math.inf
    return {
        **dict.fromkeys(FIELDS),
        "experiment": spec.experiment,
        "cell": spec.cell,
        "paper_value": spec.paper_value,
        "test_accuracy": round(accuracy, 4),
        "epsilon": inf,
        "epsilon_rdp": inf,
        "epsilon_pld": inf,
        "guarantee_holds": False,
        "no_guarantee_because": [NOT_PRIVATE],
        "num_examples": data.num_examples,
        "updates": updates,
        "weight_noise_stddev": spec.weight_noise_stddev,
        "seed": spec.seed,
        "scale": data.scale,
        "search": spec.search,
        "curve": curve,
        "seconds": round(seconds, 1),
        "examples_per_second": round(made * spec.batch_size / seconds, 1),
        **provenance(settings(spec)),
    }


def _summary(record):
    paper = f"; the paper: {paper_text(record)}" if paper_text(record) else ""
    return f"  test accuracy {record['test_accuracy']:.2f} %{paper}; {record['seconds']:.0f} s"


def _batches(data, spec):
    rows = tf.data.Dataset.from_tensor_slices((data.train_x, data.train_y))
    rows = rows.shuffle(data.num_examples, seed=spec.seed).repeat()
    return rows.batch(spec.batch_size).prefetch(2)


class _Progress(keras.callbacks.Callback):
    """Keeps the curve and shows it after each epoch."""

    def __init__(self, epochs, echo, curve):
        super().__init__()
        self.curve = curve
        self._epochs = epochs
        self._echo = echo

    def on_epoch_end(self, epoch, logs=None):
        line = f"  epoch {epoch + 1}/{self._epochs}  loss {logs['loss']:.3f}"
        if "val_accuracy" in logs:
            accuracy = round(100 * float(logs["val_accuracy"]), 4)
            # An epoch that a crash cut off after its log entry is there already.
            self.curve[:] = [point for point in self.curve if point["epoch"] <= epoch]
            self.curve.append({"epoch": epoch + 1, "validation_accuracy": accuracy})
            line += f"  validation accuracy {accuracy:.1f} %"
        self._echo(line)


class _Backup:
    """What a run folder of Keras' own callbacks holds: the last epoch, and the curve so far."""

    def __init__(self, run_dir):
        self._folder = pathlib.Path(run_dir)
        self._log = self._folder / "epochs.csv"

    def callbacks(self):
        """Backup last: what it vouches for has been logged."""
        return [
            keras.callbacks.CSVLogger(str(self._log), append=True),
            keras.callbacks.BackupAndRestore(str(self._folder / "backup"), delete_checkpoint=False),
        ]

    def curve(self):
        """The curve of the epochs that were logged before; the last time each."""
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
        shutil.rmtree(self._folder)
