"""What a run says of its scale: its settings, flags included, against what its paper states."""

import pytest

from trainers.davody import cells as davody
from trainers.ermis import cells as ermis
from trainers.ermis.settings import paper_settings
from trainers.scale import Stated, with_scale
from trainers.specs import PrivateSpec


def a_spec(**fields):
    own = dict(experiment="a_table", network="a", column="b", dataset="mnist", epsilon=1.0)
    return PrivateSpec(**{**own, "epochs": 2.0, **fields})


@pytest.mark.parametrize(
    "fields, theirs, said",
    [
        ({}, {}, ""),
        ({}, {"epochs": 2}, ""),
        ({}, {"epochs": 3}, "epochs 2 for 3"),
        ({"epochs": 0.5}, {"epochs": Stated(None, "theirs")}, "epochs 0.5 for theirs"),
        ({}, {"epochs": Stated(2, "two epochs")}, ""),
        ({"epochs": None, "steps": 7}, {"epochs": Stated(None, "theirs")}, "updates 7 for theirs"),
        ({"epochs": None, "steps": 7}, {"epochs": 3}, "updates 7 for 3 epochs"),
        ({"epochs": None, "steps": 7}, {"epochs": Stated(3, "theirs")}, "updates 7 for theirs"),
        ({}, {"expected_batch_size": 5, "optimizer": "sgd"}, "expected lot 1024 for 5"),
        ({}, {"ema_decay": None}, ""),
        ({"l2_norm_clip": 0.1 + 0.2}, {"l2_norm_clip": 0.3}, ""),
        ({"l2_norm_clip": 0.2}, {"l2_norm_clip": 1}, "l2 norm clip 0.2 for 1"),
        # Without privacy nothing is clipped.
        ({"l2_norm_clip": 0.2, "epsilon": float("inf")}, {"l2_norm_clip": 1}, ""),
        # Without public rows their number has no effect.
        ({}, {"public_batch_size": 5}, ""),
        ({"norm": "public_batch"}, {"public_batch_size": 5}, "public rows 128 for 5"),
        (
            {"model": "vgg", "model_options": (("width", 32),)},
            {"model_options": {"width": 64}},
            "channels in the first stage 32 for 64",
        ),
        ({"model": "vgg"}, {"model_options": {"width": 64}}, ""),
        ({"reduced": "said before"}, {"epochs": 3}, "said before"),
    ],
)  # fmt: skip
def test_differences_of_scale_are_named(fields, theirs, said):
    assert with_scale(a_spec(**fields), theirs).reduced == said


def test_noise_in_the_weights_at_the_papers_length():
    papers = dict(epochs=25, validation_examples=24_000)
    assert davody.weight_noise_spec("ag_news", "layer", 1.0, **papers).reduced == ""
    others = davody.weight_noise_spec("ag_news", "layer", 1.0, epochs=7)
    assert others.reduced == "epochs 7 for 25; validation examples 6000 for 24000"
    wide = davody.weight_noise_spec("cifar10", "batch", 1.0, model_options=(("width", 64),))
    assert wide.reduced == ""


def test_private_training_with_the_papers_public_rows():
    rows = dict(public_batch_size=128, augmentation_multiplicity=1)
    assert davody.spec("mnist", "public_batch", 1.0, **rows).reduced == ""
    ours = davody.spec("mnist", "public_batch", 1.0).reduced
    assert ours == "public rows 512 for 128; views 5 for 1"
    assert davody.spec("mnist", "layer", 1.0).reduced == ""
    vgg = davody.spec("cifar10", "public_batch", 8.0, model="vgg", public_dataset="kmnist")
    others = "channels in the first stage 32 for 64; public dataset kmnist for cifar100"
    assert vgg.reduced == others


@pytest.mark.parametrize("dataset, epochs", [("mnist", 200), ("digits", 100)])
@pytest.mark.parametrize("method", ["dpvd", "svi", "dpsgd"])
def test_the_variational_methods_by_the_papers_settings(dataset, epochs, method):
    papers = paper_settings(dataset, method)
    assert ermis.spec(dataset, method, 1.0, **papers).reduced == ""
    shorter = ermis.spec(dataset, method, 1.0, **{**papers, "epochs": 5})
    assert shorter.reduced == f"epochs 5 for {epochs}"
    ours = ermis.spec(dataset, method, 1.0, epochs=5).reduced
    assert f"epochs 5 for {epochs}" in ours and "learning rate schedule linear for power" in ours
