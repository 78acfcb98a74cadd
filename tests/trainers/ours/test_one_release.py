"""Heads that one release gives: cells, runs, what is rejected, and the program."""

import dataclasses

import numpy as np
import pytest
from tensorflow import keras

from tests.each import each
from tfdpnorm.privacy.caveats import caveat
from trainers import registry
from trainers.data.sources import load_examples
from trainers.ours import release_cells
from trainers.runs import data
from trainers.runs.build import plan_of
from trainers.runs.dry_run import dry_run
from trainers.runs.least_squares import LeastSquaresRun, most_directions, whitened
from trainers.specs import search_spec


def small_spec(epsilon=2.0, **changes):
    """DIGITS, of which a part whitens as if it were public."""
    few = dict(public_dataset="split", public_batch_size=400, directions=20, seed=1)
    return release_cells.random_spec("digits", epsilon, **few | changes)


def run(spec, tmp_path, **more):
    settings = dict(output_dir=tmp_path / "out", run_dir=tmp_path / "run", echo=str)
    return registry.run_cell(spec, **settings | more)


def test_a_run_releases_once_and_says_so(tmp_path):
    spec = small_spec()
    file = tmp_path / "head.keras"
    result = run(spec, tmp_path, model_file=file)
    record = result.record
    assert record["guarantee_holds"] and record["updates"] == 1 and record["sampling_rate"] == 1
    assert record["epsilon"] == pytest.approx(2, rel=0.01) and record["num_examples"] == 1037
    assert record["test_accuracy"] > 60
    assert record["statement"]["guarantee"]["epsilon"] == record["epsilon"]
    assert "one noisy sum, and no gradients" in file.with_suffix(".txt").read_text()
    test = load_examples("digits", "test")
    scores = keras.models.load_model(file).predict(test.x, verbose=0)
    assert 100 * np.mean(scores.argmax(-1) == test.y) == pytest.approx(record["test_accuracy"])
    with pytest.raises(ValueError, match="the only release of that run is spent"):
        run(spec, tmp_path, resume=True)


def test_known_exceptions_to_the_guarantee_are_stated(tmp_path):
    """Before and after the release; and what imported weights have seen."""
    lines, spec = [], small_spec(insecure_seed=1)
    known = data.load_experiment_data(small_spec(epsilon=1.0))
    record = run(spec, tmp_path, echo=lines.append, data=known).record
    assert "NO GUARANTEE" in lines[0] and "epsilon" not in lines[0]
    assert not record["guarantee_holds"] and record["epsilon"] == np.inf
    seen = caveat("foreign_weights", sentence="Seen before.")
    known = dataclasses.replace(known, foreign=(seen,), no_guarantee_because=("of words",))
    result = run(small_spec(), tmp_path, run_dir=tmp_path / "other", data=known)
    assert result.record["weights_from_elsewhere"] == ["Seen before."]
    assert result.record["no_guarantee_because"] == ["of words"]


def test_only_public_rows_whiten(tmp_path):
    """What comes before the released layer is the same for any private rows."""
    known = data.load_experiment_data(small_spec())
    others = dataclasses.replace(known, train_x=known.train_x[::-1] ** 2)
    fronts = []
    for i, each_data in enumerate((known, others)):
        model = run(small_spec(), tmp_path, run_dir=tmp_path / str(i), data=each_data).model.model
        fronts.append([a for layer in model.layers[:-1] for a in layer.get_weights()])
    assert len(fronts[0]) == 4 and all(map(np.array_equal, *fronts))


def test_a_dry_run_releases_nothing():
    text = dry_run(LeastSquaresRun, small_spec(), folders=())
    assert "epsilon: 1.99" in text or "epsilon: 2.0" in text
    assert "products of 20 features" in text and "Nothing was trained" in text


REFUSED = {
    "norm": (dict(norm="layer"), "Expected norm to be 'none'"),
    "views": (dict(augmentation_multiplicity=5), "Expected augmentation_multiplicity"),
    "public": (dict(public_dataset="synthetic:ink"), "Expected a public data set"),
    "private": (dict(public_dataset="digits"), "than the private dataset"),
    "rows": (dict(most_per_person=3, unit="row"), "Expected unit"),
}


@each("name", REFUSED)
def test_settings_without_use_are_rejected(name):
    changes, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        small_spec(**changes)


def test_there_is_nothing_to_search():
    spec = small_spec(accountant="rdp")
    with pytest.raises(ValueError, match="is not supported in a search"):
        search_spec(spec, over="learning_rate=0.1:0.3")


def test_directions_are_as_many_as_are_worth_their_noise(tmp_path):
    """By public numbers alone; fewer where public features have fewer."""
    plan = plan_of(small_spec(directions=None), 60_000)
    found = [most_directions(plan_of(small_spec(e, directions=None), 60_000)) for e in (0.05, 0.1)]
    assert found == [165, 251] and most_directions(plan) == 500
    spec = small_spec(0.5, directions=None, public_batch_size=12)
    model = run(spec, tmp_path).model.model
    assert model.get_layer("whitened").units == 11


def test_more_directions_than_public_images_allow_are_rejected():
    inputs = keras.Input((6,))
    model = keras.Model(inputs, keras.layers.Flatten()(inputs))
    x = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    x[:, 5] = x[:, 4]
    with pytest.raises(ValueError, match="directions to be at most 5"):
        whitened(model, x, 6)
    rows = whitened(model, x, 5).predict(x, verbose=0)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    layer = whitened(model, x, 5).get_layer("whitened")
    spread = np.sqrt(np.linalg.eigvalsh(np.cov(x, rowvar=False))[1:])
    np.testing.assert_allclose(np.cov(layer(x).numpy(), rowvar=False), np.diag(spread), atol=1e-3)
