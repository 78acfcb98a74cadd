"""The cells of Ermis & Cemgil: what they train, what they say of it, and that they run."""

import dataclasses
import math

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm.privacy.accountants import dp_sgd_event, epsilon_of
from tfdpnorm.privacy.rounding import ceil_text
from trainers import registry
from trainers.ermis import cells as ermis
from trainers.ermis import plots as variational
from trainers.ermis.readings import NEAREST
from trainers.report import tables
from trainers.runs.optimizers import PowerDecay, make_optimizer
from trainers.sweeps.runs import is_done


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
    assert record["kind"] == "private" and is_done(spec, [record])
    if claimed_by is None:
        assert record["epsilon"] <= 1 and record["epsilon_claimed"] is None
    else:
        sigma = NEAREST.sigma(claimed_by, 1.0, record["sampling_rate"], 3)
        assert record["noise_multiplier"] == pytest.approx(2 * sigma)
        assert record["epsilon_claimed"] == 1 and record["epsilon"] != 1
        assert "no guarantee of that" in "".join(said)
    draw = variational.PLOTS["ermis_table1"]
    plot = draw([record], tmp_path / "a.png", "Table 1", [record["network"]])
    assert plot.stat().st_size > 10_000
    entry = tables.experiment_table([record], [])
    assert ("NOT A GUARANTEE" in entry) == (claimed_by is not None)
    assert (f"epsilon {ceil_text(record['epsilon'])} spent (rdp)" in entry) == bool(claimed_by)


def test_dpvd_as_printed_guarantees_nothing(tmp_path):
    spec = ermis.spec(
        "digits",
        "dpvd",
        1.0,
        calibrated_by="zcdp",
        reading="as_printed",
        epochs=1,
        expected_batch_size=479,
        hidden_units=16,
    )
    said = []
    record = registry.run_cell(
        spec, output_dir=tmp_path, run_dir=tmp_path / "run", echo=said.append
    ).record
    assert not (tmp_path / "run").exists()
    assert record["kind"] == "private" and is_done(spec, [record])
    assert not record["guarantee_holds"] and record["epsilon_claimed"] == 1
    assert record["epsilon"] == record["epsilon_rdp"] == record["epsilon_pld"] == math.inf
    because, beside = record["no_guarantee_because"]
    assert because.startswith("NO GUARANTEE") and "claims epsilon = 1.0" in because
    # What DP-SGD with 2 C sigma spends where each of two layers is clipped to C.
    sigma = NEAREST.sigma("zcdp", 1.0, 479 / 1437, 3)
    event = dp_sgd_event(479 / 1437, math.sqrt(2) * sigma, 3)
    assert record["noise_multiplier"] == pytest.approx(math.sqrt(2) * sigma)
    assert f"would spend epsilon {ceil_text(epsilon_of(event, 1e-5, 'rdp'))} (RDP)" in beside
    assert "NO GUARANTEE" in said[0] and "NO GUARANTEE" in said[-2]
    entry = tables.experiment_table([record], [])
    assert "NOT A GUARANTEE" in entry and "spent" not in entry


# --- what the paper names beside its table ---


@pytest.mark.parametrize("kind", ["dropout", "gaussian_dropout"])
def test_dropout_multiplies_the_inputs_of_each_layer(kind):
    """By noise of the rate, with the guarantee of DP-SGD, and none in testing."""
    spec = short(kind, 1.0, dropout_rate=0.3)
    result = registry.run_cell(spec, echo=lambda line: None)
    record, network = result.record, result.model.model
    assert record["guarantee_holds"] and 0.9 < record["epsilon"] <= 1 and is_done(spec, [record])
    of_kind = keras.layers.Dropout if kind == "dropout" else keras.layers.GaussianDropout
    for name in ("dense1", "logits"):
        layer = network.get_layer(f"{name}_dropout")
        assert type(layer) is of_kind and layer.rate == 0.3
        assert network.get_layer(name).input is layer.output
    x = np.random.default_rng(0).random((4, 8, 8, 1), np.float32)
    assert np.array_equal(network(x), network(x))
    assert not np.array_equal(network(x, training=True), network(x, training=True))


def test_the_bound_on_alpha_reaches_the_layers():
    result = registry.run_cell(short("dpvd", 1.0, max_alpha=1.0), echo=lambda line: None)
    layers = [result.model.model.get_layer(name) for name in ("dense1", "logits")]
    assert [layer.max_alpha for layer in layers] == [1, 1]
    assert max(float(np.max(layer.log_alpha())) for layer in layers) <= 1e-6
