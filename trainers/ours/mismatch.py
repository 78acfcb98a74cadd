"""Runs that differ in their public rows alone: these rows, and what each layer makes of them."""

import dataclasses
import time

import numpy as np
from scipy import ndimage
from tensorflow import keras

from tfdpnorm.data import match_images, synthetic_rows, take_public_batch
from trainers.analysis.public_moments import moment_mismatch, noise_through_statistics
from trainers.data.sources import load_examples
from trainers.records.made_with import made_with
from trainers.runs.private import PrivateRun
from trainers.runs.skeleton import run

_PRIVATE_ROWS = 512  # as many are looked at


def mismatch_record(spec, data, rows_by_name, *, measured_at=(0, 50), echo=print):
    """Trains once with each set of public rows; returns the record, with `SENSITIVITY_FIELDS`.

    Not private: the moments of private rows are measured without noise, after the updates
    `measured_at` and after the last one. The public rows of `data` are replaced.
    """
    started = time.perf_counter()
    rows = []
    for name, public_x in rows_by_name.items():
        measure = _Moments(data, public_x, measured_at)
        of_rows = dataclasses.replace(data, public_x=public_x)
        result = run(PrivateRun, spec, data=of_rows, callbacks=[measure], echo=lambda text: None)
        measure.measure(result.record["updates"])
        rows.append(
            {
                "public_rows": name,
                "count": len(public_x),
                "test_accuracy": result.record["test_accuracy"],
                "noise": noise_through_statistics(result.model.model, public_x),
                "moments": measure.found,
            }
        )
        echo(f"  {name}: {result.record['test_accuracy']:.2f} %")
    return {
        "experiment": spec.experiment,
        "kind": "mismatch",
        "cell": spec.cell,
        "rows": rows,
        "seed": spec.seed,
        "seconds": round(time.perf_counter() - started, 1),
        **made_with(spec.settings),
    }


class _Moments(keras.callbacks.Callback):
    """Compares moments after some updates; `found` has a dict for a layer after an update each."""

    def __init__(self, data, public_x, updates):
        super().__init__()
        self.found = []
        self._data, self._public_x, self._updates = data, public_x, updates
        self._made = 0

    def on_train_begin(self, logs=None):
        if 0 in self._updates:
            self.measure(0)

    def on_train_batch_end(self, batch, logs=None):
        self._made += 1
        if self._made in self._updates:
            self.measure(self._made)

    def measure(self, update):
        """Notes the moments of the present weights."""
        private_x = self._data.train_x[:_PRIVATE_ROWS]
        for of_layer in moment_mismatch(self.model.model, self._public_x, private_x):
            self.found.append({"update": update, **of_layer._asdict()})


ROWS = 512
_COUNTS = (16, 32, 64, 128, 2048)
_REAL = ("kmnist", "cifar100")
_SHAPED = ("ink", "uniform", "fractal")
_SYNTHETIC = ("strokes", "ink", "uniform", "fractal", "sparse", "shapes", "hadamard")


def altered_rows(own, *, seed, data_dir=None):
    """Makes public rows of rows of the private set, as if these were public, and others.

    `own` is float32 [M, height, width, 1] in [0, 1], M >= 2,048. Returns a dict from a description
    to an array [m, height, width, 1].
    """
    rng = np.random.default_rng(seed)
    shape, rows = own.shape[1:], own[:ROWS]
    size = int(np.prod(shape))
    places = rng.permutation(size)
    mixed = rng.permuted(rows.reshape(ROWS, size), axis=0)
    made_up = {kind: synthetic_rows(shape, ROWS, kind=kind, seed=seed) for kind in _SYNTHETIC}
    return {
        "own": rows,
        **{f"own ({count} rows)": own[:count] for count in _COUNTS},
        "own + 0.25": rows + 0.25,
        "own + 1": rows + 1,
        "own x 0.5": 0.5 * rows,
        "own x 0.1": 0.1 * rows,
        "own x 3": 3 * rows,
        "own (inverted)": 1 - rows,
        "own (each pixel of another image)": mixed.reshape(rows.shape),
        "own (pixels in another order)": rows.reshape(ROWS, size)[:, places].reshape(rows.shape),
        "own (blurred)": ndimage.gaussian_filter(rows, (0, 1.5, 1.5, 0)),
        **{
            name: take_public_batch(
                match_images(load_examples(name, "train", data_dir).x, shape), ROWS, seed=seed
            )
            for name in _REAL
        },
        **made_up,
        # A possible use of noisy moments of the private rows, here without the noise.
        **{f"{kind} (moments of own)": _with_moments(made_up[kind], own) for kind in _SHAPED},
    }


def _with_moments(rows, own):
    """Rows whose numbers have the mean and the standard deviation of those of others."""
    standardised = (rows - rows.mean()) / rows.std()
    return (own.mean() + own.std() * standardised).astype(np.float32)
