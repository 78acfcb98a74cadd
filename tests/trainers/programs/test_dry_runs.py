"""Dry runs: every program that trains has one, which loads nothing and trains nothing."""

import pytest
from tensorflow import keras

from trainers.data import tfds
from trainers.davody import cells as davody
from trainers.runs import pretraining
from trainers.runs.dry_run import too_little
from trainers.runs.private import PrivateRun

# Flags by program, and what it says; each set has 50,000 examples.
RUNS = {
    "images": ("davody_dp", "--dataset=mnist --epsilon=1", "T = 293 updates, expected batch 2048"),
    "pre-trained": (
        "davody_dp",
        "--dataset=cifar10 --epsilon=8",
        "pre-trained on 50,000 images of cifar100 for 40 epochs",
    ),
    "noise in the weights": (
        "davody_weight_noise",
        "--stddev=1",
        "batch-lenet5/stddev=1: lenet5, 62,414 parameters",
    ),
    "search": (
        "search",
        "--experiment=davody_table5 --cell=layer/eps=3 --over=learning_rate=0.3:1",
        "private_random search",
    ),
    "demo": ("demo", "--steps=2", "T = 2 updates"),
    "study": ("method_mismatch", "--steps=7", "one for each set of public rows"),
}


@pytest.fixture
def unread_sets(monkeypatch):
    """Sets that are there, of known sizes, and that nobody may read."""
    monkeypatch.setattr(tfds, "prepared_folder", lambda name, *_, **__: name)
    monkeypatch.setattr(tfds, "count", lambda *_: 50_000)
    monkeypatch.setattr(tfds, "read", lambda *_, **__: pytest.fail("was read"))


@pytest.mark.parametrize("name", RUNS)
def test_a_dry_run_loads_and_trains_nothing(main, unread_sets, monkeypatch, tmp_path, name):
    program, flags, said = RUNS[name]
    monkeypatch.setattr(keras.Model, "fit", lambda *_, **__: pytest.fail("was trained"))
    monkeypatch.setattr(pretraining, "frozen_features", lambda *_, **__: pytest.fail("computed"))
    result = main(program, *flags.split(), "--dry_run", f"--output_dir={tmp_path / 'out'}")
    assert result.code == 0, result.err
    assert said in result.out and "Nothing was trained." in result.out
    assert "estimated time: " in result.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "changes, examples, parts",
    [
        (dict(steps=49), 60_000, ["49 updates, fewer than 50", "% of the examples"]),
        (dict(epochs=0.79), 60_000, ["9.9 % of the examples that the paper's run goes through"]),
        (dict(epochs=0.9), 60_000, []),
        (dict(epochs=9), 5_000, ["9.4 % of the examples"]),
    ],
)
def test_a_dry_run_says_what_is_too_little_to_replicate(changes, examples, parts):
    spec = davody.spec("mnist", "layer", 0.05, expected_batch_size=10, **changes)
    said = too_little(spec, examples)
    assert bool(said) == bool(parts) and all(part in said for part in parts)
    assert too_little(spec.replaced(experiment="mine"), examples) == ""


@pytest.mark.parametrize(
    "wrong, part",
    [
        ("--expected_batch_size=65", "Expected expected_batch_size <= num_examples"),
        ("--delta=1e-300", "1e-300"),
    ],
)
def test_a_plan_that_cannot_be_is_rejected_before_pre_training(
    main, toy_sets, monkeypatch, wrong, part
):
    monkeypatch.setattr(keras.Model, "fit", lambda *_, **__: pytest.fail("was trained"))
    monkeypatch.setattr(PrivateRun, "__init__", lambda *_, **__: pytest.fail("began"))
    result = main(
        "davody_dp",
        "--dataset=cifar10",
        "--norm=none",
        "--epsilon=1e-9",
        "--expected_batch_size=9",
        wrong,
    )
    (line,) = result.err.splitlines()
    assert result.code == 2 and part in line
