"""Searches that choose by scores: every trial counts, and one more than planned is rejected."""

import pytest

from tests.tuning.conftest import FakeHyperModel
from tfdpnorm.privacy import PrivacyBudget, privacy_statement, read_ledger
from tfdpnorm.tuning import PrivateBayesianOptimization


@pytest.fixture
def bayesian(tmp_path, run):
    """Returns a function that runs a `PrivateBayesianOptimization` of so many trials."""

    def search(trials):
        return run(
            PrivateBayesianOptimization(
                FakeHyperModel(),
                trials=trials,
                budget=PrivacyBudget(3.0, 1e-5),
                num_initial_points=2,
                seed=1,
                directory=str(tmp_path),
            )
        )

    return search


def test_all_trials_are_paid_for(bayesian, tmp_path):
    made = bayesian(3)
    models = made.get_best_models(3)
    assert len(models) == 3 == len(made.hypermodel.trained)
    for model in models:
        assert 2.9 < model.ledger.epsilon() <= 3 and 2.9 < model.ledger.validation_epsilon() <= 3
        assert "at most 3 trials" in privacy_statement(model.ledger)
    ledger = read_ledger(tmp_path / "bayesian_optimization" / "ledger.jsonl")
    assert ledger.state.trials == (0, 1, 2) and ledger.epsilon() == models[0].ledger.epsilon()


def test_no_more_trials_than_planned(bayesian):
    made = bayesian(2)
    assert len(made.hypermodel.trained) == 2 and len(made.get_best_trials(None)) == 2
