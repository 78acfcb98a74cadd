"""The model of a run, saved: it predicts as trained, and its statement is beside it."""

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm.experiments.registry import run_cell
from tfdpnorm.experiments.runs.saved import save_model


def test_a_private_model_is_saved_with_its_statement(tiny_spec, tiny_data, tmp_path):
    place, lines = tmp_path / "models" / "ours.keras", []
    result = run_cell(tiny_spec(), data=tiny_data, model_file=place, echo=lines.append)
    assert f"Model: {place}, {place.with_suffix('.txt')}" in lines
    loaded = keras.models.load_model(place, compile=False)
    np.testing.assert_allclose(
        loaded.predict(tiny_data.test_x, verbose=0),
        result.model.predict(tiny_data.test_x, verbose=0),
        rtol=1e-5,
        atol=1e-6,
    )
    assert place.with_suffix(".txt").read_text() == result.model.privacy_statement() + "\n"
    assert sorted(p.name for p in place.parent.iterdir()) == ["ours.keras", "ours.txt"]


@pytest.mark.parametrize("name, error", [("model.h5", ValueError), ("file/model.keras", OSError)])
def test_a_place_that_cannot_be_is_refused_before_training(
    tiny_spec, tiny_data, tmp_path, name, error
):
    (tmp_path / "file").touch()
    lines = []
    with pytest.raises(error, match="Expected .*save_model"):
        run_cell(tiny_spec(), data=tiny_data, model_file=tmp_path / name, echo=lines.append)
    assert not lines


def test_a_model_that_is_cut_short_leaves_the_one_before(tmp_path):
    class Failing:
        def save(self, path):
            path.write_text("half")
            raise OSError("No space left on device")

    place = tmp_path / "ours.keras"
    place.write_text("before")
    with pytest.raises(OSError, match="No space"):
        save_model(place, Failing(), "")
    assert place.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["ours.keras"]
