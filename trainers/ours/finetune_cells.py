"""Cells of fine-tuning, beside what Davody et al. (2020) reached on the same data."""

import pathlib

from trainers.cells import column_of_privacy, with_changes
from trainers.davody import published as davody
from trainers.ours.finetune_settings import (
    EFFICIENTNET,
    EPSILONS,
    IMAGE_SIZES,
    LAST_LAYERS,
    NORMS,
    TRAINABLE,
    settings,
)
from trainers.specs import PrivateSpec


def spec(dataset, epsilon=None, *, experiment="finetune", **changes):
    """The `PrivateSpec` of a run, with our settings.

    Args:
        dataset: Name of a known set, or the path of a folder of images or of a CSV file.
        epsilon: Target epsilon, or None if `noise_multiplier` is given.
        experiment: Which experiment the run is for.
        **changes: Fields of `PrivateSpec` that replace ours; None leaves ours in place.
    """
    made = with_changes(settings(dataset, epsilon), changes)
    made = {"delta": davody.DELTA, "trainable": "head", **made}
    norm = made.get("norm", "none")
    all_images = dataset == "cifar10" and made.get("max_examples") is None
    as_in_the_paper = all_images and made["delta"] == davody.DELTA
    published = davody.TABLE6.get(("tf_tutorial", norm), {}).get(epsilon)
    return PrivateSpec(
        **{
            "experiment": experiment,
            "network": _network(made),
            "column": column_of_privacy(epsilon, made.get("noise_multiplier")),
            "paper_value": published if as_in_the_paper else None,
            **made,
        },
        dataset=dataset,
        epsilon=epsilon,
    )


def cifar10_cells():
    """The specs of `finetune_cifar10`: EfficientNet-Lite0 with three heads, and the last layers."""
    heads = [
        spec(
            "cifar10",
            epsilon,
            experiment="finetune_cifar10",
            norm=norm,
            image_size=image_size,
            **EFFICIENTNET,
        )
        for image_size in IMAGE_SIZES
        for norm in NORMS
        for epsilon in EPSILONS
    ]
    last_layers = [
        spec("cifar10", epsilon, experiment="finetune_cifar10", trainable=trainable, **LAST_LAYERS)
        for trainable in TRAINABLE
        for epsilon in (1, 8)
    ]
    return heads + last_layers


def _network(made):
    size, trainable = made.get("image_size"), made.get("trainable", "head")
    marks = [
        made.get("norm", "none"),
        f"{size}px" if size else "",
        "" if trainable == "head" else f"{trainable}-{made.get('batch_norm', 'frozen')}",
        "2_views" if made.get("feature_views") == 2 else "",
        f"{made['max_examples']}_images" if made.get("max_examples") else "",
    ]
    stem = pathlib.Path(made["model"]).stem.removesuffix("_features")
    return "-".join([stem, *(mark for mark in marks if mark)])


EXPERIMENTS = {"finetune_cifar10": cifar10_cells}
