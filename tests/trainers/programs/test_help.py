"""`--help` shows the defaults of the cell that the other flags choose."""

import re
import subprocess
import sys

import pytest

from trainers.davody import cells as davody


def help_of(program, *flags):
    done = subprocess.run(
        [sys.executable, "-m", f"trainers.{program}", *flags, "--help"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    return " ".join(done.stdout.split())


def shown(text, flag):
    found = re.search(rf"--{flag}: .*?\(default: with these flags: (.*?)\)", text)
    return found and found[1]


@pytest.mark.parametrize(
    "program",
    [
        "davody_dp",
        "davody_weight_noise",
        "ermis_variational_dropout",
        "finetune",
        "klause_scalenorm",
    ],
)
def test_help_shows_the_defaults_of_the_cell(program):
    text = help_of(program)
    assert "with these flags" in text and "the experiment's own" not in text


@pytest.mark.parametrize("epsilon", [7.0, 0.1])
def test_they_are_those_of_the_cell(epsilon):
    text = help_of("davody_dp", "--norm=layer", f"--epsilon={epsilon}")
    spec = davody.spec("mnist", norm="layer", epsilon=epsilon)
    for name in ("learning_rate", "expected_batch_size", "l2_norm_clip"):
        assert shown(text, name) == f"{getattr(spec, name):g}"


def test_given_values_are_not_shown_as_defaults():
    text = help_of("davody_dp", "--epsilon=1", "--learning_rate=0.125")
    assert "0.125" not in text


def test_wrong_flags_do_not_hide_the_help():
    text = help_of("davody_dp", "--dataset=cifar10", "--model=bilstm", "--epsilon=1")
    assert "--expected_batch_size" in text and "flags:" in text


def test_the_help_of_finetune_says_what_writes_the_model():
    assert "--save_model: Not supported here: --export_dir writes the model." in help_of("finetune")
