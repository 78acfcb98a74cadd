"""The recipes for dashboards, each with the package that it names, without a network."""

import importlib.util
import json

import pytest

import tfdpnorm
from tests.documentation import toys
from tests.documentation.blocks import blocks
from tests.programs import ROOT

PAGE = blocks((ROOT / "docs" / "dashboards.md").read_text("utf-8"))


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """Returns a function of a package: its recipe is run, and what it passed on is returned."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    found = []

    def run(package):
        pytest.importorskip(package, reason=f"{package} is no dependency: pip install {package}")
        (code,) = [block.code for block in PAGE if block.needs == package]
        (callback,) = [block.code for block in PAGE if "class LogCovered" in block.code]
        x, y = toys.digits(200)
        private = tfdpnorm.make_private(toys.dense(), toys.plan(len(x)))
        private.compile("sgd", toys.cross_entropy())
        names = {"x": x, "y": y, "private": private}
        exec(callback, names)
        own = names["LogCovered"].on_epoch_end

        def noted(self, epoch, logs=None):
            found.append(set(logs))
            own(self, epoch, logs)

        names["LogCovered"].on_epoch_end = noted
        exec(code, names)
        assert any("loss" in names for names in found)  # There is something to hold back.
        return private

    return run


def test_mlflow(recipe, tmp_path):
    private = recipe("mlflow")
    (metrics,) = (tmp_path / "mlruns").glob("*/*/metrics")
    assert [path.name for path in metrics.iterdir()] == ["epsilon"]
    last = (metrics / "epsilon").read_text().splitlines()[-1].split()
    assert float(last[1]) == pytest.approx(private.ledger.epsilon())


def test_wandb(recipe, tmp_path, monkeypatch):
    logged = []
    if importlib.util.find_spec("wandb"):
        import wandb

        log = wandb.Run.log

        def noted(self, data, *args, **kwargs):
            logged.append(json.loads(json.dumps(data)))
            return log(self, data, *args, **kwargs)

        monkeypatch.setattr(wandb.Run, "log", noted)
    private = recipe("wandb")
    assert {name for data in logged for name in data} == {"epsilon"}
    assert logged[-1]["epsilon"] == pytest.approx(private.ledger.epsilon())
    assert list((tmp_path / "wandb").glob("offline-run-*"))
