"""Klause et al. (2022): the cells of their tables as specs, with our settings."""

import math

from trainers.cells import column_of_privacy, with_changes
from trainers.klause import published as paper
from trainers.klause.settings import (
    EPOCHS,
    GROUPS,
    NARROW_NORMS_TABLE,
    NON_PRIVATE,
    NON_PRIVATE_PAPER,
    NORMS_TABLE,
    OPTIONS,
    PAPER,
    PAPER_IMAGE_SIZES,
    PAPER_OPTIONS,
    STANDARDIZED_BY,
    WIDE,
    WIDE_TABLE,
    WIDE_UPDATES,
    private_settings,
)
from trainers.report.tables import TableForm
from trainers.scale import given_names, is_at_papers_scale, with_scale
from trainers.specs import NonPrivateSpec, PrivateSpec

DATASETS = tuple(EPOCHS)
MODELS = tuple(PAPER)
# By what is trained on what: the experiment and the paper's table.
_TABLES = {
    ("cifar10", "resnet9"): ("klause_table1", paper.TABLE1),
    ("imagenette", "resnet9"): ("klause_table1", paper.TABLE1),
    ("tiny_imagenet", "resnet9"): ("klause_table1", paper.TABLE1),
    ("cifar10", "wrn_16_4"): ("klause_table2", paper.TABLE2),
    ("imagenette", "resnet50"): ("klause_table3", paper.TABLE3),
}
_NORMS_EPSILON = 7.42
# Above about 30 no guarantee holds here: e^epsilon times the probability of what rounding does to
# the noise exceeds delta. The paper's cells at 70 are in the notes below the table instead.
_LARGEST_EPSILON = 30.0
# Options under which a cell is still compared with the paper's.
_AS_IN_THE_PAPER = ("scale_norm", "groups", "order", "standardized_by")


