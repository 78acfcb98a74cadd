"""The search of docs/searches.md, on real images: a model and arrays of a user's own."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tfdpnorm.privacy.search import SearchPlan

PAGE = Path(__file__).resolve().parents[2] / "docs" / "searches.md"


@pytest.fixture(scope="module")
def digits():
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    return (images[order] / 16).astype(np.float32), labels[order]


def test_the_documented_search(digits, tmp_path, monkeypatch, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) <= 22
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SearchPlan, "draw", lambda self, rng: 2)  # for a quick test
    x, y = digits
    names = {"x": x[:1200], "y": y[:1200], "other_x": x[1200:1500], "other_y": y[1200:1500]}
    exec(code, names)
    shown = capsys.readouterr().out
    assert "the best of a random number of trials" in shown and "NO GUARANTEE" not in shown
    best, tuner = names["best"], names["tuner"]
    assert 2.9 < best.ledger.epsilon() <= 3 and 2.9 < best.ledger.validation_epsilon() <= 3
    assert best.predict(x[1500:], verbose=0).shape == (297, 10)
    # Another process has only the folder.
    answers = best.predict(x[1500:], verbose=0)
    again = tuner.get_best_models()[0]
    np.testing.assert_allclose(again.predict(x[1500:], verbose=0), answers, rtol=1e-5)
    assert "Weights of unknown provenance" not in again.privacy_statement()
