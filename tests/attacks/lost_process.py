"""LeNet-5 on MNIST in several processes of which one is killed, and in one process.

    python -m tests.attacks.lost_process --data_dir=... [--steps=240] [--kill_at=100] [--later=3]

Two processes train on the loopback until the second one is killed; then as many as --later resume.
Prints ledger, epsilon and test accuracy of that run and of one by a single process. Ends with exit
code 1 if the two differ in what they have spent, or in their statements beyond what the killing and
the network add.
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf
from absl import flags
from tensorflow import keras

import tfdpnorm
from tests.programs import free_ports
from tfdpnorm.training.workers import WorkerLostError
from trainers.data.sources import load_examples

FLAGS = flags.FLAGS
_ROOT = pathlib.Path(__file__).resolve().parents[2]
_BATCH, _RATE = 512, 0.5


def define_flags():
    """Defines this program's flags."""
    flags.DEFINE_string("data_dir", None, "Folder of the data sets; default: TFDS_DATA_DIR.")
    flags.DEFINE_integer("steps", 240, "Updates of each run.")
    flags.DEFINE_integer("kill_at", 100, "The update in which a process is killed.")
    flags.DEFINE_integer("later", 3, "Processes that resume the run.")
    flags.DEFINE_integer("checkpoint_every", 20, "Updates between checkpoints.")
    flags.DEFINE_string("role", None, "Of a process that this program starts: JSON.")


class _Kill(keras.callbacks.Callback):
    """Kills the process at the beginning of an update."""

    def __init__(self, update):
        super().__init__()
        self._update = update

    def on_train_batch_begin(self, batch, logs=None):
        if self.model.ledger.state.position == self._update:
            os.kill(os.getpid(), signal.SIGKILL)


def main():
    """Trains in other processes, and compares."""
    if FLAGS.role:
        _train(**json.loads(FLAGS.role))
        return
    with tempfile.TemporaryDirectory() as scratch:
        several, alone = (str(pathlib.Path(scratch) / name) for name in ("several", "alone"))
        first = _in_processes(2, several, dead=1)[0]
        print(f"Killed: {first['failed']}")
        found = _in_processes(FLAGS.later, several)
        (single,) = _in_processes(1, alone)
        for name, one in ((f"2 processes, then {FLAGS.later}", found[0]), ("1 process", single)):
            print(
                f"{name}: {one['updates']} updates spent, {one['position']} in the weights, "
                f"epsilon {one['epsilon']:.6f}, test accuracy {100 * one['accuracy']:.2f} %"
            )
        more = [x for x in found[0]["statement"] if x not in single["statement"]]
        less = [x for x in single["statement"] if x not in found[0]["statement"]]
        print("Statement, beyond that of 1 process:", *more, sep="\n  ")
        print("Statement, of 1 process alone:", *less, sep="\n  ")
        expected = ("- Updates:", "- The run was resumed once", "- Anybody who reads or changes")
        same = found[0]["epsilon"] == single["epsilon"] and found[0]["updates"] == FLAGS.steps
        if not same or any(not line.startswith(expected) for line in (*more, *less)):
            raise SystemExit(1)


def _in_processes(count, folder, dead=None):
    """Runs the training in so many processes, and returns what each says of it."""
    ports, processes = free_ports(count), []
    for index in range(count):
        role = {"index": index, "ports": ports, "folder": folder}
        role["kill_at"] = FLAGS.kill_at if index == dead else None
        command = [sys.executable, "-m", "tests.attacks.lost_process", f"--role={json.dumps(role)}"]
        names = ("steps", "checkpoint_every", "data_dir")
        command += [f"--{n}={getattr(FLAGS, n)}" for n in names if getattr(FLAGS, n) is not None]
        processes.append(subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True))
    answers = [process.communicate()[0] for process in processes]
    for index, process in enumerate(processes):
        if process.returncode != (-signal.SIGKILL if index == dead else 0):
            raise RuntimeError(f"Process {index} of {count} ended with {process.returncode}.")
    return [json.loads(a.splitlines()[-1]) for n, a in enumerate(answers) if n != dead]


def _train(index, ports, folder, kill_at):
    strategy = None
    if len(ports) > 1:
        workers = [f"127.0.0.1:{port}" for port in ports]
        task = {"type": "worker", "index": index}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    train = load_examples("mnist", "train", FLAGS.data_dir)
    test = load_examples("mnist", "test", FLAGS.data_dir)
    keras.utils.set_random_seed(0)
    model = tfdpnorm.models.build("lenet5", norm="group", num_classes=10, input_shape=(28, 28, 1))
    plan = tfdpnorm.make_plan(
        num_examples=len(train.x),
        expected_batch_size=_BATCH,
        steps=FLAGS.steps,
        l2_norm_clip=1.0,
        budget=tfdpnorm.PrivacyBudget(3.0, 1e-5),
    )
    run_dir = tfdpnorm.RunDir(folder, resume=True, checkpoint_every=FLAGS.checkpoint_every)
    private = tfdpnorm.make_private(
        model, plan, physical_batch_size=128, run_dir=run_dir, strategy=strategy
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    private.compile(keras.optimizers.SGD(_RATE, momentum=0.5), loss, metrics=["accuracy"])
    failed = None
    try:
        callbacks = [] if kill_at is None else [_Kill(kill_at)]
        private.fit(train.x, train.y, verbose=0, callbacks=callbacks)
    except WorkerLostError as error:
        failed = f"{type(error).__name__}: {str(error)[:300]}"
    accuracy = np.mean(np.argmax(model.predict(test.x, 1000, verbose=0), axis=-1) == test.y)
    state = private.ledger.state
    found = {"failed": failed, "updates": state.updates, "position": state.position}
    found |= {"epsilon": private.ledger.epsilon(), "accuracy": float(accuracy)}
    print(json.dumps({**found, "statement": private.privacy_statement().splitlines()}))


if __name__ == "__main__":
    define_flags()
    common.run_app(main)
