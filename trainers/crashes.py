"""Interrupts a private training again and again, and checks its ledger and its weights.

    python -m trainers.crashes --kills=100
    python -m trainers.crashes --kills=300 --interruptions=all --optimizers=all --models=all \
        --steps_per_execution=1,4 --callbacks

Each run is interrupted and resumed until it has ended: by SIGKILL, by Ctrl-C, by an exception in a
callback, or by a full disk. Somebody who watches writes down what got out. The ledger must count
every different release, whatever the noise and the model, and neither its epsilon nor that of the
list written down may exceed the planned one. Where all of a model repeats itself, and the key is
not lost, nothing may be counted twice; and with repeatable noise the weights must be those of a run
that was never interrupted, to the last bit or nearly: rounding after the noise can differ. That
noise does not depend on the sum, and the ledger does not see such a difference; no guarantee is
printed for it, and so what got out is not held against it.
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

import collections
import hashlib
import itertools
import math
import os
import pathlib
import random
import resource
import tempfile
import warnings
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import flags
from tensorflow import keras

from tfdpnorm.audit.attacks.crashes import INTERRUPTIONS, Interrupted, Witness, kill_until_done
from tfdpnorm.layers import PublicBatchNormalization
from tfdpnorm.privacy import BudgetExhaustedError, PrivacyBudget, dp_sgd_event, read_ledger
from tfdpnorm.privacy.accountants import rdp_of, rdp_to_epsilon
from tfdpnorm.training import PrivateValidation, WeightAverage, make_private

FLAGS = flags.FLAGS
_REPEATABLE = "repeatable noise"
_ROUNDING = 1e-4  # of a weight; what is lost of an optimizer moves weights by 1e-2 and more
# name: (settings of make_private, whether the key is lost at every crash)
_KINDS = {
    _REPEATABLE: (dict(insecure_seed=3), False),
    "secret noise": (dict(), False),
    "secret noise, key lost": (dict(), True),
}
_NEW = "Adadelta Adafactor Adagrad Adam AdamW Adamax Ftrl Lion Nadam RMSprop SGD".split()
_LEGACY = "Adadelta Adagrad Adam Adamax Ftrl Nadam RMSprop SGD".split()
_OPTIMIZERS = [name.lower() for name in _NEW] + [f"legacy-{name.lower()}" for name in _LEGACY]
# "kernel" draws by a counter inside of TensorFlow, and so cannot repeat itself.
_MODELS = ("plain", "dropout", "views", "kernel")
_EXAMPLES, _FEATURES, _LOT = 480, 12, 48


class _Case(NamedTuple):
    """What is trained, and how."""

    noise: str
    optimizer: str
    model: str
    steps_per_execution: int

    @property
    def repeats_itself(self):
        return self.model != "kernel" and not _KINDS[self.noise][1]

    def __str__(self):
        return (
            f"{self.optimizer}, {self.model}, {self.steps_per_execution} an execution, {self.noise}"
        )


def define_flags():
    """Defines this program's flags."""
    flags.DEFINE_integer("kills", 100, "Interruptions in all.")
    flags.DEFINE_integer("steps", 60, "Updates of each run.")
    flags.DEFINE_integer("checkpoint_every", 7, "Updates between checkpoints.")
    flags.DEFINE_integer("kills_per_run", 12, "Interruptions of one run, which then may end.")
    flags.DEFINE_float("longest_life", 4.0, "Seconds within which a process is killed.")
    flags.DEFINE_integer("seed", 0, "Seeds the moments of the interruptions.")
    flags.DEFINE_float("epsilon", 3.0, "The epsilon that is planned.")
    for name, default, known in (
        ("interruptions", "kill", INTERRUPTIONS),
        ("optimizers", "adam", _OPTIMIZERS),
        ("models", "plain", _MODELS),
    ):
        flags.DEFINE_list(name, [default], f"Some of: {', '.join(known)}; or: all.")
    flags.DEFINE_list("steps_per_execution", ["1"], "Steps of an execution, one number or more.")
    flags.DEFINE_bool("callbacks", False, "Lower the learning rate by noisy validation, too.")
    flags.DEFINE_string("scratch_dir", None, "Folder for the runs; default: a temporary one.")


