"""Runs that can be resumed: what is kept, what is rejected, what is counted."""

import contextlib
import errno
import hashlib
import json
import os
import pathlib
import secrets
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.halting import Halt, HaltAfter
from tfdpnorm import files
from tfdpnorm.keras_compat.variables import KERAS_3
from tfdpnorm.privacy import BudgetExhaustedError, LedgerCorruptError, read_ledger
from tfdpnorm.privacy.entries import Search, Updates
from tfdpnorm.privacy.search import SearchPlan
from tfdpnorm.training import PrivateValidation, WeightAverage, weights_digest
from tfdpnorm.training.resume import run_folder

RATE = "learning_rate" if KERAS_3 else "lr"  # as histories name it


def weights(private):
    return np.concatenate([w.ravel() for w in private.model.get_weights()])


def crash(private, data, after, callbacks=()):
    """Trains up to `after` updates, and lets go of the ledger as a dead process does."""
    with pytest.raises(Halt):
        private.fit(*data, verbose=0, callbacks=[*callbacks, HaltAfter(after)])
    private.ledger.close()


@pytest.fixture(scope="module")
def crashed(start, data, tmp_path_factory):
    """Returns a function that makes a folder that of a run which crashed after some updates.

    Tests get a copy each of one such run.
    """
    kept = {}

    def make(folder, after, **settings):
        run = (after, *settings.items())
        if run not in kept:
            kept[run] = tmp_path_factory.mktemp("crashed")
            crash(start(kept[run], **settings), data, after)
        shutil.copytree(kept[run], folder, dirs_exist_ok=True)

    return make


def test_a_run_that_came_to_its_end_has_its_statement(start, data, tmp_path):
    private = start(tmp_path)
    private.fit(*data, verbose=0, epochs=1, steps_per_epoch=2)
    text, fields = tmp_path / "privacy_statement.txt", tmp_path / "privacy_statement.json"
    assert private.ledger.state.remaining_updates and not text.exists() and not fields.exists()
    private.fit(*data, verbose=0)
    assert text.read_text() == private.privacy_statement() + "\n"
    assert json.loads(fields.read_text()) == private.privacy_statement_json()
    digest = hashlib.sha256((tmp_path / "ledger.jsonl").read_bytes()).hexdigest()
    assert json.loads(fields.read_text())["ledger"]["sha256"] == digest
    assert json.loads(fields.read_text())["weights_sha256"] == weights_digest(private.model)


def test_a_trial_of_a_search_has_no_statement_with_its_date(start, data, tmp_path):
    private = start(tmp_path)
    plan = private.plan
    trial = (plan.sampling_rate, plan.noise_multiplier, plan.steps)
    private.ledger.record(Search(SearchPlan(2, 1.0, (trial,))))
    private.fit(*data, verbose=0)
    assert not private.ledger.state.remaining_updates
    assert not list(tmp_path.glob("privacy_statement*"))


def test_a_restored_run_has_the_averages_that_the_optimizer_left(start, data, tmp_path):
    """Keras puts them in the place of the weights when a fit ends, after its last epoch."""
    optimizer = lambda: keras.optimizers.SGD(0.5, use_ema=True, ema_momentum=0.8)  # noqa: E731
    trained = start(tmp_path / "run", optimizer=optimizer())
    trained.fit(*data, verbose=0)
    trained.ledger.close()
    restored = start(tmp_path / "run", resume=True, optimizer=optimizer())
    assert restored.restore_run()
    np.testing.assert_array_equal(weights(restored), weights(trained))
    assert "unknown provenance" not in restored.privacy_statement()


