"""What is saved after private training loads elsewhere and predicts the same."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.keras_compat.variables import KERAS_3
from tfdpnorm.privacy import metadata
from tfdpnorm.training.public_rows_model import PublicRowsModel

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = 6  # few: what is compared is the model, not the data
FILES = ("model.keras", "model.h5" if KERAS_3 else "saved_model")

LOAD = """
import sys
import numpy as np
from tensorflow import keras
import tfdpnorm.layers
x = np.load(sys.argv[1])
outputs = [keras.models.load_model(path).predict(x, verbose=0) for path in sys.argv[3:]]
np.save(sys.argv[2], outputs)
"""


@pytest.fixture
def fresh(tmp_path):
    """Returns a function that loads models in a new process, and gives their predictions."""

    def predictions(x, *paths):
        np.save(tmp_path / "x.npy", x)
        subprocess.run(
            [sys.executable, "-c", LOAD, tmp_path / "x.npy", tmp_path / "y.npy", *paths],
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""},
        )
        return np.load(tmp_path / "y.npy")

    return predictions


@pytest.fixture
def trained_with(build, private, data, public, cross_entropy):
    """Returns a function to a model after 2 updates that moved it a good deal."""

    def train(norm, callbacks=(), **settings):
        model = build(norm=norm, **settings)
        trained = private(model, public_batch=public, steps=2)
        trained.compile(keras.optimizers.SGD(1.0), cross_entropy)
        trained.fit(*data, epochs=2, steps_per_epoch=1, verbose=0, callbacks=list(callbacks))
        return trained

    return train


@pytest.mark.slow
def test_public_statistics_load_with_the_layers_alone(trained_with, fresh, data, tmp_path):
    checkpoint = keras.callbacks.ModelCheckpoint(str(tmp_path / "best.keras"))
    trained = trained_with("public_batch", [checkpoint], statistics="blend")
    expected = trained.predict(data[0][:ROWS], verbose=0)
    paths = [tmp_path / name for name in FILES]
    for path in paths:
        trained.save(path)
    for loaded in fresh(data[0][:ROWS], *paths, tmp_path / "best.keras"):
        np.testing.assert_allclose(loaded, expected, rtol=1e-4, atol=1e-5)
    # The wrapped model has the moments, and needs no public rows.
    np.testing.assert_allclose(
        trained.model.predict(data[0][:ROWS], verbose=0), expected, rtol=1e-4, atol=1e-5
    )


def test_weights_are_those_of_the_wrapped_model(
    trained_with, build, private, data, public, tmp_path
):
    name = "model.weights.h5"
    checkpoint = keras.callbacks.ModelCheckpoint(
        str(tmp_path / f"epoch_{{epoch}}_{name}"), save_weights_only=True
    )
    trained = trained_with("public_batch", [checkpoint])
    trained.save_weights(str(tmp_path / name))
    expected = trained.predict(data[0], verbose=0)
    for path in (tmp_path / name, tmp_path / f"epoch_2_{name}"):
        plain = build(norm="public_batch")
        status = plain.load_weights(str(path))
        if status is not None:
            status.assert_existing_objects_matched()
        actual = plain.predict(data[0], verbose=0)
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
    other = private(build(norm="public_batch"), public_batch=public)
    other.load_weights(str(tmp_path / name))
    np.testing.assert_allclose(other.predict(data[0], verbose=0), expected, rtol=1e-4, atol=1e-5)
    # Weights are no budget: nothing of the ledger came along.
    assert other.ledger.updates == 0


@each("statistics", ["example", "lot"])
def test_a_prediction_depends_on_no_row_beside_it(statistics, build, data, public):
    served = PublicRowsModel(build(norm="public_batch", statistics=statistics), public)
    alone = [served(data[0][row : row + 1]) for row in range(3)]
    np.testing.assert_allclose(served(data[0][:3]), np.concatenate(alone), rtol=1e-4, atol=1e-5)


def test_public_rows_are_in_the_file_of_a_model_that_needs_them(build, data, public, tmp_path):
    served = PublicRowsModel(build(norm="public_batch", statistics="example"), public)
    expected = served(data[0][:3])
    served.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(data[0][:3]), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("statistics", ["public", "example"])
def test_an_exported_model_has_moments_in_the_place_of_rows(
    compiled, statistics, build, data, public, tmp_path
):
    rows = np.random.default_rng(8).normal(size=(16, 5)).astype(np.float32)
    engine = None if statistics == "public" else "per_example"
    model = build(norm="public_batch", statistics=statistics)
    trained = compiled(model, public_batch=rows, steps=2, engine=engine)
    trained.fit(*data, verbose=0)
    trained.export(tmp_path / "exported")
    held = b"".join(f.read_bytes() for f in (tmp_path / "exported").rglob("*") if f.is_file())
    found = sum(row.tobytes() in held for row in rows)
    assert found == (0 if statistics == "public" else len(rows))  # "example" needs them
    loaded = tf.saved_model.load(str(tmp_path / "exported"))  # held while it serves
    expected = trained.predict(data[0][:ROWS], verbose=0)
    np.testing.assert_allclose(loaded.serve(data[0][:ROWS]), expected, rtol=1e-5, atol=1e-6)
    assert metadata.read_metadata(tmp_path / "exported")["origins"]
