"""The settings of Davody's cells: those that the kept records were trained with, at any epsilon."""

import hashlib
import itertools

import pytest

from trainers.davody import published
from trainers.davody.settings import (
    INF,
    OWN_NETWORKS,
    ROWS,
    column_like,
    private_settings,
)
from trainers.davody.weight_noise_settings import weight_noise_settings

MODELS = ("lenet5", "mlp", "tf_tutorial", "vgg", "bilstm", "transformer")
NORMS = ("none", "layer", "group", "batch", "public_batch", "noised_batch")
# The columns of the tables, and what is just beside the borders between them.
EPSILONS = (
    None, INF, 1e9, 8, 7, 6.001, 6, 5.999, 4, 3.001, 3, 2.999, 2.001, 2, 1.999, 1, 0.5, 0.201,
    0.2, 0.199, 0.101, 0.1, 0.099, 0.05, 1e-6,
)  # fmt: skip
STDDEVS = (0, 0.01, 0.1, 0.499, 0.5, 1, 2, 10)


def digest(settings):
    lines = [repr(sorted(each.items())) for each in settings]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


# Computed by the functions with which the records in results/ were trained.
@pytest.mark.parametrize(
    "dataset, expected",
    [
        ("mnist", "22ee91c6a2fd80db"),
        ("cifar10", "8edbe67d52a5263f"),
        ("ag_news", "d812be9977efa970"),
        ("digits", "46bcbb9b7c96d5fd"),
    ],
)
def test_settings_of_private_training_are_as_they_were(dataset, expected):
    grid = itertools.product(MODELS, NORMS, EPSILONS)
    assert digest(private_settings(dataset, *cell) for cell in grid) == expected


@pytest.mark.parametrize(
    "dataset, expected",
    [
        ("mnist", "1670dcd675eca0dd"),
        ("cifar10", "ea5077add4ee7a03"),
        ("ag_news", "dbcc5f5b009df875"),
    ],
)
def test_settings_of_noisy_weights_are_as_they_were(dataset, expected):
    grid = itertools.product(NORMS, STDDEVS, ("all", "hidden", "mod"))
    assert digest(weight_noise_settings(dataset, *cell) for cell in grid) == expected


TABLES = {"mnist": published.TABLE5, "cifar10": published.TABLE6, "ag_news": published.TABLE7}
CELLS = [
    (dataset, model, norm, epsilon)
    for dataset, table in TABLES.items()
    for (model, norm), columns in table.items()
    for epsilon in columns
]


@pytest.mark.parametrize("dataset, model, norm, epsilon", CELLS)
def test_every_cell_of_the_paper_is_a_literal_column(dataset, model, norm, epsilon):
    row = ROWS.get((dataset, norm), ROWS[dataset, "others"])
    assert epsilon in row.columns
    settings = private_settings(dataset, model, norm, epsilon)
    for name, value in row.columns[epsilon].items():
        if name != "model_options" or model == OWN_NETWORKS[dataset]:
            assert settings[name] == value


@pytest.mark.parametrize("dataset", OWN_NETWORKS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_rule_for_other_epsilons_leads_to_a_column(dataset, epsilon):
    column = column_like(dataset, epsilon)
    assert all(column in row.columns for (name, _), row in ROWS.items() if name == dataset)


def test_the_settings_of_a_cell_can_be_changed_without_changing_the_table():
    settings = private_settings("digits", "lenet5", "layer", 3.0)
    settings["epochs"] = 1
    assert private_settings("digits", "lenet5", "layer", 3.0)["epochs"] == 40
