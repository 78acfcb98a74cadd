"""Runs that can be resumed: what is kept, what is refused, what is counted."""

import contextlib
import errno
import json
import os
import pathlib
import shutil
import stat

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.halting import Halt, HaltAfter
from tfdpnorm.privacy import BudgetExhaustedError, LedgerCorruptError, read_ledger
from tfdpnorm.training import PrivateValidation, WeightAverage
from tfdpnorm.training.resume import run_folder


@pytest.fixture(autouse=True)
def copies_are_taken_for_the_run(monkeypatch):
    """Tests get copies of a run that crashed, which stand for the run itself."""
    monkeypatch.setattr(run_folder, "place_of", lambda file: (1, 1))


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


def test_a_restored_run_has_the_averages_that_the_optimizer_left(start, data, tmp_path):
    """Keras puts them in the place of the weights when a fit ends, after its last epoch."""
    optimizer = lambda: keras.optimizers.SGD(0.5, use_ema=True, ema_momentum=0.8)  # noqa: E731
    trained = start(tmp_path / "run", optimizer=optimizer())
    trained.fit(*data, verbose=0)
    trained.ledger.close()
    restored = start(tmp_path / "run", resume=True, optimizer=optimizer())
    assert restored.restore_run()
    np.testing.assert_array_equal(weights(restored), weights(trained))
    assert "from elsewhere" not in restored.privacy_statement()


def test_a_run_taken_up_again_ends_as_if_nothing_had_happened(start, data, tmp_path):
    whole, whole_average = start(tmp_path / "whole", insecure_seed=1), WeightAverage(0.9)
    whole.fit(*data, verbose=0, callbacks=[whole_average])
    for after in (1, 8):
        folder = tmp_path / str(after)
        crash(start(folder, insecure_seed=1), data, after, [WeightAverage(0.9)])
        again, average = start(folder, resume=True, insecure_seed=1), WeightAverage(0.9)
        assert again.ledger.position == (after - 1) // 3 * 3
        again.fit(*data, verbose=0, callbacks=[average])
        assert again.ledger.updates == again.ledger.position == 12
        np.testing.assert_array_equal(weights(again), weights(whole))
        with average.applied(), whole_average.applied():
            np.testing.assert_array_equal(weights(again), weights(whole))


def test_secret_noise_is_repeated_and_counted_once(start, data, tmp_path, weight_trace):
    first, second = weight_trace(), weight_trace()
    crash(start(tmp_path), data, 8, [first])
    again = start(tmp_path, resume=True)
    assert (again.ledger.position, again.ledger.updates) == (6, 8)
    again.fit(*data, verbose=0, callbacks=[second])
    assert again.ledger.updates == again.ledger.position == 12
    for before, after in zip(first.vectors[6:9], second.vectors[:3], strict=True):
        for a, b in zip(before, after, strict=True):
            np.testing.assert_array_equal(a, b)
    assert "resumed" in again.privacy_statement()


@pytest.mark.slow
def test_fixed_views_are_repeated_and_counted_once(start, data, tmp_path):
    settings = dict(
        insecure_seed=1, augmentation_multiplicity=2, augmentation=[tf.identity, tf.negative]
    )
    whole = start(tmp_path / "whole", **settings)
    whole.fit(*data, verbose=0)
    crash(start(tmp_path / "again", **settings), data, 8)
    again = start(tmp_path / "again", resume=True, **settings)
    again.fit(*data, verbose=0)
    assert again.ledger.updates == 12 and again.ledger.recounted == 0
    np.testing.assert_array_equal(weights(again), weights(whole))


def differing(start, run_dir, **settings):
    """A resumed run whose updates come out otherwise from the second one on."""
    again = start(run_dir, resume=True, **settings)
    again.restore_run()
    again.optimizer.learning_rate.assign(0.5)
    return again


ROOM = {"steps": 60, "noise_multiplier": 3.0, "checkpoint_every": 3}


def test_with_another_learning_rate_the_noise_is_another_and_counted(
    start, crashed, data, tmp_path
):
    """The same noise on two different sums could be subtracted. Training ends at its epsilon."""
    crashed(tmp_path, 8, **ROOM)
    again = differing(start, tmp_path, **ROOM)
    planned = again.plan.epsilon_after(60)
    with pytest.warns(UserWarning, match="got another result at update 8") as caught:
        again.fit(*data, verbose=0)
    said = [str(w.message) for w in caught if "another result" in str(w.message)]
    assert len(said) == 1 and "60 planned updates 9 are counted now, 1 of them for a" in said[0]
    # Update 7 saw the weights of before. Update 8 did not, and may be seen twice.
    ledger = again.ledger
    assert ledger.recounted == 1 and ledger.position == ledger.updates - 1 < 59
    assert 0.97 * planned < ledger.epsilon() <= planned
    history = again.history.history["epsilon"]
    assert history[-1] == pytest.approx(ledger.epsilon(), rel=1e-6)
    with pytest.raises(BudgetExhaustedError, match="Expected updates to be left"):
        again.fit(*data, verbose=0)
    assert not (tmp_path / "secret.key").exists()


