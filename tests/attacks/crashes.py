"""Interrupts a private training again and again, and checks its ledger and its weights.

    python -m tests.attacks.crashes --kills=100
    python -m tests.attacks.crashes --kills=300 --interruptions=all --optimizers=all \
        --models=all --steps_per_execution=1,4 --callbacks

Each run is interrupted and resumed until it has ended: by SIGKILL, by Ctrl-C, by an exception in a
callback, or by a full disk. A witness within the step writes down each noise before it is used:
its words, its number, and the updates that the ledger's file had announced by then. No noise may be
drawn that the file has not announced, none may be drawn twice, no run may make more updates than
planned, and no crash may cost more than the updates between two checkpoints and an execution.
"""

from trainers import common  # before everything that loads TensorFlow  # isort: skip

import collections
import contextlib
import hashlib
import itertools
import json
import os
import pathlib
import random
import resource
import tempfile
import warnings
from typing import NamedTuple
from unittest import mock

import numpy as np
import tensorflow as tf
from absl import flags
from tensorflow import keras

from tests.attacks.killing import INTERRUPTIONS, Interrupted, Witness, kill_until_done
from tests.private_of import private_of
from tfdpnorm.keras_compat.variables import KERAS_3
from tfdpnorm.layers import PublicBatchNormalization
from tfdpnorm.noise.words import OpenSSLWords, PhiloxWords
from tfdpnorm.privacy import PrivacyBudget, read_ledger
from tfdpnorm.training import PrivateValidation, WeightAverage

FLAGS = flags.FLAGS
# name: settings of make_private. A seed repeats the key, and its numbers must not repeat either.
_KINDS = {"secret noise": {}, "seeded noise": {"insecure_seed": 3}}
_OF_BOTH = "adadelta adafactor adagrad adam adamw adamax ftrl lion nadam rmsprop sgd".split()
_LEGACY = [
    f"legacy-{name}" for name in "adadelta adagrad adam adamax ftrl nadam rmsprop sgd".split()
]
_OPTIMIZERS = [*_OF_BOTH, *(("lamb", "muon") if KERAS_3 else _LEGACY)]
_MODELS = ("plain", "dropout", "views")
_EXAMPLES, _FEATURES, _LOT = 480, 12, 48


class _Case(NamedTuple):
    """What is trained, and how."""

    noise: str
    optimizer: str
    model: str
    steps_per_execution: int

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
    """Interrupts, resumes, counts."""
    if FLAGS.kills < 1 or FLAGS.kills_per_run < 1:
        raise ValueError(
            "Expected --kills and --kills_per_run of at least 1, got "
            f"{FLAGS.kills} and {FLAGS.kills_per_run}."
        )
    kinds = _chosen("interruptions", INTERRUPTIONS)
    rng = random.Random(FLAGS.seed)
    survived, found = collections.Counter(), []
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
            survived.update(result.by_kind)
            found.append(_outcome(folder, case))
            _show(case, result, found[-1])
    by_kind = ", ".join(f"{count} by {kind}" for kind, count in survived.items())
    lost = [updates for outcome in found for updates in outcome.lost]
    beyond = sum(outcome.beyond_plan for outcome in found)
    uncounted, twice, costly = (
        sum(getattr(outcome, name) for outcome in found)
        for name in ("uncounted", "used_twice", "costly")
    )
    print(
        f"{survived.total()} interruptions survived ({by_kind}) in {len(found)} runs. Of them "
        f"beyond the plan: {beyond} runs; uncounted: {uncounted} draws; noise used twice: {twice} "
        f"times. Lost per crash: {sum(lost) / survived.total():.2f} updates in the mean, "
        f"{max(lost, default=0)} at most; more than allowed: {costly} times."
    )
    if beyond or uncounted or twice or costly:
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
    def train(alive, harm=None):
        # The warnings are of a slow witness, and of a folder without guarantee.
        tf.get_logger().setLevel("ERROR")
        warnings.simplefilter("ignore")
        folder.mkdir(parents=True, exist_ok=True)
        keras.utils.set_random_seed(1)
        data = np.random.default_rng(5).normal(size=(2 * _EXAMPLES, _FEATURES)).astype(np.float32)
        targets = (data[:, :3].argmax(axis=1)).astype(np.int64)
        private = private_of(
            _model(case.model),
            num_examples=_EXAMPLES,
            expected_batch_size=_LOT,
            steps=FLAGS.steps,
            l2_norm_clip=1.0,
            budget=PrivacyBudget(FLAGS.epsilon, 1e-4),
            public_batch=data[-20:],
            run_dir=folder / "run",
            resume=True,
            validate=False,  # It has tests of its own, and takes its time.
            checkpoint_every=FLAGS.checkpoint_every,
            **(_views() if case.model == "views" else {}),
            **_KINDS[case.noise],
        )
        private.compile(
            _optimizer(case.optimizer),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            steps_per_execution=case.steps_per_execution,
        )
        average = WeightAverage(0.9)
        validation = data[_EXAMPLES:-20], targets[_EXAMPLES:-20]
        callbacks = [average, *(_stateful(validation) if FLAGS.callbacks else [])]
        ledger_file = folder / "run" / "ledger.jsonl"
        try:
            private.restore_run(callbacks)
            if private.ledger.state.remaining_updates:
                with _witnessed(Witness(folder / "witness"), ledger_file):
                    private.fit(
                        data[:_EXAMPLES],
                        targets[:_EXAMPLES],
                        verbose=0,
                        callbacks=[_Harming(alive, harm, ledger_file), *callbacks],
                    )
        except (OSError, tf.errors.OpError) as error:
            if harm is None or harm.kind != "full_disk":
                raise
            raise Interrupted from error
        if not all(np.isfinite(weight).all() for weight in private.model.get_weights()):
            raise ValueError("Expected finite weights, got others.")

    return train


