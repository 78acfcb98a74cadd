"""The cells of all experiments, built on their own data: our own checks let our own models pass."""

import pytest

from tfdpnorm.data.synthetic import is_synthetic
from trainers import registry
from trainers.runs.data import load_experiment_data
from trainers.runs.finetune import MODELS_DIR
from trainers.runs.private import PrivateRun


def private_cells(experiment):
    """Returns the cells that are trained privately, one of those that differ in epsilon alone."""
    found = {}
    for spec in (cell.run for cell in registry.cells(experiment)):
        if spec.kind == "private":
            found.setdefault((spec.network, spec.norm, *spec.model_options), spec)
    return list(found.values())


def assert_accepted(spec, tfds_dir, tmp_path):
    names = {spec.dataset, getattr(spec, "public_dataset", None) or spec.dataset}
    names = {name for name in names - {"digits", "split"} if not is_synthetic(name)}
    try:
        data = load_experiment_data(spec, tfds_dir(*names), cache_dir=tmp_path)
    except FileNotFoundError as error:
        if MODELS_DIR in str(error):
            pytest.skip(f"{MODELS_DIR} names no folder with the model that {spec.cell} imports")
        raise
    assert PrivateRun(spec, data).model.ledger.updates == 0


@pytest.mark.slow  # twenty seconds of reading images
def test_mnist_with_a_public_batch_is_accepted(tfds_dir, tmp_path):
    """Sums over 512 public images lose four digits, which was once taken for a dependence."""
    cells = registry.cells("davody_table5")
    (spec,) = (spec for spec in cells if spec.cell == "public_batch/eps=1")
    assert_accepted(spec, tfds_dir, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("experiment", registry.EXPERIMENTS)
def test_all_are_accepted(experiment, tfds_dir, tmp_path):
    for spec in private_cells(experiment):
        assert_accepted(spec, tfds_dir, tmp_path)