@pytest.mark.slow
def test_a_resumed_run_charges_what_was_lost(start, data, tmp_path):
    crash(start(tmp_path), data, 8)
    again = start(tmp_path, resume=True)
    assert (again.ledger.state.position, again.ledger.updates, again.ledger.state.lost_updates) == (
        6,
        8,
        2,
    )
    assert int(again.update_count) == 8
    again.fit(*data, verbose=0)
    assert (again.ledger.state.position, again.ledger.updates) == (10, 12)
    assert again.ledger.epsilon() == again.plan.epsilon_after(12)
    assert int(again.optimizer.iterations) == 10
    assert "once; 2 updates were lost and are charged" in again.privacy_statement()
    with pytest.raises(BudgetExhaustedError, match="12 spent of 12 planned, 2 of them lost"):
        again.fit(*data, verbose=0)


def test_a_resumed_run_says_where_it_continues(start, crashed, data, tmp_path, capsys):
    crashed(tmp_path, 8)
    start(tmp_path, resume=True).fit(*data, verbose=2)
    said = f"Resumed {tmp_path}: 8 of 12 updates are spent, 2 of them lost in crashes."
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(("steps", "every"), [(12, 1), (100, 2), (149, 2), (1000, 20)])
def test_a_fiftieth_of_the_plan_lies_between_checkpoints(start, tmp_path, data, steps, every):
    private = start(tmp_path, steps=steps, checkpoint_every=None)
    crash(private, data, 2 * every)
    saved = [int(f.name.split("-")[1]) for f in tmp_path.glob("checkpoint-*")]
    assert sorted(saved) == [0, every] if every > 1 else [0, 1]


@pytest.mark.slow
def test_state_of_callbacks_is_restored(start, data, tmp_path):
    """A run that is killed reduces its rate, and stops, as one that is let alone."""
    rng = np.random.default_rng(3)
    validation = rng.normal(size=(30, 5)).astype(np.float32), np.zeros(30, np.int64)

    def callbacks():
        return [
            PrivateValidation(*validation, noise_multiplier=1e6, queries=6),
            keras.callbacks.ReduceLROnPlateau(
                "private_val_accuracy", mode="max", factor=0.5, patience=2, min_delta=1e9
            ),
            keras.callbacks.EarlyStopping(
                "private_val_accuracy", mode="max", patience=4, min_delta=1e9
            ),
        ]

    settings = {"steps": 24, "insecure_seed": 1, "checkpoint_every": None}
    whole = start(tmp_path / "whole", **settings)
    history = whole.fit(*data, verbose=0, callbacks=callbacks()).history
    assert history[RATE][-1] < history[RATE][0] and whole.ledger.state.position < 24
    crash(start(tmp_path / "run", **settings), data, 14, callbacks())
    again = start(tmp_path / "run", resume=True, **settings)
    rest = again.fit(*data, verbose=0, callbacks=callbacks()).history
    assert rest[RATE] == history[RATE][3:]
    assert again.ledger.state.position == whole.ledger.state.position
    assert again.ledger.state.times_asked("private_val_accuracy") == len(history[RATE])


def test_secrets_are_not_on_the_disk(start, data, tmp_path, monkeypatch):
    """Neither what the operating system gave nor what the noise was drawn with."""
    drawn, real = [], secrets.token_bytes
    monkeypatch.setattr(
        secrets, "token_bytes", lambda count=32: drawn.append(real(count)) or drawn[-1]
    )
    private = start(tmp_path, noise_generator="philox")
    crash(private, data, 7)
    drawn += [hashlib.shake_256(b"noise" + key).digest(32) for key in drawn]
    drawn += [key.numpy().tobytes() for key in private._noise._words._keys.values()]
    kept = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert {"ledger.jsonl", "state.json"} < kept and not any("key" in n for n in kept)
    contents = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    for secret in drawn:
        assert not any(secret in c or secret.hex().encode() in c for c in contents)
    assert drawn


def test_a_run_that_ended_is_not_trained_further(start, data, tmp_path):
    done = start(tmp_path)
    done.fit(*data, verbose=0)
    expected = weights(done)
    done.ledger.close()
    again = start(tmp_path, resume=True)
    again.restore_run()
    np.testing.assert_array_equal(weights(again), expected)
    with pytest.raises(BudgetExhaustedError, match="No updates are left"):
        again.fit(*data, verbose=0)