def test_where_the_budget_is_too_small_what_differs_is_thrown_away(start, crashed, data, tmp_path):
    crashed(tmp_path, 8)
    again = differing(start, tmp_path)
    at_checkpoint = weights(again)
    seen = []
    look = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: seen.append(again.ledger.position)
    )
    with pytest.raises(
        BudgetExhaustedError, match="those of update 6 again, epsilon is"
    ) as refusal:
        again.fit(*data, verbose=0, callbacks=[look])
    assert "updates 8 to 8 to come out as before, got them differently" in str(refusal.value)
    assert seen == [7]
    np.testing.assert_array_equal(weights(again), at_checkpoint)
    assert (again.ledger.updates, again.ledger.position, again.ledger.recounted) == (8, 6, 0)
    assert again.ledger.epsilon() == again.plan.epsilon_after(8)
    assert not any(float(m.result()) for m in again.metrics if "loss" in m.name)
    again.optimizer.learning_rate.assign(0.001)  # Now everything repeats itself.
    again.fit(*data, verbose=0)
    assert again.ledger.updates == again.ledger.position == 12
    assert again.ledger.epsilon() == again.plan.epsilon_after(12)
    assert read_ledger(tmp_path / "ledger.jsonl").epsilon() == again.ledger.epsilon()


@pytest.mark.slow
def test_of_several_updates_an_execution_all_are_thrown_away(start, data, tmp_path, cross_entropy):
    first = start(tmp_path)
    first.compile("adam", cross_entropy, steps_per_execution=2)
    crash(first, data, 8)
    again = start(tmp_path, resume=True)
    again.compile("adam", cross_entropy, steps_per_execution=2)
    again.restore_run()
    at_checkpoint = again.ledger.position, weights(again)
    again.optimizer.learning_rate.assign(0.5)
    with pytest.raises(BudgetExhaustedError, match="those of update"):
        again.fit(*data, verbose=0)
    assert again.ledger.position == at_checkpoint[0]
    np.testing.assert_array_equal(weights(again), at_checkpoint[1])
    # Steps of another length cannot be compared.
    again.compile("adam", cross_entropy, steps_per_execution=3)
    with pytest.raises(BudgetExhaustedError, match="in steps that cannot be compared"):
        again.fit(*data, verbose=0)
    assert again.ledger.epsilon() <= again.ledger.planned_epsilon


@pytest.mark.slow
def test_without_a_checkpoint_to_return_to_no_weights_are_left(start, crashed, data, tmp_path):
    crashed(tmp_path, 8)
    again = differing(start, tmp_path)

    def lose(batch, logs):
        for checkpoint in tmp_path.glob("checkpoint-*"):
            shutil.rmtree(checkpoint)

    callbacks = [keras.callbacks.LambdaCallback(on_train_batch_end=lose)]
    with pytest.raises(ValueError, match="Expected the optimizer and the callbacks|Expected"):
        again.fit(*data, verbose=0, callbacks=callbacks)
    assert all(np.isnan(v.numpy()).all() for v in again.model.trainable_variables)
    assert again.ledger.epsilon() <= again.ledger.planned_epsilon


@pytest.mark.slow
def test_what_callbacks_go_by_is_brought_back(start, data, tmp_path):
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
    assert history["lr"][-1] < history["lr"][0] and whole.ledger.position < 24
    crash(start(tmp_path / "run", **settings), data, 14, callbacks())
    again = start(tmp_path / "run", resume=True, **settings)
    rest = again.fit(*data, verbose=0, callbacks=callbacks()).history
    assert rest["lr"] == history["lr"][3:]
    assert again.ledger.position == whole.ledger.position
    assert again.ledger.asked("private_val_accuracy") == len(history["lr"])
    np.testing.assert_array_equal(weights(again), weights(whole))


def test_without_its_key_a_run_counts_repeated_updates(start, crashed, data, tmp_path):
    crashed(tmp_path, 8)
    (tmp_path / "secret.key").unlink()
    with pytest.warns(UserWarning, match="Expected the secret key"):
        again = start(tmp_path, resume=True)
    assert (again.ledger.position, again.ledger.remaining_updates) == (6, 4)
    again.fit(*data, verbose=0)
    assert (again.ledger.position, again.ledger.updates) == (10, 12)


