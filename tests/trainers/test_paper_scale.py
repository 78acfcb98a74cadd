"""`--scale=paper`: what a paper states takes the place of ours, and what is asked for stays."""

import pytest

from tfdpnorm.choices import AUTO
from trainers.davody import cells as davody
from trainers.ermis import cells as ermis
from trainers.klause import cells as klause
from trainers.klause.settings import EPOCHS, PAPER
from trainers.scale import at_scale


def at_both(make, *args, **settings):
    ours = make(*args, **settings)
    with at_scale("paper"):
        return ours, make(*args, **settings)


@pytest.mark.parametrize("model", ["resnet9", "wrn_16_4"])
def test_all_that_is_stated_is_the_papers(model):
    ours, theirs = at_both(klause.spec, "cifar10", model, 7.42)
    assert ours.reduced
    for name, value in PAPER[model].items():
        assert value is None or getattr(theirs, name) == value, name
    assert theirs.physical_batch_size == AUTO
    assert theirs.experiment == ours.experiment and theirs.cell == ours.cell


def test_full_paper_scale_is_not_called_reduced():
    _, theirs = at_both(klause.spec, "cifar10", "resnet9", 7.42)
    assert theirs.epochs == EPOCHS["cifar10"] and theirs.reduced == ""


def test_unstated_settings_stay_ours_and_are_named():
    ours, theirs = at_both(klause.spec, "cifar10", "wrn_16_4", 7.42)
    assert theirs.epochs == ours.epochs and "length of De et al." in theirs.reduced
    assert "the paper's; what it does not state is as in our own cell" in theirs.search


def test_given_settings_override_the_paper():
    settings = dict(epochs=3, learning_rate=0.25, physical_batch_size=7)
    _, theirs = at_both(klause.spec, "cifar10", "resnet9", 7.42, **settings)
    assert {name: getattr(theirs, name) for name in settings} == settings
    assert "epochs 3 for 50" in theirs.reduced


def test_updates_that_are_given_stay():
    _, theirs = at_both(klause.spec, "cifar10", "resnet9", 7.42, steps=5)
    assert theirs.steps == 5 and "updates 5 for 50 epochs" in theirs.reduced


def test_options_of_other_networks_are_left_alone():
    _, tutorial = at_both(davody.spec, "cifar10", "layer", 8.0)
    assert "width" not in dict(tutorial.model_options)
    _, vgg = at_both(davody.spec, "cifar10", "layer", 8.0, model="vgg")
    assert dict(vgg.model_options)["width"] == 64


def test_all_examples_are_taken():
    ours, theirs = at_both(davody.weight_noise_spec, "cifar10", "batch", 1.0)
    assert ours.max_examples and theirs.max_examples is None
    assert dict(theirs.model_options)["width"] == 64


def test_networks_of_words_stop_early_and_halve_their_rate():
    ours, theirs = at_both(davody.weight_noise_spec, "ag_news", "layer", 1.0)
    assert (ours.plateau, ours.early_stopping) == ("none", None)
    assert theirs.plateau == "validation" and theirs.early_stopping is not None
    assert (theirs.learning_rate_schedule, theirs.validation_examples) == ("constant", 24_000)
    _, longer = at_both(davody.weight_noise_spec, "ag_news", "layer", 1.0, early_stopping=9)
    assert longer.early_stopping == 9
    _, images = at_both(davody.weight_noise_spec, "cifar10", "batch", 1.0)
    assert (images.plateau, images.early_stopping) == ("none", None)


def test_scale_of_the_paper_on_variational_dropout():
    _, theirs = at_both(ermis.spec, "mnist", "dpvd", 1.0)
    assert (theirs.epochs, theirs.expected_batch_size, theirs.learning_rate) == (200, 600, 0.1)


def test_it_ends():
    with pytest.raises(ZeroDivisionError), at_scale("paper"):
        raise ZeroDivisionError
    assert klause.spec("cifar10", "resnet9", 7.42).reduced
