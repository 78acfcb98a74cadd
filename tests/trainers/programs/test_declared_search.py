"""What programs declare of the search for settings: a cell's own words, the user's, or nothing."""

import pytest

from trainers import common, registry
from trainers.davody import cells as davody
from trainers.ours import finetune_cells
from trainers.scale import at_scale

DAVODY = ("davody_dp", "--dataset=mnist", "--norm=layer", "--epsilon=3")
FINETUNE = ("finetune", "--model=mine.keras", "--epsilon=4")
KLAUSE = ("klause_scalenorm", "--scale_norm", "--epsilon=7.42")
ERMIS = ("ermis_variational_dropout", "--dataset=digits", "--method=dpsgd", "--epsilon=1")


@pytest.fixture
def search_of(main, monkeypatch):
    """Returns a function of a program's arguments -> what its run would say of its search."""
    specs = []

    def record(spec, **options):
        specs.append(spec)
        raise ValueError("not trained here")

    monkeypatch.setattr(registry, "run_cell", record)
    monkeypatch.setattr(common, "check_datasets", lambda spec: None)

    def said(*arguments):
        assert "not trained here" in main(*arguments).err
        return specs[-1].search

    return said


def own_words(experiment, cell):
    return next(spec.search for spec in registry.cells(experiment) if spec.cell == cell)


@pytest.mark.parametrize(
    "program, experiment, cell",
    [
        (DAVODY, "davody_table5", "layer/eps=3"),
        (KLAUSE, "klause_table1", "cifar10-resnet9-scale_norm/eps=7.42"),
        (ERMIS, "ermis_table1", "digits-dpsgd/eps=1"),
    ],
    ids=["davody", "klause", "ermis"],
)
def test_a_cell_with_its_own_settings_says_how_these_were_found(
    search_of, program, experiment, cell
):
    said = search_of(*program, "--seed=3", "--physical_batch_size=64")
    assert said == own_words(experiment, cell) and said


def test_a_cell_at_the_papers_scale_says_so(search_of):
    with at_scale("paper"):
        known = davody.spec("mnist", "layer", 3.0).search
    assert search_of(*DAVODY, "--scale=paper") == known != davody.spec("mnist", "layer", 3.0).search


@pytest.mark.parametrize(
    "flag", ["--max_examples=999", "--expected_batch_size=77", "--epochs=3", "--epsilon=2.5"]
)
def test_a_cell_with_the_users_settings_says_nothing(search_of, flag):
    assert search_of(*DAVODY, flag) is None
    assert search_of(*DAVODY, flag, "--search=the best of 20") == "the best of 20"


@pytest.mark.parametrize("dataset", ["photos/", "cifar10"])
def test_fine_tuning_of_ones_own_model_says_what_the_user_says(search_of, dataset):
    assert search_of(*FINETUNE, f"--dataset={dataset}") is None
    assert search_of(*FINETUNE, f"--dataset={dataset}", "--search=none") == "none"
    assert finetune_cells.spec("photos/", 4, model="mine.keras").search is None


def test_every_cell_of_a_table_has_words_of_its_own():
    for experiment in registry.EXPERIMENTS:
        assert all(spec.run.search for spec in registry.cells(experiment))
