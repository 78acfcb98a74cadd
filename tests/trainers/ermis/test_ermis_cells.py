"""The cells of Ermis & Cemgil: what they train, what they say of it, and that they run."""

import dataclasses
import math
import types

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm.data import match_images
from tfdpnorm.layers import VariationalDropoutDense
from tfdpnorm.privacy.accountants import dp_sgd_event, epsilon_of
from tfdpnorm.privacy.rounding import ceil_text
from trainers import registry
from trainers.ermis import cells as ermis
from trainers.ermis import plots as variational
from trainers.ermis import published
from trainers.ermis.readings import NEAREST
from trainers.report import tables
from trainers.runs.data import load_experiment_data
from trainers.runs.optimizers import PowerDecay, make_optimizer
from trainers.runs.private import calibrated_to
from trainers.sweeps.runs import is_done

ERMIS = [name for name in registry.EXPERIMENTS if name.startswith("ermis")]


def test_there_are_the_table_and_the_figures():
    assert ERMIS == [
        "ermis_table1",
        *(f"ermis_figure{n}" for n in (1, 2, 4, 5)),
        "ermis_settings",
    ]
    assert registry.sources("ermis_figure1") == ("ermis_table1",)
    assert registry.sources("ermis_figure5") == ("ermis_figure5",)


@pytest.mark.parametrize("name", ERMIS)
def test_cells_have_names_of_their_own(name):
    specs = registry.cells(name)
    assert len({spec.cell for spec in specs}) == len(specs)
    assert {spec.kind for spec in specs} == {"private"}


def test_the_figures_are_the_papers():
    found = {spec.cell: spec.paper_value for spec in registry.cells("ermis_table1")}
    assert found["digits-dpsgd/eps=1"] == 92.65
    assert found["digits-svi-zcdp/eps=0.1"] == found["digits-svi/eps=0.1"] == 87.12
    assert found["mnist-none/eps=inf"] == 97.8
    assert found["digits-dpvd-as_printed-ac/eps=10"] == found["digits-dpvd-ac/eps=10"] == 93.61
    assert found["mnist-dpvd/eps=1"] == 93.27
    others = {name: value for name, value in found.items() if "_features" in name}
    assert len(others) == 29 and set(others.values()) == {None}
    assert ermis.spec("mnist", "dpsgd", 1.0, hidden_units=500).paper_value is None
    assert ermis.spec("mnist", "dpsgd", 1.0, delta=1e-6).paper_value is None
    assert ermis.spec("mnist", "dpsgd", 1.0, held_out=5_000).paper_value is None
    assert published.TABLE1["digits"]["dpvd-zcdp"][1.0] == 92.78


def test_figure_5_varies_one_setting_of_the_papers():
    specs = {(s.network, float(s.column.partition("=")[2])): s for s in ermis.figure5_cells()}
    assert len(specs) == 19
    base = specs["clip_of_a_layer", 2.0]
    assert base.expected_batch_size == 600 and base.epochs == 2 and base.epsilon == 1
    assert base.l2_norm_clip == pytest.approx(2 * math.sqrt(2)) and base.clipping == "per_layer"
    assert specs["clip_of_a_layer", 6.0].l2_norm_clip == pytest.approx(6 * math.sqrt(2))
    assert [v for n, v in specs if n == "epochs"] == [0.5, 1, 2, 4]
    assert dict(specs["hidden_units", 500.0].model_options) == {"hidden_units": (500,)}
    for (name, value), spec in specs.items():
        assert "passes for 200" in spec.reduced and spec.paper_value is None
        field = {"hidden_units": "model_options", "clip_of_a_layer": "l2_norm_clip"}.get(name, name)
        others = {field, "network", "column"}
        for one in dataclasses.fields(spec):
            same = getattr(spec, one.name) == getattr(base, one.name)
            assert same or one.name in others, (name, value, one.name)


def test_each_layer_is_clipped_as_in_the_paper():
    """`make_private` divides C among the layers: two of them get 2 each."""
    spec = ermis.spec("mnist", "svi", noise_multiplier=1.0)
    assert spec.clipping == "per_layer" and spec.l2_norm_clip == pytest.approx(2 * math.sqrt(2))
    assert ermis.spec("mnist", "dpsgd", noise_multiplier=1.0).l2_norm_clip == 2


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
        dict(method="svi", epsilon=1.0, kl_weight=0.1),
        dict(method="dpvd", epsilon=1.0, momentum=0.9),
        dict(method="dpvd", epsilon=1.0, optimizer="adam"),
        dict(method="dpvd", epsilon=1.0, reading="loose"),
        dict(method="dpvd", epsilon=1.0, model="lenet5"),
        dict(method="dpvd", epsilon=1.0, pretraining_dataset="mnist"),
        dict(method="dpvd", epsilon=1.0, model="small_cnn", pretraining_dataset="digits"),
        dict(method="dpvd", epsilon=1.0, model="random_features", hidden_units=500),
    ],
)
def test_what_contradicts_itself_is_rejected(fields):
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


@pytest.mark.parametrize("epsilon, drawn_rows", [(1.0, 1), (math.inf, 0)])
def test_rows_that_the_paper_has_not_are_drawn(make_record, drawn, tmp_path, epsilon, drawn_rows):
    """Also where nothing has a finite epsilon: the plot of such a table is no failure."""
    own = make_record(cell=f"digits-svi-16_units/eps={epsilon:g}", epsilon_target=epsilon)
    networks = registry.networks("ermis_table1")
    variational.PLOTS["ermis_table1"]([own], tmp_path / "a.png", "Table 1", networks)
    (axes,) = drawn
    assert axes.get_title("left") == drawn_rows * "DIGITS: the paper's network"
    assert axes.get_legend_handles_labels()[1] == drawn_rows * ["svi-16_units"]


