"""Ermis & Cemgil (2017): the cells of their table and figures as specs, with our settings."""

import math

from tfdpnorm.experiments.cells import column_of_privacy, settled
from tfdpnorm.experiments.ermis import published as paper
from tfdpnorm.experiments.ermis.settings import CLIP, HIDDEN_UNITS, PAPER, private_settings
from tfdpnorm.experiments.spec import VariationalSpec

# Rows of Table 1: the method, and the accountant whose claim the noise is calibrated to. None is
# Renyi accounting, which holds: of Abadi et al.'s row that is the paper's own.
# DPVD comes here with its layers: ("dpvd", "ac"), ("dpvd", "zcdp"), ("dpvd", None).
_ROWS = (("svi", "zcdp"), ("svi", None), ("dpsgd", None))

# Figure 5: one knob at a time, MNIST at epsilon 1.
_FIGURE5 = {
    "hidden_units": (500, 1000, 1500, 2000),
    "epochs": (50, 100, 200, 400),
    "l2_norm_clip": (1, 2, 3, 4, 5, 6),
    "expected_batch_size": (200, 400, 600, 800, 1000),
}


def spec(
    dataset, method, epsilon=None, *, calibrated_by=None, hidden_units=HIDDEN_UNITS, **settings
):
    """The `VariationalSpec` of a cell, with our settings.

    Args:
        dataset: "mnist" or "digits".
        method: One of `tfdpnorm.choices.VARIATIONAL_METHODS`.
        epsilon: Target epsilon, infinite for method "none"; or None if `noise_multiplier` is among
            the settings.
        calibrated_by: "ac" or "zcdp" for the noise of the paper's claim, or None.
        hidden_units: Of the one hidden layer; None for the paper's.
        **settings: Fields of `VariationalSpec` that replace ours; None leaves ours in place.
    """
    hidden_units = HIDDEN_UNITS if hidden_units is None else hidden_units
    ours = private_settings(dataset, method, epsilon)
    settings = {"delta": paper.DELTA, **settled(ours, settings)}
    settings.setdefault("reduced", _reduced(dataset, settings))
    marks = [
        calibrated_by,
        "" if hidden_units == HIDDEN_UNITS else f"{hidden_units}_units",
        "held_out" if settings.get("held_out") else "",
    ]
    as_in_the_paper = settings["delta"] == paper.DELTA and hidden_units == HIDDEN_UNITS
    return VariationalSpec(
        **{
            "experiment": "ermis_table1",
            "network": "-".join([dataset, method, *(mark for mark in marks if mark)]),
            "column": column_of_privacy(epsilon, settings.get("noise_multiplier")),
            "paper_value": _figure(dataset, method, calibrated_by, epsilon)
            if as_in_the_paper
            else None,
            "model_options": (("hidden_units", (hidden_units,)),),
            **settings,
        },
        dataset=dataset,
        method=method,
        norm="none",
        epsilon=epsilon,
        calibrated_by=calibrated_by,
    )


def table1_cells(dataset=None):
    """The specs of Table 1, each row at three budgets, and the one without privacy.

    Args:
        dataset: Only of this one.
    """
    return [
        spec(one, method, epsilon, calibrated_by=claimed_by)
        for one in paper.DATASETS
        if dataset in (None, one)
        for method, claimed_by, epsilons in [
            *((*row, (10.0, 1.0, 0.1)) for row in _ROWS),
            ("none", None, (math.inf,)),
        ]
        for epsilon in epsilons
    ]


def figure5_cells(method="dpsgd"):
    """The specs of Figure 5, at epsilon 1 by Renyi accounting; the paper's is DPVD-zCDP.

    Args:
        method: That is trained.
    """
    scale = private_settings("mnist", method, 1.0)["l2_norm_clip"] / CLIP
    specs = []
    for name, values in _FIGURE5.items():
        for value in values:
            setting = scale * value if name == "l2_norm_clip" else value
            specs.append(
                spec(
                    "mnist",
                    method,
                    1.0,
                    **{name: setting},
                    experiment="ermis_figure5",
                    network=name,
                    column=f"{name}={value:g}",
                    paper_value=None,
                )
            )
    return specs


def _at(epsilon):
    without = [s for s in table1_cells() if s.method == "none"]
    return [s for s in table1_cells() if s.epsilon == epsilon] + without


def _figure(dataset, method, calibrated_by, epsilon):
    """The paper's accuracy; rows under an accounting that holds stand beside its zCDP's."""
    if method == "none":
        return paper.NON_PRIVATE[dataset] if epsilon == math.inf else None
    row = method if method == "dpsgd" else f"{method}-{calibrated_by or 'zcdp'}"
    return paper.TABLE1[dataset].get(row, {}).get(epsilon)


def _reduced(dataset, settings):
    epochs, theirs = settings.get("epochs"), PAPER[dataset]["epochs"]
    if epochs is None:
        return f"updates {settings['steps']} for {theirs} epochs"
    return f"epochs {epochs:g} for {theirs}" if epochs < theirs else ""


EXPERIMENTS = {
    "ermis_table1": table1_cells,
    # The courses of the runs of Table 1: nothing else is trained.
    "ermis_figure1": lambda: table1_cells("mnist"),
    "ermis_figure2": lambda: table1_cells("digits"),
    "ermis_figure4": lambda: _at(0.1),
    "ermis_figure5": figure5_cells,
}