def main():
    """Interrupts, resumes, compares."""
    if FLAGS.kills < 1 or FLAGS.kills_per_run < 1:
        raise ValueError(
            "Expected --kills and --kills_per_run of at least 1, got "
            f"{FLAGS.kills} and {FLAGS.kills_per_run}."
        )
    kinds = _chosen("interruptions", INTERRUPTIONS)
    rng = random.Random(FLAGS.seed)
    survived, faults = collections.Counter(), 0
    with tempfile.TemporaryDirectory(dir=FLAGS.scratch_dir) as scratch:
        for run, case in enumerate(_cases(rng)):
            left = FLAGS.kills - survived.total()
            if left < 1:
                break
            folder = pathlib.Path(scratch) / f"run-{run}"
            result = kill_until_done(
                _training(folder, case),
                kills=min(FLAGS.kills_per_run, left),
                longest_life=FLAGS.longest_life,
                rng=rng,
                kinds=kinds,
            )
            unharmed = None
            if case.noise == _REPEATABLE and case.repeats_itself:
                unharmed = pathlib.Path(scratch) / f"unharmed-{run}"
                kill_until_done(_training(unharmed, case), kills=0, longest_life=0, rng=rng)
            survived.update(result.by_kind)
            faults += _judge(folder, case, unharmed, result)
    by_kind = ", ".join(f"{count} by {kind}" for kind, count in survived.items())
    print(f"{survived.total()} kills survived ({by_kind}), {faults} faults.")
    if faults:
        raise SystemExit(1)


def _chosen(name, known):
    given = list(known) if getattr(FLAGS, name) == ["all"] else getattr(FLAGS, name)
    if not given or not set(given) <= set(known):
        raise ValueError(f"Expected --{name} to be some of {', '.join(known)}, got {given}.")
    return given


def _cases(rng):
    """Yields cases without end: each optimizer, model and noise comes up in turn.

    The next seed goes on about where this one ends.
    """
    models = _chosen("models", _MODELS)
    steps = [int(number) for number in FLAGS.steps_per_execution]
    optimizers, kinds = _chosen("optimizers", _OPTIMIZERS), list(_KINDS)
    for run in itertools.count(FLAGS.seed * -(-FLAGS.kills // FLAGS.kills_per_run)):
        optimizer, noise, model = (x[run % len(x)] for x in (optimizers, kinds, models))
        yield _Case(noise, optimizer, model, rng.choice(steps))


def _training(folder, case):
    settings, loses_key = _KINDS[case.noise]

    def train(alive, harm=None):
        # The warnings are of a slow witness, of a lost key and of what is counted again.
        tf.get_logger().setLevel("ERROR")
        warnings.simplefilter("ignore")
        folder.mkdir(parents=True, exist_ok=True)
        if loses_key:
            (folder / "run" / "secret.key").unlink(missing_ok=True)
        keras.utils.set_random_seed(1)
        data = np.random.default_rng(5).normal(size=(2 * _EXAMPLES, _FEATURES)).astype(np.float32)
        targets = (data[:, :3].argmax(axis=1)).astype(np.int64)
        private = make_private(
            _model(case.model),
            num_examples=_EXAMPLES,
            expected_batch_size=_LOT,
            steps=FLAGS.steps,
            l2_norm_clip=1.0,
            budget=PrivacyBudget(FLAGS.epsilon, 1e-4),
            public_batch=data[-20:],
            run_dir=folder / "run",
            resume=True,
            checkpoint_every=FLAGS.checkpoint_every,
            **(_views() if case.model == "views" else {}),
            **settings,
        )
        private.compile(
            _optimizer(case.optimizer),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            steps_per_execution=case.steps_per_execution,
        )
        average = WeightAverage(0.9)
        validation = data[_EXAMPLES:-20], targets[_EXAMPLES:-20]
        callbacks = [average, *(_stateful(validation) if FLAGS.callbacks else [])]
        witness = Witness(folder / "witness")
        try:
            private.restore_run(callbacks)
            if private.ledger.remaining_updates:
                look = _Look(witness, alive, harm, folder / "run" / "ledger.jsonl")
                private.fit(
                    data[:_EXAMPLES],
                    targets[:_EXAMPLES],
                    verbose=0,
                    callbacks=[look, *callbacks],
                )
        except BudgetExhaustedError as error:
            # An honest end. Who catches it sees the weights.
            (folder / "stopped").write_text(str(error))
            witness.see(private.ledger.position, _digest(private))
        except OSError as error:
            if harm is None or harm.kind != "full_disk":
                raise
            raise Interrupted from error
        with average.applied():
            averages = [v.numpy() for v in private.model.trainable_variables]
        np.savez(folder / "weights.npz", *private.model.get_weights(), *averages)

    return train


def _model(name):
    random_layers = {
        "dropout": [keras.layers.Dropout(0.3), keras.layers.GaussianNoise(0.1)],
        "kernel": [keras.layers.Lambda(lambda x: x + 0.1 * tf.random.normal(tf.shape(x)))],
    }
    layers = [
        keras.layers.Dense(16),
        PublicBatchNormalization(),
        keras.layers.Activation("relu"),
        *random_layers.get(name, []),
        keras.layers.Dense(3),
    ]
    return keras.Sequential([keras.Input((_FEATURES,)), *layers])


def _views():
    return dict(augmentation_multiplicity=3, augmentation=keras.layers.GaussianNoise(0.2))


def _optimizer(name):
    module = keras.optimizers
    if name.startswith("legacy-"):
        module, name = keras.optimizers.legacy, name.removeprefix("legacy-")
    classes = {key.lower(): cls for key, cls in vars(module).items()}
    return classes[name](0.01)


def _stateful(validation):
    """Callbacks that remember; the rate falls whatever the noisy answer is."""
    return [
        PrivateValidation(*validation, noise_multiplier=1e3, queries=2 * FLAGS.steps),
        keras.callbacks.ReduceLROnPlateau(
            "private_val_accuracy", mode="max", factor=0.8, patience=1, min_delta=1e9
        ),
    ]


def _digest(private):
    digest = hashlib.sha256()
    for weight in private.model.trainable_variables:
        digest.update(weight.numpy().tobytes())
    return digest.hexdigest()


class _Look(keras.callbacks.Callback):
    """Sees the weights after every execution, as anybody who watches a training could.

    And brings about what a `Harm` asks for, after a part of the updates that are left.
    """

    def __init__(self, witness, alive, harm, ledger_path):
        super().__init__()
        self._witness, self._alive, self._said = witness, alive, False
        self._harm, self._at, self._ledger_path = harm, None, ledger_path

    def on_train_batch_end(self, batch, logs=None):
        if not self._said:
            self._alive()
            self._said = True
        ledger = self.model.ledger
        self._witness.see(ledger.position, _digest(self.model))
        if self._harm is None:
            return
        if self._at is None:
            self._at = ledger.position + int(self._harm.when * ledger.remaining_updates / 2)
        if ledger.position >= self._at:
            if self._harm.kind == "exception":
                raise Interrupted
            # A few lines of the ledger may fit yet; a checkpoint does not.
            room = os.stat(self._ledger_path).st_size + int(1000 * self._harm.when) % 400
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))


