"""Ermis & Cemgil (2017): the cells of their table and figures as specs, with our settings."""

import math

from tfdpnorm import arguments
from trainers.cells import column_of_privacy, with_changes
from trainers.ermis import published as paper
from trainers.ermis.settings import (
    FEATURES,
    FIGURE5,
    FIGURE5_PASSES,
    HIDDEN_UNITS,
    LAYERS,
    PAPER,
    paper_settings,
    private_settings,
)
from trainers.scale import at_scale, given_names, is_at_papers_scale, with_scale
from trainers.specs import PrivateSpec
from trainers.specs.parts import CLAIMING_ACCOUNTANTS, READINGS

MODELS = ("mlp", "random_features", "small_cnn")
_EPSILONS = (10.0, 1.0, 0.1)
_METHODS = ("dpvd", "svi", "dpsgd")
_DELTAS = (1e-2, 1e-3, 1e-4)  # The paper's others; its table has 1e-5.
# Rows of Table 1. First the paper's, whose noise is calibrated to a claim; then the same methods,
# and Abadi et al.'s, with the noise that holds; then these with fixed random features. DIGITS has
# the last ones once more, with features of public images, which the paper does not use.
_ROWS = (
    *(dict(method="dpvd", calibrated_by=c, reading="as_printed") for c in CLAIMING_ACCOUNTANTS),
    *(dict(method="dpvd", calibrated_by=c) for c in CLAIMING_ACCOUNTANTS),
    dict(method="svi", calibrated_by="zcdp"),
    *(dict(method=method) for method in _METHODS),
    *(dict(method=method, model="random_features") for method in _METHODS),
)
_NOT_PRIVATE = (dict(method="none"), dict(method="none", model="random_features"))
_PUBLIC = {"digits": tuple(dict(method=method, model="small_cnn") for method in _METHODS)}
_MARKS = {"mlp": "", "small_cnn": "public_features"}  # Others have their own name.

# Figure 5: one option at a time, MNIST at epsilon 1. The paper's values; we train a share of its
# passes over the data.
_FIGURE5 = {
    "hidden_units": (500, 1000, 1500, 2000),
    "epochs": (50, 100, 200, 400),
    "clip_of_a_layer": (1, 2, 3, 4, 5, 6),
    "expected_batch_size": (200, 400, 600, 800, 1000),
}


def spec(
    dataset,
    method,
    epsilon=None,
    *,
    calibrated_by=None,
    reading="sound",
    model="mlp",
    hidden_units=HIDDEN_UNITS,
    **settings,
):
    """The `PrivateSpec` of a cell, with our settings, but for those that are given and not None.

    Args:
        epsilon: Infinite for method "none"; None if `noise_multiplier` is among the settings.
        calibrated_by: "ac" or "zcdp" for the noise of the paper's claim, which "as_printed" needs.
        model: "mlp", the paper's; "random_features"; or "small_cnn", whose features are learnt on a
            public set.
        hidden_units: Of the one hidden layer of "mlp"; None for the paper's.
    """
    if hidden_units not in (None, HIDDEN_UNITS) and model != "mlp":
        raise ValueError(f"Expected hidden_units with model='mlp', got model={model!r}.")
    hidden_units = HIDDEN_UNITS if hidden_units is None else hidden_units
    printed = arguments.choice("reading", reading, READINGS) == "as_printed"
    row = (f"{method}-as_printed" if printed else method, model, calibrated_by)
    ours = private_settings(dataset, *row, epsilon)
    given = given_names(settings)
    settings = {"delta": paper.DELTA, **with_changes(ours, settings)}
    if settings.get("steps") is not None:
        settings.pop("epochs", None)
    _check(method, epsilon, model, settings)
    marks = [
        "as_printed" if printed else "",
        calibrated_by,
        _MARKS.get(model, model),
        "" if hidden_units == HIDDEN_UNITS else f"{hidden_units}_units",
        *(
            f"{name}_{settings[name]:g}"
            for name in ("delta", "kl_weight", "max_alpha", "dropout_rate")
            if settings.get(name) not in (None, {"delta": paper.DELTA, **ours}.get(name))
        ),
        "held_out" if settings.get("held_out") else "",
    ]
    # Other networks, and other examples than its test set, are not the paper's.
    as_in_the_paper = settings["delta"] == paper.DELTA and not settings.get("held_out")
    as_in_the_paper &= model == "mlp" and hidden_units == HIDDEN_UNITS
    as_in_the_paper &= settings.get("max_alpha") is None
    options = (
        {"hidden_units": (hidden_units,)} if model == "mlp" else FEATURES.get((dataset, model), {})
    )
    made = PrivateSpec.of(
        **{
            "experiment": "ermis_table1",
            "network": "-".join([dataset, method, *(mark for mark in marks if mark)]),
            "column": column_of_privacy(epsilon, settings.get("noise_multiplier")),
            "paper_value": _figure(dataset, method, calibrated_by, epsilon)
            if as_in_the_paper
            else None,
            "model_options": tuple(options.items()),
            **settings,
        },
        model=model,
        dataset=dataset,
        method=method,
        reading=reading,
        norm="none",
        epsilon=epsilon,
        calibrated_by=calibrated_by,
    )
    return with_scale(made, paper_settings(dataset, row[0]), given)


