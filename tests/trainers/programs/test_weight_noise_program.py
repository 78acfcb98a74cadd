"""The program for noise in the weights: its flags, its help, and that it promises no privacy."""

import re

import pytest

from trainers import common
from trainers.davody import cells as davody

# A value of every flag that is a field of the spec; none of them is an experiment's own.
VALUES = {
    "batch_size": 9,
    "validation_examples": 77,
    "early_stopping": 4,
    "epochs": 3.0,
    "steps": 11,
    "optimizer": "sgd",
    "learning_rate": 0.125,
    "learning_rate_schedule": "linear",
    "learning_rate_power": 0.5,
    "learning_rate_round": "update",
    "momentum": 0.5,
    "batch_norm_momentum": 0.75,
    "seed": 5,
    "max_examples": 123,
    "vocabulary_size": 55,
    "sequence_length": 7,
}


@pytest.mark.slow
def test_help_lists_every_flag(shell):
    result = shell("davody_weight_noise", "--help")
    listed = set(re.findall(r"^  --(?:\[no\])?(\w+):", result.out, re.MULTILINE))
    own = {"dataset", "model", "norm", "norm_placement", "stddev", "data_dir", "output_dir"}
    own |= {"cache_dir", "run_dir", "resume", "mixed_precision", "vocabulary", "vocabulary_file"}
    own |= {"precision", "save_model", "dry_run", "scale", "plateau", "plateau_patience"}
    assert listed == own | set(VALUES)
    assert "Not private" in result.out


@pytest.mark.parametrize("name", VALUES)
def test_a_flag_reaches_the_spec(main, monkeypatch, name):
    seen = []
    monkeypatch.setattr(common, "train", seen.append)
    code = main("davody_weight_noise", "--stddev=2", f"--{name}={VALUES[name]}").code
    assert code == 0
    assert seen == [davody.weight_noise_spec("mnist", "batch", 2.0, **{name: VALUES[name]})]
    assert getattr(seen[0], name) == VALUES[name]


def test_plateaus_of_the_examples_held_out_halve_a_constant_rate(main, monkeypatch):
    seen = []
    monkeypatch.setattr(common, "train", seen.append)
    watched = ["--plateau=validation", "--plateau_patience=2", "--learning_rate_schedule=constant"]
    assert main("davody_weight_noise", "--stddev=2", *watched).code == 0
    assert (seen[0].plateau, seen[0].plateau_patience) == ("validation", 2)


@pytest.mark.parametrize(
    "arguments, cell",
    [
        (["--model=lenet_300_100", "--norm=none", "--stddev=0.1"], "lenet_300_100/stddev=0.1"),
        (["--dataset=cifar10", "--norm_placement=mod"], "batch-resnet18-mod/stddev=0"),
        (["--dataset=cifar10", "--model=vgg", "--stddev=1"], "batch-vgg/stddev=1"),
        (["--dataset=ag_news", "--norm=layer", "--stddev=2"], "layer-bilstm/stddev=2"),
    ],
)
def test_every_cell_has_a_command(main, monkeypatch, arguments, cell):
    seen = []
    monkeypatch.setattr(common, "train", seen.append)
    assert main("davody_weight_noise", *arguments).code == 0
    assert seen[0].cell == cell and seen[0].paper_value is not None


@pytest.mark.parametrize(
    "arguments, part",
    [
        (["--stddev=-1"], "weight_noise_stddev >= 0"),
        (["--stddev=nan"], "weight_noise_stddev >= 0"),
        (["--norm=public_batch"], 'norm="batch" without privacy'),
        (["--model=lenet6"], "model to be one of"),
        (["--steps=0"], "steps to be a whole number >= 1"),
    ],
)
def test_mistakes_end_in_one_line(main, tmp_path, arguments, part):
    result = main("davody_weight_noise", *arguments, f"--output_dir={tmp_path / 'out'}")
    assert result.code == 2
    (line,) = result.err.splitlines()
    assert line.startswith("Error: ") and part in line
    assert not (tmp_path / "out").exists()