def spec(dataset, model, epsilon=None, *, scale_norm=False, norm="group", options=(), **settings):
    """The `PrivateSpec` of a cell, with our settings.

    `dataset` is one of `DATASETS`, `model` one of `MODELS`, with further `options`, such as
    {"groups": 16}. Epsilon is None if `noise_multiplier` is among the settings. These replace ours;
    None leaves ours in place.
    """
    experiment, table = _TABLES.get((dataset, model), ("klause_others", {}))
    ours = private_settings(dataset, model, norm)
    given = [*given_names(settings), "model_options"]
    settings = {"delta": paper.DELTA, **with_changes(ours, settings)}
    our_options = {} if is_at_papers_scale() else OPTIONS.get((dataset, model), {})
    options = _options(model, norm, scale_norm, {**our_options, **_chosen(options)})
    # Epsilon at another delta, or another network, would not compare to the paper's figure. The
    # order of layers may be that of the paper's text or that of the authors' code.
    own = {
        name: value
        for name, value in options.items()
        if name not in _AS_IN_THE_PAPER and our_options.get(name) != value
    }
    as_in_the_paper = norm == "group" and options["groups"] == GROUPS[model] and not own
    as_in_the_paper &= settings["delta"] == paper.DELTA
    as_in_the_paper &= not settings.get("held_out")  # other examples than the paper's
    published = table.get((dataset, model, scale_norm), {}).get(epsilon)
    made = PrivateSpec.of(
        **{
            "experiment": experiment,
            "network": _network(dataset, model, norm, options, own, _marks(settings, ours)),
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
    is_wide = PAPER[model] is WIDE
    length = {"steps": WIDE_UPDATES} if is_wide else {"epochs": EPOCHS[dataset]}
    if is_at_papers_scale() and "standardized_by" not in options:
        standardized = (*made.model_options, ("standardized_by", STANDARDIZED_BY[dataset]))
        made = made.replaced(model_options=standardized)
    theirs = {**length, **PAPER[model], "model_options": PAPER_OPTIONS.get(model, {})}
    if made.image_size is not None:
        theirs["image_size"] = PAPER_IMAGE_SIZES[dataset]
    return with_scale(made, theirs, given)


def non_private_spec(dataset, model, *, scale_norm=False, norm="batch", options=(), **settings):
    """The `NonPrivateSpec` of a cell of Appendix B, with our settings; arguments as in `spec`."""
    given = given_names(settings)
    settings = with_changes(NON_PRIVATE, settings)
    options = _options(model, norm, scale_norm, options)
    published = paper.APPENDIX_B.get((dataset, model, scale_norm), {}).get(math.inf)
    made = NonPrivateSpec(
        **{
            "experiment": "klause_appendix_b",
            "network": _network(dataset, model, "group", options, options, [norm]),
            "column": column_of_privacy(math.inf),
            "paper_value": published if norm == "batch" else None,
            "model_options": tuple(options.items()),
            **settings,
        },
        dataset=dataset,
        model=model,
        norm=norm,
    )
    return with_scale(made, NON_PRIVATE_PAPER, given)


def norms_cells():
    """Ours: normalisations side by side, at one epsilon and with one number of updates."""
    # One physical batch of this size holds a batch, but for one in four hundred.
    public = dict(norm="public_batch", physical_batch_size=576)
    variants = (
        *_normalizations(public),
        dict(public, scale_norm=True),
        dict(public, scale_norm=True, pull_back_weight=1.0),
        dict(public, public_dataset="synthetic:fractal"),
        dict(public, statistics_gradient="stop"),
    )
    return _side_by_side("klause_norms", variants, NORMS_TABLE)


def narrow_norms_cells():
    """Ours: the same in a narrow ResNet-9 on shrunk images, in batches of the paper's size."""
    public = dict(norm="public_batch")
    # The paper searches over numbers of groups. As many as channels normalise each by itself.
    groups = [dict(norm="group", groups=count) for count in (2, 4, 8, 16)]
    variants = (*_normalizations(public), dict(public, statistics_gradient="stop"), *groups)
    options = dict(width=16, standardized_by=STANDARDIZED_BY["cifar10"])
    # The other budgets of Table 1: two cores cannot train its own network at these several times.
    by_epsilon = {_NORMS_EPSILON: variants, 2.89: variants[:2], 9.88: variants[:2]}
    return [
        made
        for epsilon, chosen in by_epsilon.items()
        for made in _side_by_side(
            "klause_norms_narrow", chosen, NARROW_NORMS_TABLE, epsilon, **options
        )
    ]


def _normalizations(public):
    return (
        dict(norm="group"),
        dict(norm="group", scale_norm=True),
        dict(norm="layer"),
        public,
        dict(public, pull_back_weight=1.0),
        dict(public, pull_back="shrunk"),
    )


def _side_by_side(experiment, variants, settings, epsilon=_NORMS_EPSILON, **options):
    """The specs of ResNet-9 for CIFAR-10 in these variants, which the paper does not have."""
    specs = []
    for variant in variants:
        groups = {"groups": variant.get("groups")}
        others = {name: value for name, value in variant.items() if name not in groups}
        made = spec("cifar10", "resnet9", epsilon, options=options | groups, **others, **settings)
        specs.append(made.replaced(experiment=experiment, paper_value=None))
    return specs


def wide_cells():
    """Ours: the smallest wide network on shrunk images, with and without ScaleNorm.

    Two cores can train it for as many updates as show whether ScaleNorm leads, and when.
    """
    shared = dict(WIDE_TABLE, options=dict(depth=16, width=1))
    names = {"cifar10-wrn_16_1-scale_norm-16px": True, "cifar10-wrn_16_1-16px": False}
    return [
        spec("cifar10", "wide_resnet", 8.0, scale_norm=scaled, **shared).replaced(
            experiment="klause_wide", network=name
        )
        for name, scaled in names.items()
    ]


def appendix_b_cells():
    """The specs of Appendix B, ScaleNorm first."""
    return [
        non_private_spec(dataset, model, scale_norm=scale_norm)
        for dataset, model, scale_norm in paper.APPENDIX_B
    ]


def _cells(table, experiment=None):
    """The specs of the cells of a table, ScaleNorm first, which are trained for an experiment."""
    specs = [
        spec(dataset, model, epsilon, scale_norm=scale_norm)
        for (dataset, model, scale_norm), row in table.items()
        for epsilon in row
        if epsilon <= _LARGEST_EPSILON
    ]
    return [s for s in specs if experiment in (None, s.experiment)]


def _options(model, norm, scale_norm, options):
    """The options of the model; what it has not, or what has no effect, is refused."""
    chosen = _chosen(options)
    if chosen:
        _check_options(model, norm, scale_norm, chosen)
    return {"scale_norm": scale_norm, "groups": GROUPS[model], **chosen}


def _chosen(options):
    return {name: value for name, value in dict(options).items() if value is not None}


def _check_options(model, norm, scale_norm, chosen):
    from tfdpnorm import models  # loads TensorFlow

    for name, value in chosen.items():
        with_it = [other for other in MODELS if name in models.options(other)]
        if model not in with_it:
            raise ValueError(
                f"Expected model={' or '.join(with_it)} with {name}, got {name}={value} with "
                f"model={model}. Leave it out."
            )
    # Beside these two ScaleNorm is group normalisation (`ResidualSum`).
    in_groups = norm == "group" or (scale_norm and norm in ("none", "noised_batch"))
    if "groups" in chosen and not in_groups:
        raise ValueError(
            f"Expected norm=group with groups, got groups={chosen['groups']} with norm={norm}, "
            "where it has no effect. Leave it out."
        )
    models.check_groups(chosen.get("groups", -1))


def _network(dataset, model, norm, options, own, more):
    """The row of a table: what is trained on what, and in what it differs from our cells."""
    marks = [
        "scale_norm" if options["scale_norm"] else "",
        "" if norm == "group" else norm,
        "" if options["groups"] == GROUPS[model] else f"{options['groups']}_groups",
        *(str(options[name]) for name in ("order",) if name in options),
        *(f"{name}_{options[name]}" for name in ("depth", "width") if name in own),
        "standardized" if "standardized_by" in options else "",
        *more,
    ]
    return "-".join([dataset, model, *(mark for mark in marks if mark)])


def _marks(settings, ours):
    default = {"augmentation_multiplicity": 1, "views": "moved"}
    kept = [tuple({**default, **s}[name] for name in default) for s in (settings, ours)]
    count, kind = kept[0]
    statistics = settings.get("statistics", "public")
    rows = ours.get("public_dataset")  # None without public-batch normalisation
    other_rows = rows is not None and settings["public_dataset"] != rows
    plateau = settings.get("plateau", "none")
    weight = settings.get("pull_back_weight", "auto")
    size = settings.get("image_size")
    return [
        "" if size == ours.get("image_size") else f"{size}px",
        "" if kept[0] == kept[1] else f"{count}_{kind}_views",
        "" if statistics == "public" else statistics,
        "stopped" if settings.get("statistics_gradient") == "stop" else "",
        "shrunk" if settings.get("pull_back") == "shrunk" else "",
        "" if weight == "auto" else f"weight_{weight:g}",
        settings["public_dataset"].replace(":", "_") if other_rows else "",
        "" if plateau == "none" else f"{plateau}_plateau",
        "held_out" if settings.get("held_out") else "",
    ]


def _by_cell(table):
    """Dict from the name of a cell to the figure of a table."""
    return {
        spec(dataset, model, epsilon, scale_norm=scale_norm).cell: value
        for (dataset, model, scale_norm), row in table.items()
        for epsilon, value in row.items()
    }


EXPERIMENTS = {
    "klause_table1": lambda: _cells(paper.TABLE1, "klause_table1"),
    # Its ResNet-9 is that of Table 1, which is not trained again.
    "klause_table2": lambda: _cells(paper.TABLE2),
    "klause_table3": lambda: _cells(paper.TABLE3, "klause_table3"),
    # The best of the runs of Table 1: nothing else is trained.
    "klause_table4": lambda: _cells(paper.TABLE4, "klause_table1"),
    "klause_appendix_b": appendix_b_cells,
    "klause_norms": norms_cells,
    "klause_norms_narrow": narrow_norms_cells,
    "klause_wide": wide_cells,
}


def forms():
    """Returns how the tables sum up their runs, a dict of `TableForm`."""
    best = _by_cell(paper.TABLE4)
    minutes = {
        spec(dataset, model, 1.0, scale_norm=scale_norm).network: time
        for (dataset, model), time in paper.MINUTES_OF_TABLE2.items()
        for scale_norm in (True, False)
    }
    return {
        **dict.fromkeys(EXPERIMENTS, TableForm(summary="median")),
        "klause_table1": TableForm(summary="median", top5=_by_cell(paper.TABLE1_TOP5)),
        "klause_table2": TableForm(summary="median", minutes=minutes),
        "klause_table4": TableForm(
            summary="best",
            paper=best,
            by_top5=tuple(cell for cell in best if cell.startswith("tiny_imagenet")),
        ),
    }
