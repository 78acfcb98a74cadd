"""What a run says of its scale: its settings, flags included, against what its paper states."""

import pytest

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