def test_the_key_is_for_its_owner_alone_and_goes_with_the_last_update(
    start, crashed, data, tmp_path
):
    crashed(tmp_path, 2)
    key = tmp_path / "secret.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    text = key.read_text()
    assert len(set(text)) > 8
    others = [p for p in tmp_path.rglob("*") if p.is_file() and p != key]
    assert not any(text.encode() in p.read_bytes() for p in others)
    assert not any(bytes.fromhex(text) in p.read_bytes() for p in others)
    start(tmp_path, resume=True).fit(*data, verbose=0)
    assert not key.exists()


def test_a_run_that_ended_is_not_trained_further(start, data, tmp_path):
    done = start(tmp_path)
    done.fit(*data, verbose=0)
    expected = weights(done)
    done.ledger.close()
    again = start(tmp_path, resume=True)
    again.restore_run()
    np.testing.assert_array_equal(weights(again), expected)
    with pytest.raises(BudgetExhaustedError, match="Expected updates to be left"):
        again.fit(*data, verbose=0)


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
    assert (private.ledger.updates, private.ledger.resumes) == (12, 0)


def test_a_run_is_not_begun_on_top_of_another(start, crashed, tmp_path):
    crashed(tmp_path, 2)
    before = (tmp_path / "ledger.jsonl").read_bytes()
    with pytest.raises(ValueError, match="Expected run_dir to hold no run yet.*resume=True"):
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
        ({"clipping": "per_layer"}, "clipping"),
        ({"pull_back_weight": 2.0}, "pull_back_weight"),
        ({"noise_generator": "shake256"}, "noise_generator"),
        ({"insecure_seed": 1}, "insecure_seed"),
    ],
)
def test_changed_settings_are_refused(start, crashed, tmp_path, settings, name):
    crashed(tmp_path, 2)
    with pytest.raises(ValueError, match=rf"another one: .*{name} is .* there and .* here"):
        start(tmp_path, resume=True, **settings)


def test_another_model_is_refused(start, crashed, tmp_path, build):
    crashed(tmp_path, 3)
    other = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)])
    with pytest.raises(ValueError, match="statistics is|Expected the model"):
        start(tmp_path, resume=True, model=other, public_batch=None)
    wider = build("functional", "public_batch")
    wider.layers[1].trainable = False
    start_ledger = read_ledger(tmp_path / "ledger.jsonl").updates
    with pytest.raises(ValueError, match="Expected the model .*it had a trained weight"):
        start(tmp_path, resume=True, model=wider)
    assert read_ledger(tmp_path / "ledger.jsonl").updates == start_ledger


def test_another_optimizer_is_refused(start, crashed, data, tmp_path):
    crashed(tmp_path, 3)
    again = start(tmp_path, resume=True, optimizer="sgd")
    with pytest.raises(ValueError, match="got others: optimizer is .*adam.Adam.* there and .*SGD"):
        again.fit(*data, verbose=0)


def test_another_public_batch_is_refused(start, crashed, data, public, tmp_path):
    crashed(tmp_path, 3)
    again = start(tmp_path, resume=True, public_batch=public[::-1].copy())
    with pytest.raises(ValueError, match=r"got others: public_batch is .* there and .* here"):
        again.fit(*data, verbose=0)
    assert read_ledger(tmp_path / "ledger.jsonl").updates == 3


def test_other_callbacks_are_refused(start, data, tmp_path):
    crash(start(tmp_path), data, 3, [WeightAverage(0.9)])
    with pytest.raises(ValueError, match="Expected the optimizer and the callbacks"):
        start(tmp_path, resume=True).fit(*data, verbose=0)


# What can happen to the folder


def newest(folder):
    return sorted(folder.glob("checkpoint-*"))[-1]


def damage_half(file):
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


@pytest.mark.slow_cases("gone-*", "flipped-*.index", "flipped-*.json", "half-*.index")
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
    with pytest.warns(UserWarning, match="damaged ones: checkpoint-00000006"):
        again = start(tmp_path, resume=True, insecure_seed=1)
    assert again.ledger.position == 3
    again.fit(*data, verbose=0)
    assert again.ledger.updates == again.ledger.position == 12


def test_no_checkpoint_left_is_an_error_that_says_what_was_spent(start, crashed, tmp_path):
    crashed(tmp_path, 8)
    for checkpoint in tmp_path.glob("checkpoint-*"):
        damage_half(checkpoint / "state.json")
    with pytest.raises(ValueError, match="Expected a whole checkpoint .*counts 8 updates"):
        start(tmp_path, resume=True)
    for checkpoint in tmp_path.glob("checkpoint-*"):
        shutil.rmtree(checkpoint)
    with pytest.raises(ValueError, match="Expected a whole checkpoint .*got none"):
        start(tmp_path, resume=True)


