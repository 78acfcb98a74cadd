"""`--help` shows the defaults of the cell that the other flags choose."""

import re

import pytest

from trainers.davody import cells as davody


@pytest.fixture
def help_of(shell):
    """Returns a function from a program and flags to its help, in one line."""
    return lambda *arguments: " ".join(shell(*arguments, "--help").out.split())


def shown(text, flag):
    found = re.search(rf"--{flag}: .*?\(default: with these flags: (.*?)\)", text)
    return found and found[1]


def test_help_shows_the_defaults_of_the_cell(help_of):
    text = help_of("davody_dp", "--norm=layer", "--epsilon=7")
    spec = davody.spec("mnist", norm="layer", epsilon=7.0)
    for name in ("learning_rate", "expected_batch_size", "l2_norm_clip"):
        assert shown(text, name) == f"{getattr(spec, name):g}"


def test_wrong_flags_do_not_hide_the_help(help_of):
    text = help_of("davody_dp", "--dataset=cifar10", "--model=bilstm", "--epsilon=1")
    assert "--expected_batch_size" in text and "flags:" in text
    text = help_of("finetune")
    assert "--save_model: Not supported here: --export_dir writes the model." in text
    assert "with these flags" in text and "the experiment's own" not in text