@pytest.mark.slow
def test_weights_are_there_before_training_goes_on(start, data, tmp_path):
    crash(start(tmp_path / "a", insecure_seed=1), data, 4)
    other = start(tmp_path / "b", insecure_seed=1)
    crash(other, data, 3)
    again = start(tmp_path / "a", resume=True, insecure_seed=1)
    for a, b in zip(other.trainable_variables, again.trainable_variables, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_resume_begins_where_there_is_nothing(start, data, tmp_path):
    private = start(tmp_path / "new", resume=True)
    private.fit(*data, verbose=0)
    assert (private.ledger.updates, private.ledger.state.resumes) == (12, 0)


def test_a_run_is_not_begun_on_top_of_another(start, crashed, tmp_path):
    crashed(tmp_path, 2)
    before = (tmp_path / "ledger.jsonl").read_bytes()
    with pytest.raises(ValueError, match="holds a run already.*resume=True"):
        start(tmp_path)
    assert (tmp_path / "ledger.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"num_examples": 41}, "num_examples"),
        ({"expected_batch_size": 11}, "expected_batch_size"),
        ({"noise_multiplier": 0.9}, "noise_multiplier"),
        ({"l2_norm_clip": 2.0}, "l2_norm_clip"),
        ({"steps": 13}, "steps"),
        ({"delta": 1e-6}, "delta"),
        ({"accountant": "pld"}, "accountant"),
        ({"noise_generator": "philox"}, "noise_generator"),
        ({"insecure_seed": 1}, "insecure_seed"),
    ],
)
def test_changed_settings_are_rejected(start, crashed, tmp_path, settings, name):
    crashed(tmp_path, 2)
    with pytest.raises(ValueError, match=rf"another run: .*{name} is .* there and .* here"):
        start(tmp_path, resume=True, **settings)


@pytest.mark.needs_tensorflow_privacy
def test_an_engine_that_bounds_no_rounding_cannot_resume(start, build, tmp_path):
    start(tmp_path, model=build(), public_batch=None).ledger.close()
    with pytest.raises(ValueError, match="another run: sum_rounding is .* there and None here"):
        start(tmp_path, model=build(), public_batch=None, resume=True, engine="tfp_model")


@pytest.mark.slow_cases("clipping", "engine", "views")
@pytest.mark.parametrize(
    "settings",
    [
        {"clipping": "per_layer", "clip_function": "automatic"},
        {"engine": "per_example", "physical_batch_size": 4, "pull_back_weight": 2.0},
        {"augmentation_multiplicity": 2, "augmentation": [tf.identity, tf.negative]},
        {"optimizer": "sgd", "loss_scale": 4.0},
    ],
    ids=["clipping", "engine", "views", "optimizer"],
)
def test_settings_without_effect_on_the_guarantee_may_change(
    start, crashed, data, tmp_path, settings
):
    crashed(tmp_path, 8)
    again = start(tmp_path, resume=True, **settings)
    fresh = "optimizer" in settings
    with pytest.warns(UserWarning) if fresh else contextlib.nullcontext() as caught:
        again.fit(*data, verbose=0)
    if fresh:
        assert "without the saved state of the optimizer, the learning rate. The" in str(caught[0])
    assert (again.ledger.updates, again.ledger.state.position) == (12, 10)
    assert int(again.optimizer.iterations) == (4 if fresh else 10)
    assert again.ledger.guarantee_holds


