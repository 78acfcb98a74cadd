"""Landscapes of small trained networks: records, table and plots."""

import json

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm.layers import ScaleNorm
from trainers.klause.landscape import measure_landscape
from trainers.klause.landscape_settings import LandscapeSettings
from trainers.records.fields import LANDSCAPE_FIELDS
from trainers.records.store import read_records, write_record

SETTINGS = LandscapeSettings(rows=20, tolerance=0.3, lanczos_steps=12, batch_size=8)


def small_network(scale_norm):
    keras.utils.set_random_seed(1)
    inputs = keras.Input((4, 4, 1))
    x = keras.layers.Conv2D(4, 3, padding="same", activation="tanh")(inputs)
    path = keras.layers.Conv2D(4, 3, padding="same", activation="tanh")(x)
    added = ScaleNorm(groups=2) if scale_norm else keras.layers.Add()
    x = keras.layers.Flatten()(added([path, x]))
    return keras.Model(inputs, keras.layers.Dense(3)(x))


def rows(count=30):
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, 4, 4, 1)).astype(np.float32), rng.integers(0, 3, count)


@pytest.fixture(scope="module")
def records():
    lines = []
    found = [
        measure_landscape(
            name, small_network(name == "with"), *rows(), SETTINGS, source={}, echo=lines.append
        )
        for name in ("with", "without")
    ]
    assert len(lines) == 10 and all("products in" in line for line in lines)
    return found


def test_records(records, tmp_path):
    for record in records:
        largest = record["largest_eigenvalue"]
        assert largest["value"] == max(record["ritz_values"]) > 0 and record["rows"] == 20
        power = record["power_iteration"]["value"]
        # At this tolerance it ends early, and is too low then.
        assert 0.3 < abs(power) / max(map(abs, record["ritz_values"])) < 1.001
        assert largest["converged"] == (largest["error"] <= 0.3 * largest["value"])
        np.testing.assert_allclose(sum(record["ritz_weights"]), 1)
        ((_, paths),) = record["activations"].items()
        assert sum(paths["output"]["counts"]) == 20 * 4 * 4 * 4
        write_record(tmp_path, record, fields=LANDSCAPE_FIELDS)
    read = read_records(tmp_path, fields=LANDSCAPE_FIELDS)
    assert json.dumps(read[0]["activations"]) == json.dumps(records[0]["activations"])


def test_bad_input():
    with pytest.raises(ValueError, match="Expected rows of 1 to 5, got 20"):
        measure_landscape("m", small_network(True), *rows(5), SETTINGS, source={})
    inputs = keras.Input((4, 4, 1))
    x = keras.layers.MaxPooling2D(1)(keras.layers.Conv2D(2, 2)(inputs))
    x = keras.layers.Conv2D(3, 3)(x)
    model = keras.Model(inputs, keras.layers.Flatten()(x))
    with pytest.raises(ValueError, match="got 'm' with a Hessian that is not symmetric"):
        measure_landscape("m", model, *rows(), SETTINGS, source={})
