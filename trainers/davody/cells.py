"""Davody et al. (2020): the cells of their tables as specs, with our settings."""

from trainers.cells import column_of_privacy, with_changes
from trainers.davody import published as paper
from trainers.davody.settings import (
    OWN_NETWORKS,
    PAPER,
    STATISTICS_TABLE,
    private_settings,
)
from trainers.davody.weight_noise_settings import (
    CURVES,
    VALIDATION_PAPER,
    WEIGHT_NOISE_PAPER,
    network_name,
    weight_noise_settings,
)
from trainers.report.tables import TableForm
from trainers.scale import at_scale, given_names, is_at_papers_scale, with_scale
from trainers.specs import NonPrivateSpec, PrivateSpec

# By what the trainers call a data set: the experiment, its own network, the paper's table.
_PRIVATE = {
    "mnist": ("davody_table5", OWN_NETWORKS["mnist"], paper.TABLE5),
    "cifar10": ("davody_table6", OWN_NETWORKS["cifar10"], paper.TABLE6),
    "ag_news": ("davody_table7", OWN_NETWORKS["ag_news"], paper.TABLE7),
    # Ours, for the demonstration.
    "digits": ("davody_digits", OWN_NETWORKS["digits"], {}),
}
_WEIGHT_NOISE = {
    "mnist": ("davody_table2", "lenet5", paper.TABLE2),
    "cifar10": ("davody_table3", "resnet18", paper.TABLE3),
    "ag_news": ("davody_table4", "bilstm", paper.TABLE4),
}
PRIVATE_DATASETS = tuple(_PRIVATE)
WEIGHT_NOISE_DATASETS = tuple(_WEIGHT_NOISE)
_NO_VIEWS = dict(augmentation_multiplicity=1)
_AS_IN_THE_PAPER = dict(public_batch_size=paper.PUBLIC_ROWS, **_NO_VIEWS)
INF = float("inf")
_TFDS_NAMES = {"ag_news": "ag_news_subset"}


def spec(dataset, norm, epsilon=None, *, model=None, norm_placement="hidden", **settings):
    """The `PrivateSpec` of a cell of Tables 5 to 7, with our settings, but for those given.

    Epsilon is None if `noise_multiplier` is among the settings, `model` for the table's own. The
    placement of the normalisation is "hidden" for ours, "all" for the paper's, whose Section 2
    normalises the logits too, "mod" for neither them nor the layer before.
    """
    experiment, own_model, table = _of_dataset(_PRIVATE, dataset)
    model = own_model if model is None else model
    ours = private_settings(dataset, model, norm, epsilon)
    ours |= _placed(ours, norm, norm_placement)
    if settings.get("statistics") in ("lot", "example"):
        ours |= _NO_VIEWS  # `make_private` has none for these statistics
    given = given_names(settings)
    settings = {"delta": paper.DELTA, **with_changes(ours, settings)}
    # Epsilon at another delta, or other examples, would not compare to the paper's figure.
    as_in_the_paper = settings["delta"] == paper.DELTA and not settings.get("held_out")
    as_in_the_paper = as_in_the_paper and norm_placement != "mod"
    placed = "" if norm_placement == "hidden" else f"-{norm_placement}"
    variant = _variant(settings, ours) + placed + ("" if model == own_model else f"-{model}")
    made = PrivateSpec.of(
        **{
            "experiment": experiment,
            "network": f"{norm}{variant}",
            "column": column_of_privacy(epsilon, settings.get("noise_multiplier")),
            "paper_value": table.get((model, norm), {}).get(epsilon) if as_in_the_paper else None,
            **settings,
        },
        dataset=_TFDS_NAMES.get(dataset, dataset),
        model=model,
        norm=norm,
        epsilon=epsilon,
    )
    return with_scale(made, PAPER[dataset], given)


