"""Models, ledgers and run folders that were written with Keras 2 are read with 3, and back."""

import shutil

import numpy as np
import pytest

from tests.training.other_keras.write import MADE, STEPS, X, Y, folder_of, private
from tfdpnorm import convert
from tfdpnorm.keras_compat.variables import KERAS_3

OTHER = folder_of("2" if KERAS_3 else "3")
OWN = folder_of("3" if KERAS_3 else "2")


def predictions_of(path):
    return convert.load_model(path).predict(X, verbose=0)


@pytest.mark.keras_3_only("loads no files of Keras 3")
def test_a_file_of_keras_2_predicts_the_same():
    expected = np.load(OTHER / "predictions.npy")
    found = predictions_of(OTHER / "model.keras")
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.keras_2_only("loads files of Keras 2")
def test_a_file_of_keras_3_is_rejected_with_both_versions():
    with pytest.raises(ValueError, match="^Expected a file of Keras 2.15.* which Keras 3.* wrote"):
        predictions_of(OTHER / "model.keras")


@pytest.mark.parametrize("of", [OWN, OTHER], ids=["own", "other"])
def test_a_run_goes_on(of, tmp_path):
    shutil.copytree(of / "run", tmp_path / "run")
    trained = private(tmp_path / "run", resume=True)
    assert trained.ledger.updates == MADE
    trained.fit(X, Y, verbose=0)
    assert trained.ledger.updates == STEPS and trained.ledger.state.resumes == 1


def test_a_seed_trains_the_same_weights():
    """Its noise and its batches are the same with both."""
    whole = private(None)
    whole.fit(X, Y, verbose=0)
    found = np.concatenate([w.ravel() for w in whole.get_weights()])
    for folder in (OWN, OTHER):
        np.testing.assert_allclose(found, np.load(folder / "trained.npy"), rtol=1e-4, atol=1e-4)