def _judge(folder, case, unharmed, result):
    """Prints what became of a run; returns how many things are wrong with it."""
    ledger = read_ledger(folder / "run" / "ledger.jsonl")
    witness = Witness(folder / "witness")
    lost_keys = _KINDS[case.noise][1]
    planned = ledger.plan.claimed_epsilon_after(FLAGS.steps)
    claimed = ledger.claimed_epsilon()
    seen = _seen_epsilon(ledger.plan, witness, lost_keys)
    faults = []
    counts_all = case.noise != _REPEATABLE and case.steps_per_execution == 1
    if counts_all and ledger.updates < witness.releases():
        faults.append(f"the ledger counts {ledger.updates} of {witness.releases()} releases")
    if claimed > planned:
        faults.append(f"epsilon {claimed} is above the planned {planned}")
    if seen > claimed * (1 + 1e-9):
        faults.append(f"what was seen costs epsilon {seen}, the ledger says {claimed}")
    if case.repeats_itself and (ledger.updates, ledger.recounted) != (FLAGS.steps, 0):
        faults.append(
            f"{ledger.updates} updates are counted where {FLAGS.steps} were planned, "
            f"{ledger.recounted} of them twice"
        )
    if unharmed is not None:
        expected, found = (np.load(f / "weights.npz") for f in (unharmed, folder))
        differs = max(np.max(np.abs(expected[name] - found[name])) for name in expected.files)
        if not differs <= _ROUNDING:
            faults.append(f"a run that was never interrupted has weights that differ by {differs}")
    else:
        differs = None
    by_kind = ", ".join(f"{count} {kind}" for kind, count in result.by_kind.items())
    stopped = "; stopped by its budget" if (folder / "stopped").exists() else ""
    print(
        f"{case}: {by_kind}, {result.seconds:.0f} s, {witness.sights()} sights, "
        f"{witness.releases()} different, {ledger.updates} updates counted of {FLAGS.steps} "
        f"planned, {ledger.position} in the weights, epsilon {claimed:.4f} of "
        f"{planned:.4f}{stopped}{_of_unharmed(differs)}: {'; '.join(faults) or 'as it should be'}",
        flush=True,
    )
    return len(faults)


def _of_unharmed(differs):
    if differs is None:
        return ""
    how = f"off by at most {differs:.1e}" if differs else "met to the bit"
    return f", weights of an uninterrupted run {how}"


def _seen_epsilon(plan, witness, lost_keys):
    """The least that what was seen costs: several releases at one position are of one lot.

    With keys that were lost, they may be of several.
    """
    lots = witness.lots()
    uses = [1] * sum(lots.values()) if lost_keys else list(lots.values())
    if not uses:
        return 0.0
    noise, rate = plan.noise_multiplier, plan.sampling_rate
    rdp = sum(
        count * rdp_of(dp_sgd_event(rate, noise / math.sqrt(m), 1))
        for m, count in collections.Counter(uses).items()
    )
    return rdp_to_epsilon(rdp, plan.delta)


if __name__ == "__main__":
    define_flags()
    common.run_app(main)
