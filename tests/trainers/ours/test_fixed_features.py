"""Fixed features that no image has touched: networks, and the head that is trained on them."""

import numpy as np
import pytest
from tensorflow import keras

from tests.each import each
from trainers import registry
from trainers.data.sources import load_examples
from trainers.ours import finetune_cells
from trainers.runs import fixed_features
from trainers.runs.finetune import model_file
from trainers.runs.least_squares import whitened

FRONTS = {"scattering": fixed_features.scattering, "patches": fixed_features.patches}


@pytest.fixture
def rng():
    return np.random.default_rng(72)


def small(front, channels=1):
    side = 8 if front == "scattering" else 16
    shape = (side, side, channels)
    return fixed_features.Fixed(shape, FRONTS[front], ("shapes", "fractal"), 12, count=30)


@each("front, channels", [("scattering", 1), ("scattering", 3), ("patches", 3)])
def test_features_are_those_of_a_loop(rng, front, channels):
    """Centred by synthetic images, along their principal directions, half whitened, at length 1."""
    model = fixed_features.fixed_features(front, small(front, channels))
    synthetic = np.concatenate(
        [
            fixed_features.synthetic_rows(model.input_shape[1:], 30, kind=kind)
            for kind in ("shapes", "fractal")
        ]
    )
    before = keras.Model(model.inputs, model.get_layer("flatten").output)
    known = before.predict(synthetic, verbose=0).astype(np.float64)
    _, lengths, axes = np.linalg.svd(known - known.mean(axis=0), full_matrices=False)
    images = rng.random((3, *model.input_shape[1:])).astype(np.float32)
    found = before.predict(images, verbose=0) - known.mean(axis=0)
    expected = abs(found @ axes[:12].T) / np.sqrt(lengths[:12])  # axes have no sign
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(abs(model.predict(images, verbose=0))[:, ::-1], expected, atol=1e-3)


def test_patches_respond_to_those_alike(rng):
    """A filter and its negative to the share of whitened synthetic patches that was asked for."""
    fixed = small("patches", 3)
    images = np.concatenate(
        [fixed_features.synthetic_rows(fixed.shape, 30, kind=kind) for kind in fixed.kinds]
    )
    model = fixed_features.fixed_features("patches", fixed)
    alone = model.get_layer("patches")
    found, flat = (
        keras.Model(alone.inputs, alone.get_layer(name).output)(images).numpy()
        for name in ("similarities", "whitened_patches")
    )
    has_edges = np.linalg.norm(flat, axis=-1) > 0.1
    positive, negative = np.split(found[has_edges] > 0, 2, axis=-1)
    assert not np.any(positive & negative)
    assert np.mean(positive | negative) == pytest.approx(0.4, abs=0.1)
    np.testing.assert_allclose(found.max(), 1 - 0.06, atol=0.1)  # a patch to itself, less a bit


def test_a_kept_network_gives_the_mirror_image_the_same_patches(rng, tmp_path):
    model = fixed_features.fixed_features("patches", small("patches", 3))
    model.save(tmp_path / "patches.keras")
    kept = keras.models.load_model(tmp_path / "patches.keras")
    images = rng.random((3, 16, 16, 3)).astype(np.float32)
    found, mirrored = model.predict(images, verbose=0), kept.predict(images[:, :, ::-1], verbose=0)
    np.testing.assert_allclose(found, mirrored, atol=1e-5)
    front = keras.Model(model.inputs, model.get_layer("flatten").output)
    alone = model.get_layer("patches").predict
    both = alone(images, verbose=0) + alone(images[:, :, ::-1], verbose=0)
    expected = np.sqrt(both / 2).reshape(3, -1)
    np.testing.assert_allclose(front.predict(images, verbose=0), expected, atol=1e-5)


def test_fewer_rows_than_features_span_the_same_directions(rng):
    inputs = keras.Input((6,))
    model = keras.Model(inputs, keras.layers.Flatten()(inputs))
    x = rng.normal(size=(5, 6)).astype(np.float32)
    few, many = whitened(model, x, 4), whitened(model, np.concatenate([x, x, x]), 4)
    new = rng.normal(size=(9, 6)).astype(np.float32)
    np.testing.assert_allclose(
        abs(few.predict(new, verbose=0)), abs(many.predict(new, verbose=0)), atol=1e-3
    )


def test_a_head_is_trained_on_a_network_by_name(monkeypatch, tmp_path):
    """The network is made once, in the folder of models, and changes with nothing private."""
    monkeypatch.setitem(fixed_features.NETWORKS, "small", small("scattering"))
    monkeypatch.setenv("TFDPNORM_MODELS_DIR", str(tmp_path))
    settings = dict(model="small", public_dataset="synthetic:ink", epochs=2, learning_rate=8.0)
    spec = finetune_cells.spec("digits", 3.0, image_size=8, expected_batch_size=400, **settings)
    record = registry.run_cell(
        spec, output_dir=tmp_path / "out", cache_dir=tmp_path / "cache", echo=str
    ).record
    assert record["guarantee_holds"] and record["epsilon"] <= 3 and record["test_accuracy"] > 40
    path = model_file("small")
    assert path.parent == tmp_path and [p.name for p in tmp_path.glob("*.keras")] == [path.name]
    test = load_examples("digits", "test").x
    model = keras.models.load_model(path)
    again = fixed_features.fixed_features("small", small("scattering"))
    np.testing.assert_allclose(model.predict(test, verbose=0), again.predict(test, verbose=0))