@contextlib.contextmanager
def _witnessed(witness, ledger_file):
    """Has every noise written down before it is used: words, number, and what was announced."""

    def watched(real):
        def drawn(self, purpose, place, shape):
            def see(words, place):
                name = hashlib.sha256(words).hexdigest()[:12]
                witness.see(name, place[0], read_ledger(ledger_file).updates)
                return words

            words = real(self, purpose, place, shape)
            if purpose != b"normals":
                return words
            return tf.ensure_shape(tf.numpy_function(see, [words, place], words.dtype), words.shape)

        return drawn

    with contextlib.ExitStack() as patches:
        for words in (OpenSSLWords, PhiloxWords):
            of_class = mock.patch.object(words, "__call__", watched(words.__call__))
            patches.enter_context(of_class)
        yield


def _model(name):
    random_layers = {
        "dropout": [keras.layers.Dropout(0.3), keras.layers.GaussianNoise(0.1)],
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
    classes = {key.lower(): getattr(module, key) for key in dir(module)}
    return classes[name](0.01)


def _stateful(validation):
    """Callbacks that remember; the rate falls whatever the noisy answer is."""
    return [
        PrivateValidation(*validation, noise_multiplier=1e3, queries=2 * FLAGS.steps),
        keras.callbacks.ReduceLROnPlateau(
            "private_val_accuracy", mode="max", factor=0.8, patience=1, min_delta=1e9
        ),
    ]


class _Harming(keras.callbacks.Callback):
    """Says that the training is alive, and brings about what a `Harm` asks for."""

    def __init__(self, alive, harm, ledger_file):
        super().__init__()
        self._alive, self._said = alive, False
        self._harm, self._at, self._ledger_file = harm, None, ledger_file

    def on_train_batch_end(self, batch, logs=None):
        if not self._said:
            self._alive()
            self._said = True
        if self._harm is None:
            return
        state = self.model.ledger.state
        if self._at is None:
            self._at = state.position + int(self._harm.when * state.remaining_updates / 2)
        if state.position >= self._at:
            if self._harm.kind == "exception":
                raise Interrupted
            # A few lines of the ledger may fit yet; a checkpoint does not.
            room = os.stat(self._ledger_file).st_size + int(1000 * self._harm.when) % 400
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))


class _Outcome(NamedTuple):
    """What became of a run.

    Attributes:
        drawn: How many noises were drawn.
        spent: What the ledger counts.
        lost: Updates that each resumption has lost, a list.
        beyond_plan: Whether more was drawn, or is counted, than was planned.
        uncounted: Draws whose update was not announced on the disk when they were drawn.
        used_twice: Draws that were made before.
        costly: Resumptions that lost more than lies between checkpoints.
    """

    drawn: int
    spent: int
    lost: list
    beyond_plan: bool
    uncounted: int
    used_twice: int
    costly: int


def _outcome(folder, case):
    ledger_file = folder / "run" / "ledger.jsonl"
    seen, spent = Witness(folder / "witness").seen(), read_ledger(ledger_file).updates
    uncounted = sum(int(announced) < count for count, (*_, announced) in enumerate(seen, 1))
    lost, position = [], 0
    for line in ledger_file.read_text().splitlines():
        entry = json.loads(line)
        if entry["kind"] == "updates":
            position += entry["count"]
        elif entry["kind"] == "resume":
            lost.append(position - entry["position"])
            position = entry["position"]
    allowed = FLAGS.checkpoint_every + case.steps_per_execution - 1
    return _Outcome(
        drawn=len(seen),
        spent=spent,
        lost=lost,
        beyond_plan=max(len(seen), spent) > FLAGS.steps,
        uncounted=uncounted + max(0, len(seen) - spent),
        used_twice=len(seen) - len({words for words, *_ in seen}),
        costly=sum(updates > allowed for updates in lost),
    )


def _show(case, result, found):
    by_kind = ", ".join(f"{count} {kind}" for kind, count in result.by_kind.items())
    print(
        f"{case}: {by_kind}, {result.seconds:.0f} s, {found.drawn} noises drawn, {found.spent} "
        f"updates spent of {FLAGS.steps} planned, {sum(found.lost)} of them lost "
        f"({max(found.lost, default=0)} at most in a crash): {found.beyond_plan:d} beyond the "
        f"plan, {found.uncounted} uncounted, {found.used_twice} used twice, {found.costly} costly",
        flush=True,
    )


if __name__ == "__main__":
    define_flags()
    common.run_app(main)
