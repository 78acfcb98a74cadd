"""Searches over the papers' cells: what is tried, what the record says, what is rejected."""

import json

import pytest

from tfdpnorm.privacy.search import SearchPlan
from trainers import registry
from trainers.ermis import cells as ermis
from trainers.records.store import read_records
from trainers.report import searches, tables
from trainers.searches.space import grids, trial_spec
from trainers.specs import NonPrivateSpec, PrivateSpec, search_spec
from trainers.sweeps.runs import is_done

OVER = "learning_rate=0.5:1,l2_norm_clip=1"


@pytest.fixture
def searched(tiny_spec):
    """Returns a function that makes the spec of a search over a tiny cell."""

    def make(**changes):
        settings = {"over": OVER, "score_examples": 16, "expected_trials": 2.0, **changes}
        # Lots of all examples: their divergences are known at once.
        cell = tiny_spec(epsilon=3.0, model="mlp", norm="layer", expected_batch_size=48)
        return search_spec(cell, **settings)

    return make


def test_grids(searched):
    spec = searched(over="learning_rate=0.5:1, norm=layer:group,views,groups=4")
    assert grids(spec) == {
        "learning_rate": (0.5, 1.0),
        "norm": ("layer", "group"),
        "views": (1, 5, 9),
        "groups": (4,),
    }
    own = grids(searched(over="learning_rate,expected_batch_size"))
    assert spec.run.learning_rate in own["learning_rate"] and len(own["learning_rate"]) == 5
    assert spec.run.expected_batch_size in own["expected_batch_size"]
    all_names = searched(over="learning_rate,l2_norm_clip,expected_batch_size,groups,norm,views")
    assert grids(all_names, num_examples=48)["expected_batch_size"] == (24, 48)
    assert all(value == float(f"{value:.6g}") for value in grids(all_names)["learning_rate"])


@pytest.mark.parametrize(
    "over, message",
    [
        ("", "a name in over"),
        ("epsilon", "a name in over"),
        ("norm,norm", "once"),
        ("learning_rate=fast", "such as learning_rate="),
        ("views=2.5", "such as views=1"),
    ],
)
def test_settings_that_cannot_be_searched_are_rejected(searched, over, message):
    with pytest.raises(ValueError, match=message):
        grids(searched(over=over))


def test_the_spec_of_a_trial(searched):
    spec = searched(over="norm,groups,views")
    chosen = dict(norm="group", groups=4, views=5)
    made = trial_spec(spec.run, chosen, epsilon=None, noise_multiplier=2.0)
    assert type(made) is PrivateSpec and made.norm == "group" and made.epsilon is None
    assert dict(made.model_options)["groups"] == 4 and made.augmentation_multiplicity == 5


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(epsilon=float("inf")), "finite epsilon"),
        (dict(epsilon=None, noise_multiplier=1.0), "finite epsilon"),
        (dict(accountant="pld"), 'accountant="rdp"'),
        (dict(plateau="private"), "plateau="),
        (dict(tuner="grid"), "tuner"),
        (dict(tuner="random"), "tuner of a private run to be one of 'private_random', 'bayesian'"),
    ],
)
def test_cells_that_cannot_be_searched(searched, changes, message):
    with pytest.raises(ValueError, match=message):
        searched(**changes)


def test_cells_without_privacy_have_no_budget():
    (cell,) = registry.cells("davody_table2")[:1]
    spec = search_spec(cell, over="learning_rate,expected_batch_size=64,norm")
    assert spec.kind == "search" and spec.tuner == "random"
    assert "no epsilon holds" in spec.run.search and spec.run.column == cell.column
    assert grids(spec)["norm"] == ("none", "layer", "group", "batch")
    made = trial_spec(spec.run, dict(expected_batch_size=64, norm="none"))
    assert made.batch_size == 64
    for settings in (dict(epsilon=3.0), dict(distribution="geometric")):
        with pytest.raises(ValueError, match="Leave them out"):
            search_spec(cell, over="learning_rate", **settings)
    with pytest.raises(ValueError, match="tuner"):
        search_spec(cell, over="learning_rate", tuner="private_random")
    with pytest.raises(ValueError, match="without privacy"):
        grids(search_spec(cell, over="l2_norm_clip"))


def test_cells_whose_epsilon_does_not_hold_are_rejected():
    printed = [c for c in registry.cells("ermis_table1") if c.variational.reading == "as_printed"]
    with pytest.raises(ValueError, match="a valid epsilon"):
        search_spec(printed[0], over="learning_rate")
    claimed = ermis.spec("digits", "svi", 1.0, calibrated_by="zcdp")
    with pytest.raises(ValueError, match="a valid epsilon"):
        search_spec(claimed, over="learning_rate")


