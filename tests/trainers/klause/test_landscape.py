"""Landscapes of small trained networks: records, table and plots."""

import json

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm.keras_compat.devices_and_precision import made_under
from tfdpnorm.layers import ScaleNorm
from trainers.klause.landscape import measure_landscape
from trainers.klause.landscape_report import landscape_table
from trainers.klause.landscape_settings import LandscapeSettings
from trainers.records.fields import LANDSCAPE_FIELDS
from trainers.records.store import read_records, write_record

SETTINGS = LandscapeSettings(rows=20, tolerance=0.3, lanczos_steps=12, batch_size=8)


def small_network(scale_norm, policy="float32"):
    keras.utils.set_random_seed(1)
    with made_under(policy):
        return network(scale_norm)


def network(scale_norm):
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


def test_a_network_in_half_precision_is_measured_in_full(records):
    model = small_network(True, "mixed_bfloat16")
    record = measure_landscape("with", model, *rows(), SETTINGS, source={})
    for name in ("ritz_values", "trace", "largest_eigenvalue"):
        assert record[name] == records[0][name], name
    blocks = (list(r["activations"].values()) for r in (record, records[0]))  # by any names
    assert next(blocks) == next(blocks)
    assert {layer.compute_dtype for layer in model.layers[1:]} == {"bfloat16"}


@pytest.mark.parametrize("name, value", [("max_products", 1), ("rows", 0), ("tolerance", 0.0)])
def test_bad_settings_are_rejected_before_anything_is_measured(name, value):
    with pytest.raises(ValueError, match=f"Expected {name} .*got {value}"):
        LandscapeSettings(**{name: value})


@pytest.mark.parametrize(
    "traces, eigenvalues, verdict",
    [
        ((90, 100), (40, 50), "Supported here: the trace with ScaleNorm is smaller"),
        ((110, 100), (40, 50), "Contradicted here: the trace with ScaleNorm is larger"),
        ((98, 100), (40, 50), "Not supported here: the trace with ScaleNorm is no other"),
    ],
)
def test_the_claim_of_a_smoother_landscape_is_judged(records, traces, eigenvalues, verdict):
    made = [
        dict(
            record,
            trace=dict(record["trace"], value=float(trace), error=1.0),
            largest_eigenvalue=dict(record["largest_eigenvalue"], value=float(value), error=0.1),
        )
        for record, trace, value in zip(records, traces, eigenvalues, strict=True)
    ]
    assert verdict in landscape_table(*made)


def test_bad_input():
    with pytest.raises(ValueError, match="Expected rows of 1 to 5, got 20"):
        measure_landscape("m", small_network(True), *rows(5), SETTINGS, source={})
    inputs = keras.Input((4, 4, 1))
    x = keras.layers.MaxPooling2D(1)(keras.layers.Conv2D(2, 2)(inputs))
    x = keras.layers.Conv2D(3, 3)(x)
    model = keras.Model(inputs, keras.layers.Flatten()(x))
    with pytest.raises(ValueError, match="got 'm' with a Hessian that is not symmetric"):
        measure_landscape("m", model, *rows(), SETTINGS, source={})
