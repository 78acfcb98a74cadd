"""Kills a private training again and again, and checks its ledger and its weights.

    python -m trainers.crashes --kills=100

Each run is killed by SIGKILL and resumed until it has ended, and is compared with one that was
never killed: with repeatable noise the weights must be the same to the last bit, and the ledger
must count every different release, whatever the noise.
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

import collections
import hashlib
import itertools
import pathlib
import random
import tempfile
import warnings

import numpy as np
import tensorflow as tf
from absl import flags
from tensorflow import keras

from tfdpnorm.audit.attacks.crashes import Witness, kill_until_done
from tfdpnorm.experiments.davody import cells as davody
from tfdpnorm.experiments.registry import run_cell
from tfdpnorm.privacy import read_ledger

FLAGS = flags.FLAGS
# name: (fields of the spec, whether the key is lost at every crash)
_REPEATABLE = "repeatable noise"
_KINDS = {
    _REPEATABLE: (dict(insecure_seed=3), False),
    "secret noise": (dict(), False),
    "secret noise, key lost": (dict(), True),
}


def define_flags():
    """Defines this program's flags."""
    flags.DEFINE_integer("kills", 100, "Kills in all.")
    flags.DEFINE_integer("steps", 60, "Updates of each run.")
    flags.DEFINE_integer("checkpoint_every", 7, "Updates between checkpoints.")
    flags.DEFINE_integer("kills_per_run", 12, "Kills of one run, which then may end.")
    flags.DEFINE_float("longest_life", 4.0, "Seconds within which a process is killed.")
    flags.DEFINE_integer("seed", 0, "Seeds the moments of the kills.")
    flags.DEFINE_string("scratch_dir", None, "Folder for the runs; default: a temporary one.")


def main():
    """Kills, resumes, compares."""
    if FLAGS.kills < 1 or FLAGS.kills_per_run < 1:
        raise ValueError(
            "Expected --kills and --kills_per_run of at least 1, got "
            f"{FLAGS.kills} and {FLAGS.kills_per_run}."
        )
    rng = random.Random(FLAGS.seed)
    survived, faults = collections.Counter(), 0
    with tempfile.TemporaryDirectory(dir=FLAGS.scratch_dir) as scratch:
        folder = pathlib.Path(scratch) / "never-killed"
        kill_until_done(_train(folder, _REPEATABLE), kills=0, longest_life=0, rng=rng)
        unharmed = np.load(folder / "weights.npz")
        for run, kind in enumerate(itertools.cycle(_KINDS)):
            left = FLAGS.kills - sum(survived.values())
            if left < 1:
                break
            folder = pathlib.Path(scratch) / f"run-{run}"
            result = kill_until_done(
                _train(folder, kind),
                kills=min(FLAGS.kills_per_run, left),
                longest_life=FLAGS.longest_life,
                rng=rng,
            )
            survived[kind] += result.kills
            faults += _judge(folder, kind, unharmed if kind == _REPEATABLE else None, result)
    by_kind = ", ".join(f"{count} with {kind}" for kind, count in survived.items())
    print(f"{sum(survived.values())} kills survived ({by_kind}), {faults} faults.")
    if faults:
        raise SystemExit(1)


def _train(folder, kind):
    fields, loses_key = _KINDS[kind]

    def train(alive):
        # The warnings are of a slow witness and of a lost key, both meant here.
        tf.get_logger().setLevel("ERROR")
        warnings.simplefilter("ignore")
        spec = davody.spec(
            "digits",
            "public_batch",
            3.0,
            model="mlp",
            model_options=(),
            steps=FLAGS.steps,
            expected_batch_size=64,
            optimizer="adam",
            learning_rate=0.01,
            **fields,
        )
        folder.mkdir(parents=True, exist_ok=True)
        if loses_key:
            (folder / "run" / "secret.key").unlink(missing_ok=True)
        result = run_cell(
            spec,
            output_dir=folder / "records",
            echo=lambda line: None,
            callbacks=[_Look(Witness(folder / "witness"), alive)],
            run_dir=folder / "run",
            resume=True,
            checkpoint_every=FLAGS.checkpoint_every,
        )
        weights = [*result.model.model.get_weights(), result.record["test_accuracy_ema"]]
        np.savez(folder / "weights.npz", *weights)

    return train


class _Look(keras.callbacks.Callback):
    """Sees the weights after every update, as anybody who watches a training could."""

    def __init__(self, witness, alive):
        super().__init__()
        self._witness, self._alive, self._said = witness, alive, False

    def on_train_batch_end(self, batch, logs=None):
        if not self._said:
            self._alive()
            self._said = True
        digest = hashlib.sha256()
        for weight in self.model.trainable_variables:
            digest.update(weight.numpy().tobytes())
        self._witness.see(self.model.ledger.position, digest.hexdigest())


def _judge(folder, kind, unharmed, result):
    """Prints what became of a run; returns how many things are wrong with it."""
    ledger = read_ledger(folder / "run" / "ledger.jsonl")
    witness = Witness(folder / "witness")
    faults = []
    if ledger.updates < witness.releases():
        faults.append(f"the ledger counts {ledger.updates} of {witness.releases()} releases")
    if not _KINDS[kind][1] and ledger.updates != FLAGS.steps:
        faults.append(f"{ledger.updates} updates are counted where {FLAGS.steps} were planned")
    if unharmed is not None:
        found = np.load(folder / "weights.npz")
        if any(not np.array_equal(unharmed[name], found[name]) for name in unharmed.files):
            faults.append("the weights differ from those of a run that was never killed")
    print(
        f"{kind}: {result.kills} kills, {result.seconds:.0f} s, {witness.sights()} updates seen, "
        f"{witness.releases()} different, {ledger.updates} counted of {FLAGS.steps} planned: "
        f"{'; '.join(faults) or 'as it should be'}",
        flush=True,
    )
    return len(faults)


if __name__ == "__main__":
    define_flags()
    common.run_app(main)
