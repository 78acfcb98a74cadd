"""The specs of Davody et al. (2020): the paper's numbers in their places, flags over settings."""

import pytest

from tfdpnorm import models
from trainers.davody import cells as davody

INF = float("inf")

# Typed from the paper's Table 5, apart from the module under test.
PAPER = {
    ("none", INF): 99.20,
    ("none", 7): 97.01,
    ("none", 3): 96.34,
    ("none", 1): 94.11,
    ("none", 0.5): 91.10,
    ("none", 0.1): 83.00,
    ("none", 0.05): 78.96,
    ("layer", INF): 99.20,
    ("layer", 7): 97.35,
    ("layer", 3): 97.05,
    ("layer", 1): 96.68,
    ("layer", 0.5): 94.81,
    ("layer", 0.1): 87.45,
    ("layer", 0.05): 75.76,
    ("public_batch", INF): 99.20,
    ("public_batch", 7): 98.68,
    ("public_batch", 3): 98.18,
    ("public_batch", 1): 97.61,
    ("public_batch", 0.5): 96.83,
    ("public_batch", 0.1): 90.68,
    ("public_batch", 0.05): 88.15,
}


@pytest.mark.parametrize("norm, epsilon", list(PAPER))
def test_paper_values_of_table_5(norm, epsilon):
    spec = davody.spec("mnist", norm, float(epsilon))
    assert spec.paper_value == PAPER[norm, epsilon]
    assert (spec.experiment, spec.dataset, spec.norm) == ("davody_table5", "mnist", norm)
    assert (spec.epsilon, spec.delta, spec.noise_multiplier) == (epsilon, 1e-5, None)


@pytest.mark.parametrize("epsilon", [INF, 1.0, 0.05])
def test_other_networks_get_no_options_of_lenet5(epsilon):
    spec = davody.spec("mnist", "public_batch", epsilon, model="mlp")
    known = models.options("mlp")
    assert all(name in known for name, _ in spec.model_options)


def test_no_cell_of_table_5_is_missing_or_invented():
    ours = [
        (spec.norm, spec.epsilon)
        for spec in davody.private_cells("mnist")
        if "-no_views" not in spec.cell
    ]
    assert len(ours) == len(set(ours)) and set(ours) == set(PAPER)


@pytest.mark.parametrize(
    "fields",
    [
        dict(dataset="digits", norm="public_batch", epsilon=1.0),
        dict(dataset="mnist", norm="group", epsilon=1.0),
        dict(dataset="mnist", norm="public_batch", epsilon=2.0),
        dict(dataset="mnist", norm="public_batch", noise_multiplier=1.0),
        dict(dataset="mnist", norm="public_batch", epsilon=1.0, delta=1e-3),
        dict(dataset="mnist", norm="public_batch", epsilon=1.0, held_out=5_000),
    ],
    ids=[
        "another set",
        "another norm",
        "another epsilon",
        "no epsilon",
        "another delta",
        "held out",
    ],
)
def test_no_paper_value_where_the_paper_has_none(fields):
    assert davody.spec(**fields).paper_value is None


@pytest.mark.parametrize(
    "norm, fields, cell",
    [
        ("public_batch", {"epsilon": 1.0}, "public_batch/eps=1"),
        ("none", {"epsilon": 0.05}, "none/eps=0.05"),
        ("layer", {"epsilon": INF}, "layer/eps=inf"),
        ("group", {"noise_multiplier": 1.25}, "group/z=1.25"),
        ("none", {"noise_multiplier": 0.0}, "none/z=0"),
        ("public_batch", {"epsilon": 3.0, "statistics": "lot"}, "public_batch-lot/eps=3"),
        (
            "public_batch",
            {"epsilon": 3.0, "statistics_gradient": "stop"},
            "public_batch-stop/eps=3",
        ),
    ],
)
def test_cell_names(norm, fields, cell):
    assert davody.spec("mnist", norm, **fields).cell == cell