def weight_noise_spec(dataset, norm, stddev, *, model=None, norm_placement="all", **settings):
    """The `NonPrivateSpec` of a cell of Tables 2 to 4, with our settings, but for those given.

    `stddev` is that of the noise in the weights. The placement of the normalisation is "all" for
    the paper's augmented networks, "hidden" for ResNet and VGG as they are, "mod" for these without
    their last normalisation.
    """
    experiment, own_model, table = _of_dataset(_WEIGHT_NOISE, dataset)
    model = own_model if model is None else model
    given = given_names(settings)
    settings = with_changes(weight_noise_settings(dataset, norm, stddev, norm_placement), settings)
    options = dict(settings.pop("model_options", ()))
    made = NonPrivateSpec(
        **{
            "experiment": experiment,
            "network": network_name(model, norm, norm_placement),
            "column": f"stddev={stddev:g}",
            "paper_value": table.get((model, norm, norm_placement), {}).get(stddev),
            **settings,
        },
        dataset=_TFDS_NAMES.get(dataset, dataset),
        model=model,
        norm=norm,
        model_options=(("norm_placement", norm_placement), *options.items()),
        weight_noise_stddev=float(stddev),
    )
    stated = WEIGHT_NOISE_PAPER[dataset]
    if is_at_papers_scale():
        stated = stated | VALIDATION_PAPER.get(dataset, {})
    return with_scale(made, stated, given)


def private_cells(dataset):
    """The specs of all cells of a table of private training, in the paper's order.

    Behind them come ours: networks trained without views where we train on views, to compare with
    those that have none.
    """
    _, _, table = _of_dataset(_PRIVATE, dataset)
    specs = [
        spec(dataset, norm, float(epsilon), model=model)
        for (model, norm), row in table.items()
        for epsilon in row
    ]
    without = [
        spec(dataset, viewed.norm, viewed.epsilon, model=viewed.model, **_NO_VIEWS)
        for viewed in specs
        if viewed.augmentation_multiplicity > 1
    ]
    return specs + without


def weight_noise_cells(dataset):
    """The specs of all cells of a table of noise in the weights, in the paper's order."""
    _, _, table = _of_dataset(_WEIGHT_NOISE, dataset)
    return [
        weight_noise_spec(dataset, norm, stddev, model=model, norm_placement=placement)
        for (model, norm, placement), row in table.items()
        for stddev in row
    ]


def less_reduced_cells():
    """Ours: does scale explain why the paper's ResNet-18 bears more noise? Longer, or wider."""
    network = "batch-resnet18-hidden"
    noisy = dict(norm="batch", stddev=1.0, norm_placement="hidden", paper_value=None)
    return [
        weight_noise_spec("cifar10", network=f"{network}-24_epochs", epochs=24, **noisy),
        weight_noise_spec(
            "cifar10", network=f"{network}-32_channels", model_options=(("width", 32),), **noisy
        ),
    ]


def papers_own_cells():
    """Table 5 as the paper describes it, where ours differs: networks whose logits are normalised
    too, and public-batch networks with 128 public rows and without views."""
    rows = (
        dict(norm="layer", norm_placement="all"),
        dict(norm="public_batch", network="public_batch-128_rows", **_AS_IN_THE_PAPER),
        dict(
            norm="public_batch",
            network="public_batch-128_rows-all",
            norm_placement="all",
            **_AS_IN_THE_PAPER,
        ),
    )
    epsilons = paper.TABLE5["lenet5", "public_batch"]
    return [spec("mnist", epsilon=float(epsilon), **row) for row in rows for epsilon in epsilons]


def validated_cells():
    """Table 4 with the paper's adaptive rate and early stopping, on as many held-out texts as the
    texts at hand allow."""
    if is_at_papers_scale():  # where all cells have both
        return []
    with at_scale("paper"):
        specs = [
            weight_noise_spec("ag_news", norm, stddev, model=model, validation_examples=6_000)
            for (model, norm, _), row in paper.TABLE4.items()
            for stddev in row
        ]
    return [made.replaced(network=f"{made.network}-validated") for made in specs]