def test_a_new_rate_holds_and_one_of_a_callback_is_kept(start, data, tmp_path, cross_entropy):
    lower = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: lowered.optimizer.learning_rate.assign(0.002)
    )
    lowered = start(tmp_path, optimizer=keras.optimizers.Adam(0.01))
    crash(lowered, data, 8, [lower])
    same = start(tmp_path, resume=True, optimizer=keras.optimizers.Adam(0.01))
    assert same.restore_run() and float(same.optimizer.learning_rate) == np.float32(0.002)
    same.ledger.close()
    other = start(tmp_path, resume=True, optimizer=keras.optimizers.Adam(0.05))
    with pytest.warns(UserWarning, match="without the saved state of the learning rate. The guar"):
        assert other.restore_run()
    assert float(other.optimizer.learning_rate) == np.float32(0.05)
    assert int(other.optimizer.iterations) == 6, "the rest of the optimizer goes on"


def test_another_model_is_rejected(start, crashed, tmp_path, build):
    crashed(tmp_path, 3)
    other = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)])
    with pytest.raises(ValueError, match="statistics is"):
        start(tmp_path, resume=True, model=other, public_batch=None)
    wider = build("functional", "public_batch")
    wider.layers[1].trainable = False
    start_ledger = read_ledger(tmp_path / "ledger.jsonl").updates
    with pytest.raises(ValueError, match="do not fit this model: they have a trained weight"):
        start(tmp_path, resume=True, model=wider)
    assert read_ledger(tmp_path / "ledger.jsonl").updates == start_ledger


def test_another_public_batch_is_as_good(start, crashed, data, public, tmp_path):
    crashed(tmp_path, 3)
    again = start(tmp_path, resume=True, public_batch=public[::-1].copy())
    again.fit(*data, verbose=0)
    assert again.ledger.updates == 12


@pytest.mark.slow
def test_other_callbacks_begin_again(start, data, tmp_path):
    crash(
        start(tmp_path),
        data,
        8,
        [WeightAverage(0.9), keras.callbacks.EarlyStopping("epsilon", mode="min")],
    )
    again, average = start(tmp_path, resume=True), WeightAverage(0.5)
    plateau = keras.callbacks.ReduceLROnPlateau("epsilon", mode="min", patience=100)
    with pytest.warns(UserWarning, match="left|of EarlyStopping, ReduceLROnPlateau and Model"):
        again.fit(*data, verbose=0, callbacks=[average, plateau])
    assert again.ledger.updates == 12
    again.ledger.close()
    last = start(tmp_path, resume=True, optimizer="sgd")
    with pytest.warns(UserWarning, match="optimizer, the learning rate, callbacks, EarlyStopping"):
        last.restore_run()
    np.testing.assert_array_equal(weights(last), weights(again))


# What can happen to the folder


def newest(folder):
    return sorted(folder.glob("checkpoint-*"))[-1]


def damage_half(file):
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


@pytest.mark.quick_cases("flipped-variables.data-00000-of-00001")
@pytest.mark.parametrize("name", ["state.json", "variables.index", "variables.data-00000-of-00001"])
@pytest.mark.parametrize("harm", ["half", "gone", "flipped"])
def test_a_damaged_checkpoint_is_passed_over(start, crashed, data, tmp_path, name, harm):
    crashed(tmp_path, 8, insecure_seed=1)
    file = newest(tmp_path) / name
    if harm == "half":
        damage_half(file)
    elif harm == "gone":
        file.unlink()
    else:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 4
        file.write_bytes(content)
    with pytest.warns(UserWarning, match="are damaged: checkpoint-00000006"):
        again = start(tmp_path, resume=True, insecure_seed=1)
    assert again.ledger.state.position == 3
    again.fit(*data, verbose=0)
    assert (again.ledger.updates, again.ledger.state.position) == (12, 7)


def test_missing_checkpoints_give_an_error_with_the_spent_budget(start, crashed, tmp_path):
    crashed(tmp_path, 8)
    for checkpoint in tmp_path.glob("checkpoint-*"):
        damage_half(checkpoint / "state.json")
    with pytest.raises(ValueError, match="There is no intact checkpoint .*counts 8 updates"):
        start(tmp_path, resume=True)
    for checkpoint in tmp_path.glob("checkpoint-*"):
        shutil.rmtree(checkpoint)
    with pytest.raises(ValueError, match="There is no intact checkpoint .*Found: none"):
        start(tmp_path, resume=True)