def _check(method, epsilon, model, settings):
    arguments.choice("model", model, MODELS)
    if (method == "none") != (epsilon == math.inf):
        raise ValueError(
            "Expected epsilon=inf with method='none' and only there, got "
            f"epsilon={epsilon!r} with method={method!r}."
        )
    public = settings.get("pretraining_dataset")
    if (model == "small_cnn") != (public is not None):
        raise ValueError(
            "Expected pretraining_dataset with model='small_cnn' and only there, got model="
            f"{model!r} with pretraining_dataset={public!r}."
        )


def table1_cells(dataset=None):
    """The specs of Table 1, of one data set or both, at three budgets and without privacy."""
    return [
        spec(one, epsilon=epsilon, **row)
        for one in paper.DATASETS
        if dataset in (None, one)
        for rows, epsilons in (
            (_ROWS, _EPSILONS),
            (_PUBLIC.get(one, ()), _EPSILONS),
            (_NOT_PRIVATE, (math.inf,)),
        )
        for row in rows
        for epsilon in epsilons
    ]


def papers_own_cells(dataset=None):
    """Table 1 with the paper's lots, passes, clipping, rates and divergence, where ours differ; the
    noise is that of sound accounting."""
    if is_at_papers_scale():  # where all cells have them
        return []
    with at_scale("paper"):
        specs = [
            spec(one, method, epsilon)
            for one in paper.DATASETS
            if dataset in (None, one)
            for method in (*_METHODS, "none")
            for epsilon in (_EPSILONS if method != "none" else (math.inf,))
        ]
    # A lot is small: it needs no search for how many rows fit into memory.
    return [
        one.replaced(network=f"{one.network}-papers_settings", physical_batch_size=None)
        for one in specs
    ]


def figure5_cells(method="dpvd"):
    """The specs of Figure 5, at epsilon 1 by Renyi accounting, in place of zCDP.

    All else is as in the paper (1,000 units, C = 2 for each layer, batches of 600), except for the
    rate, and for passes, of which it is `FIGURE5_PASSES` of the paper's 200. At the paper's scale
    both are the paper's.
    """
    share, ours = FIGURE5_PASSES / PAPER["mnist"]["epochs"], FIGURE5
    if is_at_papers_scale():
        share, ours = 1, {"evaluations": FIGURE5["evaluations"], "reduced": ""}
    specs = []
    for name, values in _FIGURE5.items():
        for value in values:
            if name == "epochs":
                value *= share
            field = {name: value}
            if name == "clip_of_a_layer":
                field = {"l2_norm_clip": value * LAYERS**0.5}
            one = spec(
                *("mnist", method, 1.0),
                **ours | field,
                experiment="ermis_figure5",
                network=name,
                column=f"{name}={value:g}",
            )
            # It has curves, no figures; what is varied is no reduction.
            specs.append(one.replaced(paper_value=None, reduced=ours["reduced"]))
    return specs


def settings_cells():
    """Ours, on DIGITS: what the paper names besides its table, one change at a time.

    Noise that multiplies the inputs, of 0 and 1 or normal (equation 7), the divergence in full,
    alpha up to 1, and other deltas, of which the paper says that they hardly matter. The rows that
    nothing is changed in are those of Table 1, which are not trained again.
    """
    changes = (
        dict(method="dropout"),
        dict(method="gaussian_dropout"),
        dict(method="dpvd", kl_weight=1.0),
        dict(method="dpvd", max_alpha=1.0),
    )
    made = [
        spec("digits", epsilon=epsilon, experiment="ermis_settings", **change)
        for change in changes
        for epsilon in _EPSILONS
    ]
    made += [
        spec("digits", "dpvd", 1.0, delta=delta, experiment="ermis_settings") for delta in _DELTAS
    ]
    unchanged = [
        spec("digits", method, epsilon) for method in ("dpsgd", "dpvd") for epsilon in _EPSILONS
    ]
    return [*unchanged, *(one.replaced(paper_value=None) for one in made)]


def _whole_table1(dataset=None, epsilons=None):
    specs = table1_cells(dataset) + papers_own_cells(dataset)
    return [s for s in specs if epsilons is None or s.epsilon in epsilons]


def _figure(dataset, method, calibrated_by, epsilon):
    """The paper's accuracy; rows under an accounting that holds stand beside its zCDP's."""
    if method == "none":
        return paper.NON_PRIVATE[dataset] if epsilon == math.inf else None
    row = method if method == "dpsgd" else f"{method}-{calibrated_by or 'zcdp'}"
    return paper.TABLE1[dataset].get(row, {}).get(epsilon)


EXPERIMENTS = {
    "ermis_table1": _whole_table1,
    # The curves of the runs of Table 1: nothing else is trained.
    "ermis_figure1": lambda: _whole_table1("mnist"),
    "ermis_figure2": lambda: _whole_table1("digits"),
    "ermis_figure4": lambda: sorted(
        _whole_table1(epsilons=(0.1, math.inf)), key=lambda spec: spec.epsilon
    ),
    "ermis_figure5": figure5_cells,
    "ermis_settings": settings_cells,
}
