"""A trained model in all formats, and its card."""

import json
import math

import numpy as np
import pytest
from tensorflow import keras
from tensorflow.keras import layers

from tests.convert.test_convert import randomized
from tests.private_of import private_of
from tfdpnorm import models
from tfdpnorm.convert import convert_model, export, exported, run_tflite, write_card
from tfdpnorm.convert.exported import JSON, MARKDOWN
from tfdpnorm.layers import PublicBatchNormalization


def model_of(batch_norm):
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(8, 3),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(4),
        ]
    )
    return convert_model(randomized(model), batch_norm).model


COMPARED = ("largest", "relative", "same_class")
PLAN = {
    "num_examples": 8,
    "expected_batch_size": 4,
    "steps": 1,
    "l2_norm_clip": 1.0,
    "noise_multiplier": 1.0,
    "delta": 1e-3,
}
ROWS = np.random.default_rng(0).random((6, 8, 8, 3)).astype(np.float32)


def test_every_format_predicts_the_same(tmp_path):
    model = model_of("public_batch")
    lines = []
    found = export(model, tmp_path, ROWS, echo=lines.append)
    assert lines == [f"  writing and comparing {entry.path}" for entry in found]
    assert [entry.format for entry in found] == ["keras", "saved_model", "tflite", "tflite_int8"]
    assert all(entry.largest < 1e-5 for entry in found[:3]) and found[3].relative < 0.2
    assert all(entry.bytes > 500 and len(entry.sha256) == 64 for entry in found)
    record = {"guarantee_holds": False, "test_accuracy": 90.0, "epsilon": math.inf}
    about = {"Data": "made up"}
    told = dict(statement="NO GUARANTEE", privacy={"guarantee_holds": False}, about=about)
    write_card(tmp_path, name="tiny", exported=found, record=record, **told)
    text = (tmp_path / MARKDOWN).read_text()
    assert "NO GUARANTEE" in text and "**No guarantee holds" in text and "## Data" in text
    card = json.loads((tmp_path / JSON).read_text())
    assert card["record"]["epsilon"] == "inf" and len(card["files"]) == 4
    assert card["files"][0]["path"] == "model.keras"
    assert card["privacy"] == {"guarantee_holds": False}


def test_a_file_that_predicts_otherwise_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(exported, "run_tflite", lambda path, rows: np.zeros((6, 4)))
    with pytest.raises(ValueError, match="predict"):
        export(model_of("frozen"), tmp_path, ROWS, int8=False)


def table(outputs=1, statistics="public"):
    """A model of three inputs, whose names are not in alphabetical order."""
    note, num, cat = (
        keras.Input((6,), dtype="int32", name="note"),
        keras.Input((4,), name="num"),
        keras.Input((2,), dtype="int32", name="cat"),
    )
    parts = [layers.Flatten()(layers.Embedding(9, 2)(ids)) for ids in (note, cat)]
    x = PublicBatchNormalization(statistics=statistics)(
        layers.Dense(5)(layers.Concatenate()([*parts, num]))
    )
    return keras.Model([note, num, cat], [layers.Dense(3)(x) for _ in range(outputs)])


def rows_of_table(count, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "note": rng.integers(9, size=(count, 6)),
        "num": rng.normal(size=(count, 4)).astype(np.float32),
        "cat": rng.integers(9, size=(count, 2)),
    }


def test_several_inputs_go_by_name_or_by_place(tmp_path, monkeypatch):
    """The formats agree only if each array reaches its input."""
    rows = rows_of_table(8)
    private = private_of(table(), public_batch=rows, **PLAN)
    found = export(private, tmp_path / "by_name")  # those of the training
    assert len(found) == 4
    assert all(entry.largest < 1e-5 for entry in found[:3])
    expected = private.predict(rows, verbose=0)
    lite = {
        name: part[::-1].astype(np.int32 if name != "num" else np.float32)
        for name, part in rows.items()
    }
    np.testing.assert_allclose(
        run_tflite(found[2].path, lite), expected[::-1], rtol=1e-4, atol=1e-5
    )
    compared = only_compared(monkeypatch)
    export(private, tmp_path / "by_place", tuple(rows.values()), int8=False)
    for name, part in compared.items():
        np.testing.assert_array_equal(part, rows[name])


def test_a_failed_export_leaves_nothing(tmp_path, monkeypatch):
    rows, folder = rows_of_table(8), tmp_path / "new"
    private = private_of(table(), public_batch=rows, **PLAN)
    for bad, says in (
        ({"note": rows["note"]}, "got 1 arrays"),
        ("synthetic", "got 'synthetic'"),
        ({**rows, "num": rows["num"][:3]}, r"\[8, 3, 8\] rows"),
    ):
        with pytest.raises(ValueError, match=says):
            export(private, folder, bad)
        assert not folder.exists()
    with pytest.raises(ValueError, match="one output, got 2"):
        export(private_of(table(2), public_batch=rows, **PLAN), folder)
    assert not folder.exists()
    monkeypatch.setattr(exported, "run_tflite", lambda path, rows: np.zeros((8, 3)))
    with pytest.raises(ValueError, match="predict"):
        export(private, folder, int8=False)
    assert not folder.exists()


def test_rows_of_several_inputs_are_in_no_file():
    private = private_of(table(statistics="example"), public_batch=rows_of_table(8), **PLAN)
    with pytest.raises(ValueError, match="one input.* got 3"):
        private.servable()


def only_compared(monkeypatch):
    """Exports that make no TensorFlow Lite model; returns the dict of rows it would be given."""
    compared = {}
    monkeypatch.setattr(exported, "to_tflite", lambda served, rows=None: b"")
    monkeypatch.setattr(exported, "run_tflite", lambda path, rows: compared.update(rows) or 0)
    monkeypatch.setattr(exported, "_compared", lambda *_: dict.fromkeys(COMPARED, 0.0))
    return compared


@pytest.mark.slow
@pytest.mark.keras_3_only("exports no ONNX")
def test_an_onnx_file_of_a_private_model_predicts_the_same(tmp_path):
    pytest.importorskip("onnx", reason="onnx is not installed")
    pytest.importorskip("tf2onnx", reason="tf2onnx, by which Keras writes ONNX, is not installed")
    from onnx.reference import ReferenceEvaluator

    rng = np.random.default_rng(1)
    x, public = (rng.random((n, 12, 12, 1), np.float32) for n in (40, 16))
    model = models.build("lenet5", "public_batch", input_shape=(12, 12, 1), num_classes=3)
    plan = {"num_examples": 40, "expected_batch_size": 10, "steps": 2, "delta": 1e-5}
    private = private_of(model, public_batch=public, **plan)
    private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    private.fit(x, np.arange(40) % 3, verbose=0, epochs=1, steps_per_epoch=2)
    path = str(tmp_path / "model.onnx")
    private.export(path, format="onnx", verbose=False)
    run = ReferenceEvaluator(path)
    (found,) = run.run(None, {run.input_names[0]: x})
    np.testing.assert_allclose(found, private.model.predict(x, verbose=0), rtol=1e-4, atol=1e-5)