def test_a_cell_says_where_its_normalisation_is_if_not_where_ours_is():
    ours = davody.spec("mnist", "layer", 1.0)
    assert davody.spec("mnist", "layer", 1.0, norm_placement="hidden") == ours
    papers = davody.spec("mnist", "layer", 1.0, norm_placement="all")
    assert papers.cell == "layer-all/eps=1"
    assert set(papers.model_options) - set(ours.model_options) == {("norm_placement", "all")}
    # The paper's own networks, so its figure; it has no private network with prefix -mod.
    assert papers.paper_value == ours.paper_value
    assert davody.spec("mnist", "layer", 1.0, norm_placement="mod").paper_value is None
    with pytest.raises(ValueError, match="norm_placement='all', got norm='none'"):
        davody.spec("mnist", "none", 1.0, norm_placement="all")


def test_logits_are_normalised_where_a_cell_says_so():
    def names(placement):
        spec = davody.spec("mnist", "public_batch", 1.0, norm_placement=placement)
        network = models.build("lenet5", norm=spec.norm, **dict(spec.model_options))
        return {layer.name for layer in network.layers}

    added = {name for name in names("all") - names("hidden") if name.startswith("logits")}
    assert added == {"logits_centering", "logits_norm"}


def test_the_papers_own_cells_differ_from_ours_in_what_they_say():
    for spec in davody.papers_own_cells():
        ours = davody.spec("mnist", spec.norm, spec.epsilon)
        assert spec.paper_value == ours.paper_value == PAPER[spec.norm, spec.epsilon]
        if spec.norm == "public_batch":
            assert (spec.public_batch_size, spec.augmentation_multiplicity) == (128, 1)
            assert "public rows" not in spec.reduced and "views" not in spec.reduced
        placed = dict(spec.model_options).get("norm_placement", "hidden")
        assert spec.network.endswith("-all") == (placed == "all")


def test_flags_go_over_settings_and_none_leaves_them():
    ours = davody.spec("mnist", "public_batch", 1.0)
    other = davody.spec(
        "mnist",
        "public_batch",
        1.0,
        expected_batch_size=ours.expected_batch_size + 1,
        learning_rate=ours.learning_rate + 1,
        public_batch_size=ours.public_batch_size + 1,
        public_dataset="split",
        engine=None,
        epochs=None,
    )
    assert other.expected_batch_size == ours.expected_batch_size + 1
    assert other.learning_rate == ours.learning_rate + 1
    assert other.public_batch_size == ours.public_batch_size + 1
    assert other.public_dataset == "split"
    assert (other.engine, other.epochs) == (ours.engine, ours.epochs)


@pytest.mark.parametrize("dataset", ["mnist", "digits"])
def test_steps_take_the_place_of_epochs(dataset):
    spec = davody.spec(dataset, "none", 1.0, steps=7)
    assert (spec.steps, spec.epochs, spec.updates(60_000)) == (7, None, 7)
    with pytest.raises(ValueError, match="epochs and steps"):
        davody.spec(dataset, "none", 1.0, steps=7, epochs=1.0)


def test_both_epsilon_and_noise_are_rejected():
    with pytest.raises(ValueError, match="epsilon and noise_multiplier"):
        davody.spec("mnist", "none", 1.0, noise_multiplier=1.0)
    with pytest.raises(ValueError, match="got neither"):
        davody.spec("mnist", "none")


def test_unknown_datasets_and_settings_are_rejected():
    with pytest.raises(ValueError, match="'mnist', .*'digits'.*got 'imagenet'"):
        davody.spec("imagenet", "none", 1.0)
    with pytest.raises(TypeError, match="learning_rat"):
        davody.spec("mnist", "none", 1.0, learning_rat=1.0)


def test_digits_split_their_public_rows_off():
    assert davody.spec("digits", "public_batch", 3.0).public_dataset == "split"
    assert davody.spec("mnist", "public_batch", 3.0).public_dataset == "kmnist"


@pytest.mark.slow_cases("noised_batch", "group", "none", "public_batch")
@pytest.mark.parametrize("norm", ["none", "layer", "group", "public_batch", "noised_batch"])
def test_the_network_of_words_can_be_built(norm):
    """Word vectors are normalised by layer, as each layer of the paper's network is."""
    spec = davody.spec("ag_news", norm, 3.0)
    model = models.build("bilstm", norm=norm, groups=4, **dict(spec.model_options))
    assert ("embedding_norm" in {x.name for x in model.layers}) == (norm == "layer")
    noisy = davody.weight_noise_spec("ag_news", "layer", 1.0)
    assert ("normalize_embedding", True) in noisy.model_options