def plain_vgg_cells():
    """Table 6, the network that the paper says cannot be trained: VGG without normalisation."""
    return [
        spec("cifar10", "none", epsilon, model="vgg", paper_value=paper.PLAIN_VGG.get(epsilon))
        for epsilon in (INF, 8.0, 4.0, 2.0)
    ]


def statistics_cells():
    """Ours: whose statistics public-batch normalisation takes, side by side at three budgets."""
    variants = (
        dict(norm="public_batch"),
        dict(norm="public_batch", statistics_gradient="stop"),
        dict(norm="public_batch", statistics="blend"),
        dict(norm="public_batch", statistics="lot"),
        dict(norm="noised_batch"),
    )
    return [
        spec("mnist", epsilon=epsilon, **variant, **STATISTICS_TABLE).replaced(
            experiment="davody_statistics",
            paper_value=None,
            ema_decay=None,
            **_NO_VIEWS,
        )
        for variant in variants
        for epsilon in (7.0, 3.0, 1.0)
    ]


def curve_cells():
    """Figure 1: training curves under more and more noise in the weights."""
    return [
        weight_noise_spec(dataset, "batch", stddev, **settings).replaced(
            experiment="davody_figure1", paper_value=None
        )
        for dataset, settings in CURVES.items()
        for stddev in (0.0, 1.0, 2.0, 5.0, 10.0)
    ]


def _of_dataset(experiments, dataset):
    if dataset not in experiments:
        raise ValueError(f"Expected dataset to be one of {tuple(experiments)}, got {dataset!r}.")
    return experiments[dataset]


def _placed(ours, norm, norm_placement):
    """The options of a network whose normalisation is not where ours is, a dict of a field."""
    if norm_placement == "hidden":
        return {}
    if norm == "none":
        raise ValueError(
            f"Expected a normalisation with norm_placement={norm_placement!r}, got norm='none'. "
            "Choose one, such as norm='layer', or leave norm_placement out."
        )
    options = ours.get("model_options", ())
    return dict(model_options=(*options, ("norm_placement", norm_placement)))


def _variant(settings, ours):
    """Marks a cell whose statistics are not the default, or views or scored examples not ours."""
    statistics = settings.get("statistics", "public")
    gradient = settings.get("statistics_gradient", "full")
    views, our_views = ((_NO_VIEWS | s)["augmentation_multiplicity"] for s in (settings, ours))
    marks = [
        "" if statistics == "public" else statistics,
        "" if gradient == "full" else gradient,
        "" if views == our_views else "no_views" if views == 1 else f"{views}_views",
        "random_views" if settings.get("views") == "random" else "",
        "held_out" if settings.get("held_out") else "",
    ]
    return "".join(f"-{mark}" for mark in marks if mark)


def forms():
    """Returns how the tables sum up their runs, a dict of `TableForm`: with standard errors."""
    tables = {"mnist": paper.TABLE2_ERRORS, "cifar10": paper.TABLE3_ERRORS}
    return {
        _WEIGHT_NOISE[dataset][0]: TableForm(
            errors={
                weight_noise_spec(
                    dataset, norm, stddev, model=model, norm_placement=placement
                ).cell: error
                for (model, norm, placement), row in table.items()
                for stddev, error in row.items()
            }
        )
        for dataset, table in tables.items()
    }


EXPERIMENTS = {
    "davody_table2": lambda: weight_noise_cells("mnist"),
    "davody_table3": lambda: weight_noise_cells("cifar10") + less_reduced_cells(),
    "davody_table4": lambda: weight_noise_cells("ag_news") + validated_cells(),
    "davody_table5": lambda: private_cells("mnist") + papers_own_cells(),
    "davody_table6": lambda: private_cells("cifar10") + plain_vgg_cells(),
    "davody_table7": lambda: private_cells("ag_news"),
    "davody_figure1": curve_cells,
    "davody_statistics": statistics_cells,
}
