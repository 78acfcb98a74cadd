"""Klause et al. (2022): the cells of their tables as specs, with our settings."""

from tfdpnorm.experiments.cells import column_of_privacy, settled
from tfdpnorm.experiments.klause import published as paper
from tfdpnorm.experiments.klause.settings import EPOCHS, GROUPS, private_settings
from tfdpnorm.experiments.spec import ExperimentSpec

DATASETS = ("cifar10", "imagenette", "tiny_imagenet")
NORMS = ("group", "layer", "public_batch", "batch")
_TABLES = {
    ("cifar10", "resnet9"): ("klause_table1", paper.TABLE1),
    ("imagenette", "resnet9"): ("klause_table1", paper.TABLE1),
    ("tiny_imagenet", "resnet9"): ("klause_table1", paper.TABLE1),
    ("cifar10", "wrn_16_4"): ("klause_table2", paper.TABLE2),
    ("imagenette", "resnet50"): ("klause_table3", paper.TABLE3),
}


def spec(dataset, model, epsilon=None, *, scale_norm=False, norm="group", groups=None, **settings):
    """The `ExperimentSpec` of a cell, with our settings.

    Args:
        dataset: One of `DATASETS`.
        model: Name of the network.
        epsilon: Target epsilon, or None if `noise_multiplier` is among the settings.
        scale_norm: Whether `ScaleNorm` follows each residual addition.
        norm: One of `NORMS`.
        groups: Number of groups for norm="group"; None for the network's own.
        **settings: Fields of `ExperimentSpec` that replace ours; None leaves ours in place.
    """
    experiment, table = _TABLES.get((dataset, model), ("klause_others", {}))
    ours = private_settings(dataset, model)
    settings = {"delta": paper.DELTA, **settled(ours, settings)}
    options = {"scale_norm": scale_norm, "groups": groups or GROUPS[model]}
    settings.setdefault("reduced", _reduced(dataset, settings))
    published = table.get((dataset, model, scale_norm), {}).get(epsilon)
    as_in_the_paper = norm == "group" and settings["delta"] == paper.DELTA
    return ExperimentSpec(
        **{
            "experiment": experiment,
            "network": _network(dataset, model, scale_norm, norm, groups, settings, ours),
            "column": column_of_privacy(epsilon, settings.get("noise_multiplier")),
            "paper_value": published if as_in_the_paper else None,
            "model_options": tuple(options.items()),
            **settings,
        },
        dataset=dataset,
        model=model,
        norm=norm,
        epsilon=epsilon,
    )


def table1_cells():
    """The specs of Table 1 and its neighbours of one network, ScaleNorm first."""
    return _cells(paper.TABLE1)


def _cells(table):
    return [
        spec(dataset, model, epsilon, scale_norm=scale_norm)
        for (dataset, model, scale_norm), row in table.items()
        for epsilon in row
    ]


def _network(dataset, model, scale_norm, norm, groups, settings, ours):
    """The row of a table: what is trained on what, and in what it differs from our cells."""
    marks = [
        "scale_norm" if scale_norm else "",
        "" if norm == "group" else norm,
        "" if groups in (None, GROUPS[model]) else f"{groups}_groups",
        _views(settings, ours),
        "held_out" if settings.get("held_out") else "",
    ]
    return "-".join([dataset, model, *(mark for mark in marks if mark)])


def _reduced(dataset, settings):
    """What is smaller than in the paper, in words; "" for nothing."""
    epochs, theirs = settings.get("epochs"), EPOCHS[dataset]
    if epochs is None:
        return f"{settings['steps']} updates for {theirs} epochs"
    return f"{epochs:g} epochs for {theirs}" if epochs < theirs else ""


def _views(settings, ours):
    default = {"augmentation_multiplicity": 1, "views": "moved"}
    kept = [tuple({**default, **s}[name] for name in default) for s in (settings, ours)]
    count, kind = kept[0]
    return "" if kept[0] == kept[1] else f"{count}_{kind}_views"


EXPERIMENTS = {
    "klause_table1": table1_cells,
}
