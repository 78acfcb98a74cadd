"""The model of a run, saved: it predicts as trained, and its statement is beside it."""

import pytest
from tensorflow import keras

from trainers.registry import run_cell
from trainers.runs.kept import save_model


@pytest.mark.slow
def test_the_average_is_saved_beside_the_model(tiny_spec, tiny_data, tmp_path):
    place, lines = tmp_path / "ours.keras", []
    spec = tiny_spec(ema_decay=0.9, learning_rate=3.0)
    record = run_cell(spec, data=tiny_data, model_file=place, echo=lines.append).record
    average = tmp_path / "ours-average.keras"
    assert f"Weight average: {average}, {average.with_suffix('.txt')}" in lines
    for path, name in ((place, "test_accuracy"), (average, "test_accuracy_ema")):
        loaded = keras.models.load_model(path, compile=False)
        right = loaded.predict(tiny_data.test_x, verbose=0).argmax(1) == tiny_data.test_y
        assert 100 * right.mean() == pytest.approx(record[name], abs=1e-3)
        statement = path.with_suffix(".txt").read_text()
        assert statement.startswith("1. Training satisfies") and "elsewhere" not in statement
    assert place.read_bytes() != average.read_bytes()


@pytest.mark.parametrize("name, error", [("model.h5", ValueError), ("file/model.keras", OSError)])
def test_a_place_that_cannot_be_is_rejected_before_training(
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
