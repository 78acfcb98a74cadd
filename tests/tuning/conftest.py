"""Searches whose trials train nothing: only ledgers, answers and folders are real."""

import types

import numpy as np
import pytest

from tfdpnorm.privacy import (
    PrivacyBudget,
    create_ledger,
    make_plan,
    privacy_statement,
    reopen_ledger,
)
from tfdpnorm.privacy.entries import Resume, Updates
from tfdpnorm.privacy.search import SearchPlan
from tfdpnorm.privacy.statement_as_json import statement_json
from tfdpnorm.tuning import PrivateHyperModel, PrivateRandomSearch

EXAMPLES, STEPS = 100, 10


class FakePrivate:
    """What a search asks of a private model: ledger, statement, predictions right by a rate."""

    def __init__(self, ledger, right):
        self.ledger, self._right = ledger, right
        self.session = self.provenance = self.rows = self

    def digest(self):
        return repr(self._right).encode()

    def rows_to_predict_at_once(self, x, batch_size):
        return batch_size

    def privacy_statement(self):
        return privacy_statement(self.ledger)

    def privacy_statement_json(self):
        return statement_json(self.ledger)

    def add_validation(self, validation):
        """Of real private models, see tests/training/callbacks."""

    def predict(self, x, **_):
        # The label is in the first column of x.
        labels = x[:, 0].astype(int)
        wrong = np.arange(len(x)) >= round(self._right * len(x))
        return np.eye(10)[(labels + wrong) % 10]


class FakeHyperModel(PrivateHyperModel):
    """Answers right with the rate that is searched; `before` is called before a trial trains."""

    def __init__(self, before=lambda number, hp: None, lots=((100, STEPS),)):
        super().__init__()
        self.before, self._lots, self.trained = before, list(lots), []

    def build(self, hp):
        hp.Choice("right", [0.1, 0.3, 0.5, 0.7, 0.9])

    def settings(self, hp):
        size, steps = self._lots[hp.Choice("lot", list(range(len(self._lots))))]
        return dict(num_examples=EXAMPLES, expected_batch_size=size, steps=steps, l2_norm_clip=1.0)

    def lots(self):
        return self._lots

    def rehearse(self, *_, **__):
        """Of real private models, see `test_real_trials`."""

    def train(self, hp, trial, x, y, **_):
        self.trained.append((trial.run_dir, dict(hp.values)))
        private = self.restore(hp, trial)
        try:
            self.before(len(self.trained), hp)
        except BaseException:
            private.ledger.close()
            raise
        if private.ledger.state.remaining_updates:
            private.ledger.record(Updates(private.ledger.state.remaining_updates))
        return private

    def restore(self, hp, trial):
        settings = self.settings(hp)
        plan = make_plan(
            **settings, noise_multiplier=trial.noise_multiplier(settings), delta=trial.delta
        )
        trial.run_dir.mkdir(parents=True, exist_ok=True)
        path = trial.run_dir / "ledger.jsonl"
        if path.exists():
            ledger = reopen_ledger(path, plan)
            ledger.record(Resume(ledger.updates))
        else:
            ledger = create_ledger(path, plan)
        trial.declare(ledger)
        return FakePrivate(ledger, hp.get("right"))


@pytest.fixture
def data():
    """Training rows, and 200 others whose label is in their first column."""
    rng = np.random.default_rng(3)

    def rows(count, shift):
        y = rng.integers(10, size=count)
        x = rng.random((count, 4), np.float32) + shift
        x[:, 0] = y
        return x, y

    train, other = rows(EXAMPLES, 0.0), rows(200, 5.0)
    return types.SimpleNamespace(x=train[0], y=train[1], other=other)


@pytest.fixture
def draw(monkeypatch):
    """Returns a function that makes every search draw so many trials."""
    return lambda count: monkeypatch.setattr(SearchPlan, "draw", lambda self, rng: count)


@pytest.fixture
def tuner(tmp_path):
    """Returns a function to a `PrivateRandomSearch` in one folder."""

    def make(hypermodel=None, **changes):
        settings = dict(budget=PrivacyBudget(3.0, 1e-5), expected_trials=4, directory=str(tmp_path))
        hypermodel = FakeHyperModel() if hypermodel is None else hypermodel
        return PrivateRandomSearch(hypermodel, **{**settings, **changes})

    return make


@pytest.fixture
def run(data):
    """Returns a function that runs a tuner's search on the data."""

    def search(made, **changes):
        made.search(data.x, data.y, **{"validation_data": data.other, "verbose": 0, **changes})
        return made

    return search