def test_checkpoints_without_a_ledger_are_rejected(start, crashed, tmp_path):
    crashed(tmp_path, 8)
    (tmp_path / "ledger.jsonl").unlink()
    for resume in (True, False):
        with pytest.raises(ValueError, match="The ledger.jsonl that belongs to the checkpoints"):
            start(tmp_path, resume=resume)


def test_a_shortened_ledger_is_rejected(start, crashed, tmp_path):
    """Lines cut off the end are seen by the checkpoint, which remembers how far it reached."""
    crashed(tmp_path, 8)
    ledger = tmp_path / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:-3]))
    with pytest.raises(ValueError, match="Expected|Restore"):
        start(tmp_path, resume=True)
    # One line less than the checkpoint saw.
    reached = json.loads((newest(tmp_path) / "state.json").read_text())["ledger"][0]
    ledger.write_bytes(b"".join(lines[: reached - 1]))
    with pytest.raises(LedgerCorruptError, match=f"got only {reached - 1} lines"):
        start(tmp_path, resume=True)
    ledger.write_bytes(b"".join(lines).replace(b'"count":1', b'"count":0', 1))
    with pytest.raises(LedgerCorruptError):
        start(tmp_path, resume=True)


def test_a_process_that_died_before_a_checkpoint_begins_anew(start, data, tmp_path):
    start(tmp_path).ledger.close()
    again = start(tmp_path, resume=True)
    again.fit(*data, verbose=0)
    assert again.ledger.updates == 12


def test_two_processes_cannot_have_one_run(start, tmp_path):
    first = start(tmp_path)
    with pytest.raises(BlockingIOError, match="The ledger is in use already"):
        start(tmp_path, resume=True)
    first.ledger.close()


