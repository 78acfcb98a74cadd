"""The specs of Davody et al. (2020): the paper's numbers in their places, flags over settings."""

import pytest

from tfdpnorm import models
from trainers.davody import cells as davody


def test_logits_are_normalised_where_a_cell_says_so():
    def names(placement):
        spec = davody.spec("mnist", "public_batch", 1.0, norm_placement=placement)
        network = models.build("lenet5", norm=spec.norm, **dict(spec.model_options))
        return {layer.name for layer in network.layers}

    added = {name for name in names("all") - names("hidden") if name.startswith("logits")}
    assert added == {"logits_centering", "logits_norm"}


@pytest.mark.slow_cases("noised_batch", "group", "none", "public_batch")
@pytest.mark.parametrize("norm", ["none", "layer", "group", "public_batch", "noised_batch"])
def test_the_network_of_words_can_be_built(norm):
    """Word vectors are normalised by layer, as each layer of the paper's network is."""
    spec = davody.spec("ag_news", norm, 3.0)
    model = models.build("bilstm", norm=norm, groups=4, **dict(spec.model_options))
    assert ("embedding_norm" in {x.name for x in model.layers}) == (norm == "layer")
    noisy = davody.weight_noise_spec("ag_news", "layer", 1.0)
    assert ("normalize_embedding", True) in noisy.model_options
