"""Random flags of a program: it ends in what was asked for, or in one line that says what was not.

Nothing is trained: a run that would begin to is stopped there.
"""

import contextlib
import io
import os
import pathlib
import re
import shutil
import sys
import warnings
from unittest import mock

from absl import app, flags
from hypothesis import strategies as st
from tensorflow import keras

from tests.fuzz.targets import fuzz
from tfdpnorm.training import PrivateModel
from trainers import common, davody_dp

NUMBERS = ("0", "1", "-1", "0.5", "1e-30", "1e30", "inf", "-inf", "nan", "", "x", "1e400", "1,5")
WHOLES = ("0", "1", "2", "8", "-1", "1.5", "99999999999999999999", "", "x", "inf", "1e3", "0x10")
VALUES = {
    "norm": ("none", "layer", "group", "public_batch", "noised_batch", "batch", "Batch", ""),
    "epsilon": (*NUMBERS, "1", "3"),
    "noise_multiplier": (*NUMBERS, "1", "3"),
    "delta": ("1e-5", "1e-300", *NUMBERS),
    "accountant": ("rdp", "gdp", ""),
    "statistics": ("public", "blend", "example", "lot", "all"),
    "statistics_gradient": ("full", "stop", "half"),
    "pull_back_weight": NUMBERS,
    "statistics_budget_share": ("0.5", *NUMBERS),
    "model": ("lenet5", "mlp", "bilstm", "tf_tutorial", "", "LeNet5"),
    "vocabulary": ("hashed", "public", "private", "mine"),
    "vocabulary_size": ("100", *WHOLES),
    "vocabulary_file": ("old/file", "nowhere", ""),
    "sequence_length": ("8", *WHOLES),
    "pretraining_dataset": ("digits", "kmnist", "imagenet", ""),
    "pretraining_epochs": ("1", *WHOLES),
    "cache_dir": ("old/file", "cache"),
    "expected_batch_size": ("16", "64", "65", *WHOLES),
    "physical_batch_size": ("8", "auto", "AUTO", *WHOLES),
    "epochs": ("0.01", "3", *NUMBERS),
    "steps": ("3", *WHOLES),
    "l2_norm_clip": NUMBERS,
    "augmentation_multiplicity": ("1", "5", "9", "4", *WHOLES),
    "optimizer": ("sgd", "adam", "nadam", "adamw", "rmsprop", "adagrad", "lion"),
    "learning_rate": NUMBERS,
    "learning_rate_schedule": ("constant", "cosine", "linear", "step"),
    "momentum": NUMBERS,
    "ema_decay": ("0.9", *NUMBERS),
    "public_dataset": ("split", "synthetic", "synthetic:zipf", "digits", "kmnist", "imagenet", ""),
    "public_batch_size": ("2", "4", "1436", "1437", *WHOLES),
    "engine": ("book_keeping", "per_example", "tfp_vectorized", "tfp_model", "fast"),
    "seed": ("0", "4294967295", "4294967296", *WHOLES),
    "noise_generator": ("philox", "openssl", "mt"),
    "insecure_seed": ("0", *WHOLES),
    "max_examples": ("64", "40", "2", *WHOLES),
    "mixed_precision": ("true", "false", "maybe"),
    "resume": ("true", "false"),
    "checkpoint_every": ("3", *WHOLES),
    "no_such_flag": ("1",),
}
PLACES = ("old", "old/file", "old/file/below", "")
PLAIN = {
    "dataset": "digits", "norm": "none", "max_examples": "64", "expected_batch_size": "16",
    "steps": "3", "epsilon": "2", "delta": "1e-3", "public_batch_size": "4",
}  # fmt: skip


class Began(Exception):
    """The run would train now."""


@st.composite
def arguments_of(draw):
    given_flags = dict(PLAIN)
    for name in draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=3, unique=True)):
        given_flags[name] = draw(st.sampled_from(VALUES[name]))
        rival = {"noise_multiplier": "epsilon", "epochs": "steps"}.get(name)
        if rival and draw(st.integers(0, 4)):
            given_flags.pop(rival, None)
    for name in draw(st.lists(st.sampled_from(sorted(PLAIN)), max_size=1)):
        if name != "dataset" and draw(st.booleans()):
            given_flags.pop(name, None)
    arguments = [f"--{name}={value}" for name, value in given_flags.items()]
    for name in ("output_dir", "run_dir", "data_dir"):
        if draw(st.integers(0, 3)) == 0 or name == "output_dir":
            places = ("out", *PLACES) if name == "output_dir" else PLACES[:-1] + ("new",)
            arguments.append(f"--{name}={draw(st.sampled_from(places))}")
    stray = draw(st.sampled_from([[]] * 9 + [["typo"], ["--"], ["--epsilon"], ["-x"], ["--=1"]]))
    return draw(st.permutations(arguments)) + stray


def run(arguments):
    """The program's exit code and what it printed, or "began"; in this process."""
    before = set(flags.FLAGS)
    davody_dp.define_flags()
    out, err = io.StringIO(), io.StringIO()
    # Both would reach out of the test: into pytest's logging and faulthandler.
    with (
        mock.patch.object(app.logging, "use_absl_handler"),
        mock.patch.object(app, "faulthandler", None),
        mock.patch.object(sys, "argv", ["trainers/davody_dp.py", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        try:
            common.run_app(common.main_of(davody_dp))
            code = 0
        except SystemExit as end:
            code = end.code or 0
        except Began:
            code = "began"
        finally:
            for name in set(flags.FLAGS) - before - {"help", "helpshort", "helpfull", "helpxml"}:
                delattr(flags.FLAGS, name)
            keras.mixed_precision.set_global_policy("float32")
    return code, out.getvalue(), err.getvalue()


def content(place):
    """What is in a folder, but for "out", which may be there: made before training, for records."""
    found = {str(p.relative_to(place)): p.is_file() and p.read_bytes() for p in place.rglob("*")}
    return {name: value for name, value in found.items() if name != "out"}


def check(arguments, tmp_path_factory, *, dry_run):
    place = pathlib.Path(tmp_path_factory.mktemp("program"))
    (place / "old").mkdir()
    (place / "old" / "file").write_text("notes")
    before, here = content(place), os.getcwd()
    try:
        os.chdir(place)
        code, out, err = run([*arguments, *(["--dry_run"] if dry_run else [])])
        assert "Traceback" not in f"{out}{err}{code}"
        if code == 0:
            assert dry_run and not err and "Nothing was trained." in out
        elif code == "began":
            assert not dry_run
            return code
        elif code == 2:
            (line,) = err.splitlines()
            is_of_a_state = re.fullmatch(r"Error: (--)?[A-Za-z].*[.:] [A-Z].*\.", line)
            assert line.startswith("Error: Expected ") or is_of_a_state, line
            assert "in user code" not in line
        else:  # Flags that absl itself refuses, in its words.
            told = code if isinstance(code, str) else err
            assert "flag" in told.lower() and len(told.strip().splitlines()) <= 3
            assert not out
        assert content(place) == before
        return {0: "dry run", 2: "refused"}.get(code, "refused by absl")
    finally:
        os.chdir(here)
        shutil.rmtree(place)


@fuzz(arguments=arguments_of(), quick=4, share=0.1)
def test_flags_up_to_the_first_update(arguments, tmp_path_factory):
    """What fails there has made no folder and no ledger."""
    with mock.patch.object(PrivateModel, "fit", side_effect=Began):
        return check(arguments, tmp_path_factory, dry_run=False)