def test_a_folder_that_is_none_is_rejected(start, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for place in (file, file / "below"):
        with pytest.raises(OSError, match="Expected run_dir to be a folder"):
            start(place)


@contextlib.contextmanager
def full_disk(monkeypatch):
    """Half of what TensorFlow writes fits, and then it says so."""
    real = tf.train.Checkpoint.write

    def write(self, prefix, *args, **kwargs):
        real(self, prefix, *args, **kwargs)
        damage_half(next(pathlib.Path(prefix).parent.glob("*.data*")))
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(tf.train.Checkpoint, "write", write)
        yield


@pytest.mark.slow
def test_a_full_disk_stops_the_run_and_loses_nothing(start, data, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    crash(start(folder, insecure_seed=1), data, 4)
    full = start(folder, resume=True, insecure_seed=1)
    with (
        full_disk(monkeypatch),
        pytest.raises(OSError, match="Cannot write a checkpoint to .*No space left"),
    ):
        full.fit(*data, verbose=0)
    full.ledger.close()
    assert not list(folder.glob("*.partial"))
    again = start(folder, resume=True, insecure_seed=1)
    again.fit(*data, verbose=0)
    assert again.ledger.updates == 12 and again.ledger.guarantee_holds is False


def test_a_ledger_that_cannot_be_written_stops_before_the_update(
    start, data, tmp_path, monkeypatch
):
    private = start(tmp_path)
    before = weights(private)
    real = os.write

    def write(descriptor, line):
        if b'"updates"' in line:
            real(descriptor, line[: len(line) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, line)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write)
        with pytest.raises(OSError, match="No space left"):
            private.fit(*data, verbose=0)
    for variable, value in zip(private.model.weights[:2], np.split(before, [20, 24]), strict=False):
        np.testing.assert_array_equal(variable.numpy().ravel(), value)
    assert private.ledger.updates == 0
    private.fit(*data, verbose=0)
    assert private.ledger.updates == 12


def test_a_checkpoint_tells_no_more_than_weights(start, crashed, tmp_path):
    crashed(tmp_path, 4)
    state = json.loads((newest(tmp_path) / "state.json").read_text())
    parts = {"updates", "ledger", "weights", "callbacks", "variables", "files", "digest"}
    parts.add("physical_batch_size")  # a setting
    assert set(state) == parts
    names = [name for name, _ in tf.train.list_variables(str(newest(tmp_path) / "variables"))]
    assert not any("key" in name for name in names)
    assert len(list(tmp_path.glob("checkpoint-*"))) == 2


@pytest.mark.quick_cases("2", "3", "4", "5")
@pytest.mark.parametrize("dies_in", range(1, 6))
def test_a_checkpoint_that_is_replaced_is_there_at_every_moment(
    tmp_path, monkeypatch, small_plan, dies_in
):
    """As at the end of an epoch, where the state of callbacks is saved after they have acted."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    first, calls = run_folder.RunFolder(tmp_path, small_plan, {}), []
    first.ledger.record(Updates(3))
    first.save(model, {})

    def dying(real):
        def call(*arguments, **named):
            calls.append(arguments)
            if len(calls) == dies_in:
                raise KeyboardInterrupt
            return real(*arguments, **named)

        return call

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", dying(os.rename))
        patched.setattr(files, "flush", lambda path: None)
        patched.setattr(shutil, "rmtree", dying(shutil.rmtree))
        with pytest.raises(KeyboardInterrupt):
            for _ in range(3):
                first.save(model, {})
    first.ledger.close()
    again = run_folder.RunFolder(tmp_path, small_plan, {}, resume=True)
    assert again.checkpoint["updates"] == 3 and not list(tmp_path.glob("*.replaced"))
    again.restore_weights(model)


def test_repeated_training_in_one_process_goes_on(start, data, tmp_path):
    private = start(tmp_path)
    private.fit(*data, verbose=0, epochs=1)
    assert private.ledger.updates == 4
    private.fit(*data, verbose=0)
    assert private.ledger.updates == 12
    assert read_ledger(tmp_path / "ledger.jsonl").epsilon() == private.ledger.epsilon()


@pytest.mark.parametrize("every", [0, -1, 1.5, True, "3"])
def test_checkpoint_every_is_a_number_of_updates(start, tmp_path, every):
    with pytest.raises(ValueError, match="Expected checkpoint_every to be an integer >= 1"):
        start(tmp_path, checkpoint_every=every)
    assert not any(tmp_path.iterdir())


def test_the_generator_is_cryptographic_and_cannot_be_compiled(private, build, cross_entropy):
    trained = private(build())
    assert trained.ledger.settings["noise_generator"] == "openssl"
    with pytest.raises(ValueError, match='Expected jit_compile=False with noise_generator="openss'):
        trained.compile("sgd", cross_entropy, jit_compile=True)


def test_a_run_that_is_read_after_its_end_was_not_resumed(start, data, tmp_path):
    first = start(tmp_path)
    first.fit(*data, verbose=0)
    first.ledger.close()
    read = start(tmp_path, resume=True)
    assert read.restore_run()
    np.testing.assert_array_equal(weights(read), weights(first))
    assert read.ledger.state.resumes == 0 and "was resumed" not in read.privacy_statement()
    with pytest.raises(BudgetExhaustedError):
        read.fit(*data, verbose=0)


def test_a_run_that_lost_its_last_updates_was_resumed(start, data, tmp_path):
    first = start(tmp_path, checkpoint_every=5)
    crash(first, data, 11)
    first = start(tmp_path, resume=True, checkpoint_every=5)
    first.ledger.record(Updates(first.ledger.state.remaining_updates))  # lost with the process
    first.ledger.close()
    read = start(tmp_path, resume=True)
    assert read.ledger.state.resumes == 2 and read.ledger.state.lost_updates == 2