@pytest.mark.slow
def test_without_privacy():
    record = registry.run_cell(short("none", math.inf), echo=lambda line: None).record
    assert not record["guarantee_holds"] and record["epsilon"] == math.inf


@pytest.mark.slow
def test_sound_dpvd_has_the_noise_of_its_updates(tmp_path):
    """Each layer clipped by itself, the guarantee that of DP-SGD, the divergence over N."""
    spec = short("dpvd", 1.0, kl_weight=0.5, clipping="per_layer", l2_norm_clip=2.8)
    result = registry.run_cell(spec, output_dir=tmp_path, echo=lambda line: None)
    record, network = result.record, result.model.model
    assert record["guarantee_holds"] and 0.9 < record["epsilon"] <= 1
    assert record["epsilon_claimed"] is None and is_done(spec, [record])
    rate = 0.3 * (1 - 2 / 3)  # that of the third update of three, falling linearly
    expected = rate * record["noise_multiplier"] * 2.8 / record["expected_batch_size"]
    for name in ("dense1", "logits"):
        layer = network.get_layer(name)
        assert isinstance(layer, VariationalDropoutDense)
        assert float(layer.noise_stddev) == pytest.approx(expected, rel=1e-5)
        assert (layer.num_examples, layer.kl_weight) == (1437, 0.5)


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


@pytest.mark.parametrize(
    "fields",
    [
        dict(method="svi", calibrated_by="zcdp"),
        dict(method="dpvd"),
        dict(method="dpvd", calibrated_by="ac", learning_rate_schedule="linear"),
        dict(method="dpvd", calibrated_by="ac", clipping="flat"),
        dict(method="dpvd", calibrated_by="ac", learning_rate_round="epoch"),
    ],
)
def test_what_is_not_as_printed_is_rejected(fields):
    with pytest.raises(ValueError, match="^Expected .*as printed"):
        ermis.spec("digits", epsilon=1.0, reading="as_printed", **fields)


def test_the_same_care_for_each_method():
    """Valid rows of one network differ in the method, and in nothing that is tuned."""
    for model in ("mlp", "random_features", "small_cnn"):
        for epsilon in (10.0, 1.0, 0.1):
            rows = [ermis.spec("digits", m, epsilon, model=model) for m in ("dpvd", "svi", "dpsgd")]
            for name in ("learning_rate", "epochs", "steps", "expected_batch_size", "accountant"):
                assert len({getattr(row, name) for row in rows}) == 1


def test_rows_with_public_data_say_so():
    found = [spec for spec in registry.cells("ermis_table1") if spec.pretraining_dataset]
    assert len(found) == 9 and {spec.dataset for spec in found} == {"digits"}
    for spec in found:
        assert spec.network.endswith("-public_features")
        assert spec.pretraining_dataset == "mnist" and "MNIST, which is public" in spec.search


@pytest.mark.parametrize("model", ["mlp", "random_features"])
def test_digits_are_64_numbers_here(model):
    data = load_experiment_data(ermis.spec("digits", "dpsgd", 1.0, model=model))
    assert data.train_x.shape == (1437, 8, 8, 1) and 0.9 < data.train_x.max() <= 1


def test_images_of_a_known_set_are_brought_to_a_size():
    whole = load_experiment_data(ermis.spec("digits", "dpsgd", 1.0))
    small = load_experiment_data(ermis.spec("digits", "dpsgd", 1.0, image_size=4))
    for name in ("train_x", "test_x"):
        expected = match_images(getattr(whole, name), (4, 4, 1))
        np.testing.assert_array_equal(getattr(small, name), expected)


def test_a_claim_is_named_as_the_target_that_was_asked_for():
    spec = types.SimpleNamespace(calibrated_by="zcdp", epsilon=0.1)
    assert "which claims epsilon 0.1: no guarantee" in calibrated_to(spec)


# --- what the paper names beside its table ---


def test_settings_beside_the_table_change_one_thing_each():
    cells = {spec.cell: spec for spec in registry.cells("ermis_settings")}
    assert len(cells) == 21
    assert registry.sources("ermis_settings") == ("ermis_table1", "ermis_settings")
    table = {spec.cell: spec for spec in registry.cells("ermis_table1")}
    allowed = {"experiment", "network", "paper_value"}
    for name, changed in (
        ("digits-dpvd-kl_weight_1/eps=10", {"kl_weight"}),
        ("digits-dpvd-max_alpha_1/eps=0.1", {"max_alpha"}),
        ("digits-dpvd-delta_0.01/eps=1", {"delta"}),
        ("digits-dropout/eps=1", {"method"}),
        ("digits-gaussian_dropout/eps=1", {"method"}),
    ):
        one = cells[name]
        method = "dpvd" if "dpvd" in name else "dpsgd"
        other = table[f"digits-{method}/{one.column}"]
        fields = {f.name for f in dataclasses.fields(one)}
        found = {f for f in fields if getattr(one, f) != getattr(other, f)}
        assert found - allowed - {"reduced"} == changed, name
        assert one.paper_value is None


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


@pytest.mark.parametrize(
    "fields",
    [
        dict(method="dropout", model="random_features"),
        dict(method="dropout", dropout_rate=1.0),
        dict(method="gaussian_dropout", dropout_rate=0.0),
        dict(method="svi", max_alpha=1.0),
        dict(method="dpvd", max_alpha=0.0),
        dict(method="dpvd", max_alpha=1.0, calibrated_by="ac", reading="as_printed"),
    ],
)
def test_what_does_not_go_together_is_rejected(fields):
    with pytest.raises(ValueError, match="^Expected "):
        ermis.spec("digits", epsilon=1.0, **fields)