def test_checkpoints_without_a_ledger_are_refused(start, crashed, tmp_path):
    crashed(tmp_path, 8)
    (tmp_path / "ledger.jsonl").unlink()
    for resume in (True, False):
        with pytest.raises(ValueError, match="Expected a ledger.jsonl beside the checkpoints"):
            start(tmp_path, resume=resume)


def test_a_shortened_ledger_is_refused(start, crashed, tmp_path):
    """Lines cut off the end are seen by the checkpoint, which remembers how far it reached."""
    crashed(tmp_path, 8)
    ledger = tmp_path / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:-6]))
    with pytest.raises(ValueError, match="Expected"):
        start(tmp_path, resume=True)
    # One line less than the checkpoint saw: the update is announced still, its digest is gone.
    reached = json.loads((newest(tmp_path) / "state.json").read_text())["ledger"][0]
    ledger.write_bytes(b"".join(lines[: reached - 1]))
    with pytest.raises(LedgerCorruptError, match=f"got only {reached - 1} lines"):
        start(tmp_path, resume=True)
    ledger.write_bytes(b"".join(lines).replace(b'"count":1', b'"count":0', 1))
    with pytest.raises(LedgerCorruptError):
        start(tmp_path, resume=True)


def test_a_process_that_died_before_its_first_checkpoint_begins_anew(start, data, tmp_path):
    start(tmp_path).ledger.close()
    again = start(tmp_path, resume=True)
    again.fit(*data, verbose=0)
    assert again.ledger.updates == 12


def test_two_processes_cannot_have_one_run(start, tmp_path):
    first = start(tmp_path)
    with pytest.raises(BlockingIOError, match="Expected a ledger that no process has open"):
        start(tmp_path, resume=True)
    first.ledger.close()


def test_a_folder_that_is_none_is_refused(start, tmp_path):
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
    whole = start(tmp_path / "whole", insecure_seed=1)
    whole.fit(*data, verbose=0)
    folder = tmp_path / "run"
    crash(start(folder, insecure_seed=1), data, 4)
    full = start(folder, resume=True, insecure_seed=1)
    with (
        full_disk(monkeypatch),
        pytest.raises(OSError, match="Expected to write a checkpoint to .*No space left"),
    ):
        full.fit(*data, verbose=0)
    full.ledger.close()
    assert not list(folder.glob("*.partial"))
    again = start(folder, resume=True, insecure_seed=1)
    again.fit(*data, verbose=0)
    assert again.ledger.updates == 12
    np.testing.assert_array_equal(weights(again), weights(whole))


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
    parts = {"updates", "ledger", "weights", "callbacks", "training", "files", "digest"}
    assert set(state) == parts
    names = [name for name, _ in tf.train.list_variables(str(newest(tmp_path) / "variables"))]
    assert not any("key" in name for name in names)
    assert len(list(tmp_path.glob("checkpoint-*"))) == 2


def test_repeated_training_in_one_process_goes_on(start, data, tmp_path):
    private = start(tmp_path)
    private.fit(*data, verbose=0, epochs=1)
    assert private.ledger.updates == 4
    private.fit(*data, verbose=0)
    assert private.ledger.updates == 12
    assert read_ledger(tmp_path / "ledger.jsonl").epsilon() == private.ledger.epsilon()


@pytest.mark.parametrize("argument", [{"resume": True}, {"checkpoint_every": 3}])
def test_options_of_a_run_folder_want_one(start, argument):
    with pytest.raises(ValueError, match="Expected run_dir with resume and checkpoint_every"):
        start(None, **{"checkpoint_every": None, **argument})


@pytest.mark.parametrize("every", [0, -1, 1.5, True, "3"])
def test_checkpoint_every_is_a_number_of_updates(start, tmp_path, every):
    with pytest.raises(ValueError, match="Expected checkpoint_every to be an integer >= 1"):
        start(tmp_path, checkpoint_every=every)
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_noise_from_a_cryptographic_generator_trains_and_is_repeated(start, data, tmp_path):
    crash(start(tmp_path, noise_generator="shake256"), data, 8)
    again = start(tmp_path, resume=True, noise_generator="shake256")
    again.fit(*data, verbose=0)
    assert again.ledger.updates == 12
    assert again.ledger.settings["noise_generator"] == "shake256"


def test_a_cryptographic_generator_cannot_be_compiled(private, build, cross_entropy):
    trained = private(build(), noise_generator="shake256")
    with pytest.raises(ValueError, match='Expected jit_compile=False with noise_generator="shake'):
        trained.compile("sgd", cross_entropy, jit_compile=True)
