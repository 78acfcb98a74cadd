"""Writes what the tests of the other Keras read: a saved model, and a run that was interrupted.

python -m tests.training.other_keras.write       # once with each Keras, 2 and 3
"""

import shutil
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tests.private_of import private_of
from tfdpnorm.keras_compat.variables import KERAS_VERSION
from tfdpnorm.layers import PublicBatchNormalization, ScaleNorm
from tfdpnorm.models.mish import fused_mish

STEPS, MADE = 8, 5
SETTINGS = {
    "num_examples": 40,
    "expected_batch_size": 10,
    "steps": STEPS,
    "l2_norm_clip": 1.0,
    "noise_multiplier": 1.0,
    "delta": 1e-5,
    "insecure_seed": 1,
}
FOLDER = Path(__file__).parent
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(40, 8, 8, 3)).astype(np.float32)
Y = _RNG.integers(0, 3, 40)
PUBLIC = _RNG.normal(size=(6, 8, 8, 3)).astype(np.float32)


def folder_of(version):
    """The folder of what a version of Keras wrote, "2" or "3"."""
    return FOLDER / f"keras_{version}"


def private(run_dir, resume=False):
    """A private model that has begun in a folder, or goes on there."""
    inputs = keras.Input((8, 8, 3))
    x = keras.layers.Conv2D(4, 3, padding="same", activation=fused_mish, name="stem")(inputs)
    x = PublicBatchNormalization(name="norm")(x)
    x = ScaleNorm("group", groups=2, name="scale")(x)
    x = keras.layers.GlobalAveragePooling2D(name="pool")(x)
    model = keras.Model(inputs, keras.layers.Dense(3, name="logits")(x))
    rng = np.random.default_rng(1)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(size=variable.shape))
    kept = {"run_dir": run_dir, "resume": resume, "checkpoint_every": 2} if run_dir else {}
    trained = private_of(model, public_batch=PUBLIC, pull_back_weight=1.0, **kept, **SETTINGS)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    trained.compile(keras.optimizers.Adam(0.01), loss)
    return trained


class Interrupt(keras.callbacks.Callback):
    """Ends `fit` after so many updates."""

    def on_train_batch_end(self, batch, logs=None):
        if self.model.ledger.updates == MADE:
            raise KeyboardInterrupt


def main():
    folder = folder_of(KERAS_VERSION[0])
    shutil.rmtree(folder, ignore_errors=True)
    trained = private(folder / "run")
    try:
        trained.fit(X, Y, verbose=0, callbacks=[Interrupt()])
    except KeyboardInterrupt:
        trained.ledger.close()
    trained.save(folder / "model.keras")
    np.save(folder / "predictions.npy", trained.predict(X, verbose=0))
    whole = private(None)
    whole.fit(X, Y, verbose=0)
    np.save(folder / "trained.npy", np.concatenate([w.ravel() for w in whole.get_weights()]))
    print(f"{folder}: TensorFlow {tf.__version__}, Keras {KERAS_VERSION}")


if __name__ == "__main__":
    main()
