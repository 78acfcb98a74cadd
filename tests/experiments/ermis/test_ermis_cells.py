"""The cells of Ermis & Cemgil: what they train, what they say of it, and that they run."""

import dataclasses
import math

import numpy as np
import pytest

from tfdpnorm.experiments import registry
from tfdpnorm.experiments.ermis import cells as ermis
from tfdpnorm.experiments.ermis import published
from tfdpnorm.experiments.ermis.readings import NEAREST
from tfdpnorm.experiments.report import tables
from tfdpnorm.experiments.runs.data import load_experiment_data
from tfdpnorm.experiments.runs.optimizers import PowerDecay, make_optimizer
from tfdpnorm.experiments.sweep.runs import is_done

ERMIS = [name for name in registry.EXPERIMENTS if name.startswith("ermis")]


def test_there_are_the_table_and_the_figures():
    assert ERMIS == ["ermis_table1", *(f"ermis_figure{n}" for n in (1, 2, 4, 5))]
    assert registry.sources("ermis_figure1") == ("ermis_table1",)
    assert registry.sources("ermis_figure5") == ("ermis_figure5",)


@pytest.mark.parametrize("name", ERMIS)
def test_cells_have_names_of_their_own(name):
    specs = registry.cells(name)
    assert len({spec.cell for spec in specs}) == len(specs)
    assert {spec.kind for spec in specs} == {"variational"}


def test_the_figures_are_the_papers():
    found = {spec.cell: spec.paper_value for spec in registry.cells("ermis_table1")}
    assert found["digits-dpsgd/eps=1"] == 92.65
    assert found["digits-svi-zcdp/eps=0.1"] == found["digits-svi/eps=0.1"] == 87.12
    assert found["mnist-none/eps=inf"] == 97.8
    assert ermis.spec("mnist", "dpsgd", 1.0, hidden_units=500).paper_value is None
    assert ermis.spec("mnist", "dpsgd", 1.0, delta=1e-6).paper_value is None
    assert published.TABLE1["digits"]["dpvd-zcdp"][1.0] == 92.78


def test_each_layer_is_clipped_as_in_the_paper():
    """`make_private` divides C among the layers: two of them get 2 each."""
    spec = ermis.spec("mnist", "svi", 1.0)
    assert spec.clipping == "per_layer" and spec.l2_norm_clip == pytest.approx(2 * math.sqrt(2))
    assert ermis.spec("mnist", "dpsgd", 1.0).l2_norm_clip == 2


@pytest.mark.parametrize(
    "fields",
    [
        dict(method="none", epsilon=1.0),
        dict(method="dpsgd", epsilon=math.inf),
        dict(method="svi", epsilon=None, noise_multiplier=1.0, calibrated_by="zcdp"),
        dict(method="svi", epsilon=1.0, calibrated_by="rdp"),
        dict(method="dpsgd", epsilon=1.0, prior_stddev=1.0),
        dict(method="svi", epsilon=1.0, prior_stddev=1.0, optimizer="adam"),
        dict(method="svi", epsilon=1.0, learning_rate_round="step"),
        dict(method="svi", epsilon=1.0, learning_rate_power=-1.0),
    ],
)
def test_what_contradicts_itself_is_refused(fields):
    with pytest.raises(ValueError, match="^Expected "):
        ermis.spec("digits", **fields)


def test_the_learning_rate_falls_by_rounds():
    rate = PowerDecay(0.1, 1.5, 2.5)
    found = [float(rate(step)) for step in range(6)]
    rounds = np.array([1, 1, 1, 2, 2, 3])
    np.testing.assert_allclose(found, 0.1 / rounds**1.5, rtol=1e-6)
    paper = dict(learning_rate=0.05, learning_rate_schedule="power", expected_batch_size=100)
    spec = ermis.spec("digits", "svi", 1.0, prior_stddev=2.0, **paper)
    optimizer = make_optimizer(spec, 1437, 1437)
    assert optimizer.weight_decay == pytest.approx(1 / (4 * 1437))
    # The paper's: eta_0 / t, t counting passes of 14.37 updates.
    rates = [float(optimizer._learning_rate(step)) for step in (0, 14, 15, 29)]
    np.testing.assert_allclose(rates, [0.05, 0.05, 0.025, 0.05 / 3], rtol=1e-6)
    by_updates = make_optimizer(dataclasses.replace(spec, learning_rate_round="update"), 9, 1437)
    assert float(by_updates._learning_rate(4)) == pytest.approx(0.01)


def short(method, epsilon, **fields):
    return ermis.spec("digits", method, epsilon, steps=3, hidden_units=16, evaluations=1, **fields)


@pytest.mark.slow_cases("ac", "None")
@pytest.mark.parametrize("claimed_by", ["ac", "zcdp", None])
def test_a_claim_has_its_own_noise_and_the_true_epsilon(tmp_path, claimed_by):
    spec = short("svi", 1.0, calibrated_by=claimed_by, prior_stddev=3.0)
    said = []
    result = registry.run_cell(spec, output_dir=tmp_path, echo=said.append)
    record = result.record
    assert result.model.model.input_shape == (None, 8, 8, 1)
    assert record["kind"] == "variational" and is_done(spec, [record])
    if claimed_by is None:
        assert record["epsilon"] <= 1 and record["epsilon_claimed"] is None
    else:
        sigma = NEAREST.sigma(claimed_by, 1.0, record["sampling_rate"], 3)
        assert record["noise_multiplier"] == pytest.approx(2 * sigma)
        assert record["epsilon_claimed"] == 1 and record["epsilon"] != 1
        assert "no guarantee of that" in "".join(said)
    entry = tables.experiment_table([record], [])
    assert ("NOT A GUARANTEE" in entry) == (claimed_by is not None)


@pytest.mark.slow
def test_without_privacy():
    record = registry.run_cell(short("none", math.inf), echo=lambda line: None).record
    assert not record["guarantee_holds"] and record["epsilon"] == math.inf


def test_dpvd_is_to_come():
    with pytest.raises(ValueError, match="got 'dpvd', for which there is no run yet"):
        registry.run_cell(short("dpvd", 1.0), echo=lambda line: None)


def test_digits_are_64_numbers_here():
    data = load_experiment_data(short("dpsgd", 1.0))
    assert data.train_x.shape == (1437, 8, 8, 1) and 0.9 < data.train_x.max() <= 1