@pytest.mark.slow_cases("bayesian")
@pytest.mark.parametrize("tuner", ["private_random", "bayesian"])
def test_a_search_has_a_record_of_the_common_kind(
    searched, tiny_data, tmp_path, monkeypatch, tuner
):
    monkeypatch.setattr(SearchPlan, "draw", lambda self, rng: 2)
    spec = searched(tuner=tuner, recorded_trials="all")
    model_file = tmp_path / "winner.keras"
    places = {"output_dir": tmp_path, "run_dir": tmp_path / "run", "model_file": model_file}
    lines = []
    result = registry.run_cell(spec, data=tiny_data, resume=True, echo=lines.append, **places)
    spent = "as many trials as are expected (2), all released, "
    assert any(spent in line and line.endswith("all three by Renyi DP") for line in lines)
    said = model_file.with_suffix(".txt").read_text()
    assert model_file.exists() and said == result.model.privacy_statement() + "\n"
    (record,) = read_records(tmp_path)
    assert record["kind"] == "search" and record["guarantee_holds"] and is_done(spec, [record])
    assert 2.8 < record["epsilon"] == record["epsilon_rdp"] <= record["epsilon_target"] == 3
    assert record["epsilon_pld"] is None
    assert record["epsilon_of_a_trial"] < record["epsilon"]
    assert record["epsilon_validation"] <= 3 and record["num_examples"] == 64 - 16
    assert "16 training examples left out" in record["scale"]
    folder = tmp_path / "run" / "search"
    noted = [json.loads(path.read_text()) for path in folder.rglob("measured.json")]
    assert len(noted) == 2 and all(each["epsilon_pld"] is None for each in noted)
    assert not list(folder.glob("winner/**/measured.json"))
    rows = record["trials"]["rows"]
    assert len(rows) == 2 and [row["is_winner"] for row in rows] == [True, False]
    is_private = tuner == "private_random"
    assert [row["not_for_release"] for row in rows] == [False, is_private]
    assert ("Not for release" in record["trials"]["note"]) == is_private
    assert record["test_accuracy"] == rows[0]["test_accuracy"]
    assert result.model.ledger.epsilon() == record["epsilon"]
    assert "search that it is part of" in result.model.privacy_statement()
    assert record["statement"]["run"] == result.model.ledger.run_id
    stated = result.record["statement"]["search"]
    assert stated == result.model.ledger.state.search.entry()
    assert record["statement"]["search_before"] == spec.run.search
    text = searches.trials_table(record) + searches.searches_table([record])
    assert ("NOT FOR RELEASE" in text) == is_private and "the winner" in text
    assert tables.experiment_table([record])
    assert searches.plot_searches([record], tmp_path / "plot.png", "title").exists()


def test_a_search_without_privacy(tiny_data, tmp_path):
    cell = NonPrivateSpec(
        experiment="davody_table2",
        network="mlp",
        column="stddev=0.1",
        dataset="digits",
        model="mlp",
        norm="layer",
        batch_size=16,
        epochs=2,
        weight_noise_stddev=0.1,
    )
    more = dict(score_examples=16, expected_trials=2.0, recorded_trials="all")
    spec = search_spec(cell, over="learning_rate=0.001:0.1", **more)
    places = {"output_dir": tmp_path, "run_dir": tmp_path / "run"}
    result = registry.run_cell(spec, data=tiny_data, resume=True, **places)
    (record,) = read_records(tmp_path)
    assert not record["guarantee_holds"] and record["epsilon"] == float("inf")
    rows = record["trials"]["rows"]
    assert len(rows) == 2 and not any(row["not_for_release"] for row in rows)
    assert rows[0]["score"] >= rows[1]["score"] and rows[0]["is_winner"]
    assert (16 * rows[0]["score"]) % 1 == 0  # exact
    assert record["test_accuracy"] == rows[0]["test_accuracy"]
    assert result.model.count_params() and is_done(spec, [record])
    text = searches.trials_table(record) + searches.searches_table([record])
    assert "NO GUARANTEE" in text and "NOT FOR RELEASE" not in text
    # Once more trains nothing.
    again = registry.run_class(spec)(spec, tiny_data, run_dir=tmp_path / "run", resume=True)
    again.train()
    assert again.measured()["trials"] == record["trials"]


@pytest.mark.slow
def test_a_record_for_release_has_the_winner_alone(searched, tiny_data, tmp_path, monkeypatch):
    monkeypatch.setattr(SearchPlan, "draw", lambda self, rng: 2)
    spec = searched()
    run = registry.run_class(spec)(spec, tiny_data, echo=lambda text: None)
    assert "epsilon of the search" in run.describe()
    run.train()
    measured = run.measured()
    (row,) = measured["trials"]["rows"]
    assert row["is_winner"] and not row["not_for_release"] and not measured["trials"]["note"]
    assert run.shown_seconds(1e6) < 1e5  # not how long all of them took
    run.close()
    assert json.dumps(measured)
