"""Damaged folders of runs that crashed: rejected, or resumed without spending unseen."""

import pathlib
import shutil
import warnings

import numpy as np
import pytest
from hypothesis import strategies as st
from tensorflow import keras

from tests.fuzz.damage import damaged_bytes, damaged_lines, damaged_text
from tests.fuzz.targets import Refusal, attempt, fuzz
from tests.halting import Halt, HaltAfter
from tests.private_of import private_of
from tfdpnorm.privacy import read_ledger
from tfdpnorm.training.resume import run_folder

STEPS, CRASHED_AFTER = 9, 5


RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(12, 3)).astype(np.float32), RNG.normal(size=(12, 1)).astype(np.float32)


def start(run_dir, resume=False):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        private = private_of(
            model, num_examples=12, expected_batch_size=4, steps=STEPS, l2_norm_clip=1.0,
            noise_multiplier=1.0, delta=1e-3, run_dir=run_dir, resume=resume, checkpoint_every=2,
        )  # fmt: skip
    private.compile(keras.optimizers.Adam(0.1), "mse")
    return private


@pytest.fixture(scope="module", autouse=True)
def copies_are_taken_for_the_run():
    """Each input is a copy of a run, which stands for the run itself."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(run_folder, "_place", lambda ledger: "1 1")
        yield


@pytest.fixture(scope="module")
def crashed(tmp_path_factory):
    """The folder of a run with checkpoints after updates 2 and 4 that died in update 6."""
    folder = tmp_path_factory.mktemp("crashed") / "run"
    private = start(folder)
    with pytest.raises(Halt):
        private.fit(X, Y, verbose=0, callbacks=[HaltAfter(CRASHED_AFTER)])
    private.ledger.close()
    assert len(list(folder.glob("checkpoint-*"))) == 2
    return folder


@st.composite
def harm(draw, folder):
    """Does one or two things to a run's folder."""
    for _ in range(draw(st.sampled_from([1, 1, 2]))):
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        if not files:
            break
        checkpoints = sorted(folder.glob("checkpoint-*"))
        file = draw(st.sampled_from(files))
        content = file.read_bytes()
        kind = draw(
            st.sampled_from(
                ["damage", "damage", "damage", "delete", "folder", "empty", "copy", "exchange"]
                + ["lose checkpoint", "copy checkpoint", "stray"]
            )
        )
        if kind == "damage" and file.suffix == ".json":
            file.write_bytes(draw(damaged_text(content)))
        elif kind == "damage" and file.suffix == ".jsonl":
            file.write_bytes(draw(st.one_of(damaged_bytes(content), damaged_lines(content))))
        elif kind == "damage":
            file.write_bytes(draw(damaged_bytes(content)))
        elif kind == "delete":
            file.unlink()
        elif kind == "folder":
            file.unlink()
            file.mkdir()
        elif kind == "empty":
            file.write_bytes(b"")
        elif kind == "copy":
            file.write_bytes(draw(st.sampled_from(files)).read_bytes())
        elif kind == "exchange":
            other = draw(st.sampled_from(files))
            file.write_bytes(other.read_bytes())
            other.write_bytes(content)
        elif kind == "stray":
            name = draw(st.sampled_from(["checkpoint-9", "checkpoint-00000007", "x", ".writable"]))
            (folder / name).write_bytes(b"")
        elif checkpoints:
            checkpoint = draw(st.sampled_from(checkpoints))
            if kind == "lose checkpoint":
                shutil.rmtree(checkpoint)
            elif kind == "copy checkpoint":
                name = draw(st.sampled_from(["00000003", "00000005", "00000008", "x1"]))
                shutil.copytree(checkpoint, folder / f"checkpoint-{name}", dirs_exist_ok=True)


@pytest.mark.slow
@fuzz(data=st.data(), quick=3, share=0.05)
def test_run_folders(data, crashed, tmp_path_factory):
    true = (crashed / "ledger.jsonl").read_bytes()
    place = pathlib.Path(tmp_path_factory.mktemp("run"))
    folder = place / "run"
    shutil.copytree(crashed, folder)
    try:
        data.draw(harm(folder))
        return go_on(folder, true)
    finally:
        shutil.rmtree(place)


def go_on(folder, true):
    ledger_file = folder / "ledger.jsonl"
    ledger = ledger_file.read_bytes() if ledger_file.is_file() else None
    errors = (ValueError, OSError)
    private = attempt(lambda: start(folder, resume=True), errors)
    if isinstance(private, Refusal):
        return "refused"
    try:
        if attempt(lambda: private.fit(X, Y, verbose=0), errors).__class__ is Refusal:
            return "refused by fit"
        held = private.ledger
        assert all(np.isfinite(w).all() for w in private.model.get_weights())
        assert held.state.remaining_updates == 0 and held.updates == STEPS
        written = read_ledger(ledger_file)
        assert (written.updates, written.epsilon()) == (held.updates, held.epsilon())
    finally:
        private.ledger.close()
    if ledger is None:
        # All of it is gone, and every checkpoint too, or it would have been refused.
        return "begun anew"
    lines = true.splitlines(keepends=True)
    intact = ledger == true
    # That lines are missing at the end, behind what the checkpoint knows of, cannot be seen.
    if not intact:
        prefix = b"".join(lines[: ledger.count(b"\n")])
        assert ledger.startswith(prefix)
        return "ledger torn or cut"
    assert held.epsilon() == private.plan.epsilon_after(STEPS)
    # What the dead process had announced after its checkpoint stays spent.
    assert held.state.lost_updates == CRASHED_AFTER - start_of(held)
    return "resumed"


def start_of(ledger):
    """The update that the only resumption went on from."""
    with open(ledger.file.path, "rb") as file:
        (line,) = (line for line in file if b'"kind":"resume"' in line)
    return int(line.split(b'"position":')[1].split(b",")[0])
