"""Runs that can be resumed: what is kept, what is rejected, what is counted."""

import errno
import hashlib
import json
import os
import secrets
import shutil

import numpy as np
import pytest
from tensorflow import keras

from tests.halting import Halt, HaltAfter
from tfdpnorm import files
from tfdpnorm.privacy import BudgetExhaustedError, LedgerCorruptError, read_ledger
from tfdpnorm.privacy.entries import Search, Updates
from tfdpnorm.privacy.search import SearchPlan
from tfdpnorm.training import weights_digest
from tfdpnorm.training.resume import run_folder


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
    assert read_ledger(tmp_path / "ledger.jsonl").epsilon() == private.ledger.epsilon()
    assert text.read_text() == private.privacy_statement() + "\n"
    assert json.loads(fields.read_text()) == private.privacy_statement_json()
    digest = hashlib.sha256((tmp_path / "ledger.jsonl").read_bytes()).hexdigest()
    assert json.loads(fields.read_text())["ledger"]["sha256"] == digest
    assert json.loads(fields.read_text())["weights_sha256"] == weights_digest(private.model)


def test_a_trial_of_a_search_has_no_statement_with_its_date(start, data, tmp_path):
    private = start(tmp_path, most_per_batch=40)
    trial = private.plan.mechanism(private.plan.steps)[:3]
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


def test_a_resumed_run_says_where_it_continues_and_charges_what_was_lost(
    start, crashed, data, tmp_path, capsys
):
    crashed(tmp_path, 8)
    again = start(tmp_path, resume=True)
    assert again.ledger.state.lost_updates == 2 and int(again.update_count) == 8
    again.fit(*data, verbose=2)
    said = f"Resumed {tmp_path}: 8 of 12 updates are spent, 2 of them lost in crashes."
    assert said in capsys.readouterr().out
    assert (again.ledger.state.position, again.ledger.updates) == (10, 12)
    assert again.ledger.epsilon() == again.plan.epsilon_after(12)
    assert int(again.optimizer.iterations) == 10
    with pytest.raises(BudgetExhaustedError, match="12 spent of 12 planned, 2 of them lost"):
        again.fit(*data, verbose=0)


@pytest.mark.parametrize(("steps", "every"), [(12, 1), (149, 2)])
def test_a_fiftieth_of_the_plan_lies_between_checkpoints(start, tmp_path, data, steps, every):
    private = start(tmp_path, steps=steps, checkpoint_every=None)
    crash(private, data, 2 * every)
    saved = [int(f.name.split("-")[1]) for f in tmp_path.glob("checkpoint-*")]
    assert sorted(saved) == [0, every] if every > 1 else [0, 1]


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


def test_a_run_is_not_begun_on_top_of_another(start, crashed, tmp_path):
    crashed(tmp_path, 2)
    before = (tmp_path / "ledger.jsonl").read_bytes()
    with pytest.raises(ValueError, match="resume=True"):
        start(tmp_path)
    assert (tmp_path / "ledger.jsonl").read_bytes() == before


def test_changed_settings_are_rejected(start, crashed, tmp_path):
    crashed(tmp_path, 2)
    changed = {"num_examples": 41, "expected_batch_size": 11, "noise_multiplier": 0.9}
    changed |= {"l2_norm_clip": 2.0, "steps": 13, "delta": 1e-6, "accountant": "pld"}
    for name, value in (changed | {"noise_generator": "philox", "insecure_seed": 1}).items():
        with pytest.raises(ValueError, match=rf"another run: .*{name} is .* there and .* here"):
            start(tmp_path, resume=True, **{name: value})


@pytest.mark.needs_tensorflow_privacy
def test_an_engine_that_bounds_no_rounding_cannot_resume(start, build, tmp_path):
    start(tmp_path, model=build(), public_batch=None).ledger.close()
    with pytest.raises(ValueError, match="another run: sum_rounding is .* there and None here"):
        start(tmp_path, model=build(), public_batch=None, resume=True, engine="tfp_model")


def test_settings_without_effect_on_the_guarantee_may_change(start, crashed, data, tmp_path):
    crashed(tmp_path, 8)
    settings = {"clipping": "per_layer", "pull_back_weight": 2.0, "physical_batch_size": 4}
    again = start(tmp_path, resume=True, optimizer="sgd", loss_scale=4.0, **settings)
    with pytest.warns(UserWarning) as caught:
        again.fit(*data, verbose=0)
    assert "not the state of the optimizer, the learning rate" in str(caught[0])
    assert (again.ledger.updates, again.ledger.state.position) == (12, 10)
    assert int(again.optimizer.iterations) == 4
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
    with pytest.warns(UserWarning, match="not the state of the learning rate"):
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
    with pytest.raises(ValueError, match="do not fit this model"):
        start(tmp_path, resume=True, model=wider)
    assert read_ledger(tmp_path / "ledger.jsonl").updates == start_ledger


# What can happen to the folder


def newest(folder):
    return sorted(folder.glob("checkpoint-*"))[-1]


def damage_half(file):
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def damage_bit(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


def test_damaged_checkpoints_are_passed_over(start, crashed, data, tmp_path):
    harms = {
        "state.json": damage_half,
        "variables.index": lambda file: file.unlink(),
        "variables.data-00000-of-00001": damage_bit,
    }
    for name, harm in harms.items():
        crashed(tmp_path / name, 8)
        harm(newest(tmp_path / name) / name)
        with pytest.warns(UserWarning, match="are damaged: checkpoint-00000006"):
            again = start(tmp_path / name, resume=True)
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
        with pytest.raises(ValueError, match="ledger.jsonl"):
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


def test_a_folder_that_is_none_is_rejected(start, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for place in (file, file / "below"):
        with pytest.raises(OSError, match="run_dir"):
            start(place)


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


@pytest.mark.parametrize("dies_in", range(2, 6))
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


def test_the_generator_is_cryptographic_and_cannot_be_compiled(private, build, cross_entropy):
    trained = private(build())
    assert trained.ledger.settings["noise_generator"] == "openssl"
    with pytest.raises(ValueError, match="jit_compile=False"):
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
