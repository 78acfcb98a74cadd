"""The tables of Davody et al. (2020): every cell there, none invented, the figures of the paper."""

import pytest

from tfdpnorm import models
from trainers import registry as cells
from trainers.davody import cells as davody
from trainers.specs import NonPrivateSpec, PrivateSpec

INF = float("inf")

# Typed from the paper, apart from the module under test; "-" is "No-convergence".
STDDEVS = (0, 0.01, 0.1, 1, 2)
# Of its Section 2: the text has no figure for networks with normalisation.
SMALL_NOISE = 0.3
WEIGHT_NOISE = {
    "davody_table2": """
        lenet_300_100       98.20 97.70 96.98 -     -
        batch-lenet_300_100 98.20 98.10 98.07 98.07 98.13
        layer-lenet_300_100 98.04 98.00 98.08 98.04 98.03
        lenet5              99.20 98.94 98.40 -     -
        batch-lenet5        99.20 99.21 99.18 99.24 99.25
        layer-lenet5        99.16 99.14 99.13 99.21 99.19""",
    "davody_table3": """
        batch-resnet18-hidden 93.50 89.05 89.41 86.76 87.83
        batch-resnet18-mod    93.60 88.65 88.16 85.46 83.95
        batch-resnet18        93.55 93.59 93.46 92.72 92.10
        batch-vgg-hidden      91.21 88.89 84.59 63.12 -
        batch-vgg-mod         91.18 88.87 82.58 22.58 -
        batch-vgg             91.75 91.69 91.56 90.95 90.35""",
    "davody_table4": """
        bilstm       89.34 89.57 89.01 66.32 24.76
        layer-bilstm 89.34 88.87 88.62 85.74 82.41""",
}
PRIVATE = {
    "davody_table6": (
        (INF, 8, 4, 2),
        """
        none             80.0 73.0 70.0 67.0
        layer            80.0 73.3 70.6 67.0
        public_batch     80.0 74.1 71.2 69.8
        public_batch-vgg 80.7 79.5 79.1 77.4""",
    ),
    "davody_table7": (
        (INF, 7, 3, 1, 0.5, 0.1),
        """
        none  88.47 83.86 80.00 81.14 77.88 37.49
        layer 88.18 84.34 82.51 82.03 79.16 50.09""",
    ),
}


def typed(table, columns, prefix):
    rows = [line.split() for line in table.strip().splitlines()]
    return {
        f"{name}/{prefix}={column:g}": "no convergence" if value == "-" else float(value)
        for name, *values in rows
        for column, value in zip(columns, values, strict=True)
    }


@pytest.mark.parametrize("experiment", WEIGHT_NOISE)
def test_tables_of_weight_noise(experiment):
    specs = cells.cells(experiment)
    expected = typed(WEIGHT_NOISE[experiment], STDDEVS, "stddev")
    if experiment == "davody_table2":
        rows = dict.fromkeys(cell.split("/")[0] for cell in expected)
        for name in rows:
            never = None if "-" in name else "no convergence"
            expected[f"{name}/stddev={SMALL_NOISE:g}"] = never
    if experiment == "davody_table3":  # and ours, which are reduced less
        for less_reduced in ("24_epochs", "32_channels"):
            name = f"batch-resnet18-hidden-{less_reduced}/stddev=1"
            expected[name] = expected["batch-resnet18-hidden/stddev=1"]
    assert {spec.cell: spec.paper_value for spec in specs} == expected
    assert len(specs) == len(expected)
    for spec in specs:
        assert isinstance(spec, NonPrivateSpec) and spec.experiment == experiment
        assert spec.cell.endswith(f"/stddev={spec.weight_noise_stddev:g}")
        assert spec.cell.split("/")[0].split("-")[0] in (spec.norm, spec.model)


@pytest.mark.parametrize("experiment", PRIVATE)
def test_tables_of_private_training(experiment):
    epsilons, table = PRIVATE[experiment]
    specs = cells.cells(experiment)
    expected = typed(table, epsilons, "eps")
    text = {spec.cell: spec.paper_value for spec in specs if spec.network == "none-vgg"}
    if experiment == "davody_table6":  # Section 4: "it is not feasible to train such models"
        never = {f"none-vgg/eps={epsilon}": "not feasible" for epsilon in (8, 4, 2)}
        assert text == {"none-vgg/eps=inf": None, **never}
    theirs = [spec for spec in specs if "-no_views" not in spec.cell and spec.cell not in text]
    assert {spec.cell: spec.paper_value for spec in theirs} == expected
    assert len(theirs) == len(expected)
    for spec in specs:
        assert isinstance(spec, PrivateSpec) and spec.delta == 1e-5
        assert spec.cell.endswith(f"/eps={spec.epsilon:g}")
        assert spec.norm in spec.cell


@pytest.mark.parametrize("experiment", cells.EXPERIMENTS)
def test_names_are_one_to_one_and_options_are_the_models(experiment):
    specs = cells.cells(experiment)
    assert len({spec.cell for spec in specs}) == len(specs)
    assert {spec.seed for spec in specs} == {0}
    for name in {spec.run.model for spec in specs}:
        assert name in models.names() or name.endswith(".h5")  # an imported one


def test_unknown_experiments_are_rejected():
    with pytest.raises(ValueError, match="'davody_table2'.*got 'davody_table1'"):
        cells.cells("davody_table1")


def test_placements_are_cells_of_their_own():
    names = [
        davody.weight_noise_spec("cifar10", "batch", 1.0, norm_placement=placement).cell
        for placement in ("all", "hidden", "mod")
    ]
    expected = ["batch-resnet18", "batch-resnet18-hidden", "batch-resnet18-mod"]
    assert names == [f"{name}/stddev=1" for name in expected]


def test_no_paper_value_where_the_paper_has_none():
    assert davody.weight_noise_spec("mnist", "group", 1.0).paper_value is None
    assert davody.weight_noise_spec("mnist", "batch", 1.0, norm_placement="mod").paper_value is None
    assert davody.weight_noise_spec("mnist", "batch", 5.0).paper_value is None
