"""Searches that choose by scores: every trial counts, and one more than planned is rejected."""

import keras_tuner
import pytest

from tests.tuning.conftest import FakeHyperModel
from tfdpnorm.privacy import PrivacyBudget, privacy_statement, read_ledger
from tfdpnorm.tuning import ComposedSearch


@pytest.fixture
def composed(tmp_path):
    """Returns a function of an oracle to a `ComposedSearch`."""

    def make(oracle, trials=3):
        return ComposedSearch(
            FakeHyperModel(),
            oracle=oracle,
            trials=trials,
            budget=PrivacyBudget(3.0, 1e-5),
            directory=str(tmp_path),
        )

    return make


def test_all_trials_are_paid_for(composed, run, oracle, tmp_path):
    made = run(composed(oracle))
    models = made.get_best_models(3)
    assert len(models) == 3 == len(made.hypermodel.trained)
    for model in models:
        assert 2.9 < model.ledger.epsilon() <= 3 and 2.9 < model.ledger.validation_epsilon() <= 3
        assert "at most 3 trials" in privacy_statement(model.ledger)
    ledger = read_ledger(tmp_path / "composed_search" / "ledger.jsonl")
    assert ledger.state.trials == (0, 1, 2) and ledger.epsilon() == models[0].ledger.epsilon()


@pytest.mark.filterwarnings("ignore:A trial has failed")
def test_one_more_than_planned_trains_nothing(composed, run, oracle):
    made = run(composed(oracle, trials=2))
    assert len(made.hypermodel.trained) == 2 and len(made.get_best_trials(None)) == 2


def test_hyperband_ends_trials_early_and_pays_for_whole_ones(composed, run):
    oracle = keras_tuner.oracles.HyperbandOracle(
        keras_tuner.Objective("score", "max"), max_epochs=4, factor=2, seed=1
    )
    oracle.max_trials = 4
    made = run(composed(oracle, trials=4))
    assert len(made.hypermodel.trained) == 4
    assert made.get_best_models(1)[0].ledger.epsilon() <= 3


def test_another_objective_is_rejected(composed):
    oracle = keras_tuner.oracles.RandomSearchOracle("val_loss", max_trials=2)
    with pytest.raises(ValueError, match='Objective\\("score", "max"\\)'):
        composed(oracle)
