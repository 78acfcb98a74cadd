"""What a private run would take: noise, updates, time and memory. Nothing is trained."""

import dataclasses
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.gradients.engines.registry import engine_named
from trainers.runs.build import augmentations, build_private
from trainers.runs.data import CACHE_DIR, load_experiment_data
from trainers.runs.optimizers import make_optimizer
from trainers.runs.private import PrivateRun

_TRIAL_UPDATES = 5


def dry_run(spec, *, data_dir=None, cache_dir=CACHE_DIR):
    """Returns in words what a spec's run would be, and what it would cost here.

    Args:
        spec: `PrivateSpec`.
        data_dir: TFDS directory.
        cache_dir: Folder for pre-trained networks and their features.
    """
    run = PrivateRun(spec, load_experiment_data(spec, data_dir, cache_dir=cache_dir))
    seconds, megabytes = estimate_cost(run)
    memory = "" if megabytes is None else f", {megabytes:,.0f} MB of per-example gradients at once"
    return (
        f"{run.describe()}\n  estimated cost here: {seconds:,.0f} s{memory}. Nothing was trained."
    )


def estimate_cost(run):
    """Times a few updates on random rows and returns seconds and megabytes for the whole run.

    No private row is looked at, and no update of the run is spent.

    Args:
        run: `PrivateRun`.

    Returns:
        Pair (seconds for all updates, megabytes of per-example gradients held at once, or None
        for an engine whose memory is not known).
    """
    spec, data, private = run.spec, run.data, run.model
    rows = min(spec.physical_batch_size or spec.expected_batch_size, data.num_examples)
    rng = np.random.default_rng(0)
    shape = (rows, *data.train_x.shape[1:])
    if data.train_x.dtype.kind == "f":
        x = rng.random(shape, np.float32)
    else:
        x = rng.integers(1, data.model_options["vocabulary_size"], shape, np.int32)
    trial = dataclasses.replace(data, train_x=x, train_y=rng.integers(0, data.num_classes, rows))
    trial_spec = dataclasses.replace(
        spec,
        method="dpsgd" if spec.method == "none" else spec.method,
        calibrated_by=None,
        epsilon=None,
        noise_multiplier=1.0,
        delta=1e-9,  # of random rows; the run's own was checked against its own N
        steps=_TRIAL_UPDATES,
        epochs=None,
        expected_batch_size=rows,
    )
    model = build_private(
        trial_spec,
        trial,
        steps=_TRIAL_UPDATES,
        augmentation=augmentations(spec.augmentation_multiplicity, shape[1:], spec.views),
    )
    model.compile(
        optimizer=make_optimizer(trial_spec, _TRIAL_UPDATES, data.num_examples),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    times = []
    clock = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda *_: times.append(time.perf_counter())
    )
    model.fit(trial.train_x, trial.train_y, verbose=0, callbacks=[clock])
    per_row = (times[-1] - times[0]) / (len(times) - 1) / rows
    seconds = per_row * private.plan.expected_batch_size * private.plan.steps
    megabytes = None
    if engine_named(private.engine).runs_rows_apart:
        megabytes = rows * private.model.count_params() * tf.float32.size / 1e6
    return seconds, megabytes
