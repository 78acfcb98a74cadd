"""A process of a training that several make together.

    python -m tests.training.several_devices.worker INDEX PORTS FOLDER [SETTINGS]

PORTS are those of all processes, with commas between; one process trains without a strategy.
SETTINGS are JSON: arguments of `private_of`, and `kill` [INDEX, UPDATE], `norm`, `rows`,
`steps_per_execution`; with `most_per_person` the rows are of `num_examples` persons. Writes what it
has trained to FOLDER/INDEX.npz and .json.
"""

import json
import os
import signal
import sys

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tests.private_of import private_of
from tfdpnorm.layers import NoisedBatchNormalization, PublicBatchNormalization

index, ports, folder = int(sys.argv[1]), sys.argv[2].split(","), sys.argv[3]
settings = json.loads(sys.argv[4]) if len(sys.argv) > 4 else {}

FEATURES, CLASSES, EXAMPLES = 5, 3, 40
NORMS = {
    "group": lambda: keras.layers.GroupNormalization(groups=2),
    "noised": NoisedBatchNormalization,
    "public_batch": PublicBatchNormalization,
}


class Recorder(keras.callbacks.Callback):
    """Keeps the weights of each update; kills the process within one."""

    def __init__(self, kill):
        super().__init__()
        self.weights, self._kill = [], kill

    def on_train_batch_begin(self, batch, logs=None):
        if self._kill == [index, self.model.ledger.state.position]:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_train_begin(self, logs=None):
        self.on_train_batch_end(0)

    def on_train_batch_end(self, batch, logs=None):
        self.weights.append(np.concatenate([v.ravel() for v in self.model.model.get_weights()]))


def made_strategy():
    """The strategy of all processes; None for one."""
    if len(ports) == 1:
        return None
    workers = [f"127.0.0.1:{port}" for port in ports]
    task = {"type": "worker", "index": index}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})
    return tf.distribute.MultiWorkerMirroredStrategy()


def main():
    """Trains."""
    strategy = made_strategy()
    kill, norm, rows = (settings.pop(n, None) for n in ("kill", "norm", "rows"))

    steps_per_execution = settings.pop("steps_per_execution", 1)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(EXAMPLES, FEATURES)).astype(np.float32)
    y = rng.integers(CLASSES, size=EXAMPLES)
    if norm == "public_batch":
        settings["public_batch"] = np.random.default_rng(2).normal(size=(8, FEATURES))
        settings["public_batch"] = settings["public_batch"].astype(np.float32)
    if rows == "other order" and index:
        x, y = x[::-1], y[::-1]
    keras.utils.set_random_seed(index)  # `fit` gives every process the chief's weights
    model = keras.Sequential(
        [
            keras.Input((FEATURES,)),
            keras.layers.Dense(4),
            NORMS[norm or "group"](),
            keras.layers.Dense(CLASSES),
        ]
    )
    private = private_of(
        model,
        **{
            "num_examples": EXAMPLES,
            "steps": 6,
            "physical_batch_size": 8,
            "most_per_batch": 32,
            **settings,
        },
        strategy=strategy,
    )
    private.compile(
        keras.optimizers.SGD(1.0, momentum=0.5),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        steps_per_execution=steps_per_execution,
    )

    recorder = Recorder(kill)
    failed = None
    try:
        plan = private.plan
        person = None if plan.unit == "row" else np.arange(EXAMPLES) % plan.num_examples
        history = private.fit(x, y, person=person, verbose=0, callbacks=[recorder]).history
    except (RuntimeError, ValueError) as error:
        failed, history = f"{type(error).__name__}: {error}", {}
    np.savez(os.path.join(folder, f"{index}.npz"), np.array(recorder.weights))
    ledger = private.ledger
    found = {
        "updates": ledger.updates,
        "position": ledger.state.position,
        "lost": ledger.state.lost_updates,
        "epsilon": ledger.epsilon() if ledger.guarantee_holds else None,
        "statement": private.privacy_statement(),
        "slots": [private.slots.batches, private.slots.rows],
        "noise": int(private.update_count),
        "history": {name: [float(v) for v in values] for name, values in history.items()},
        "failed": failed,
    }
    with open(os.path.join(folder, f"{index}.json"), "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
