"""Frozen features: public training only, computed once, the network cut in two without a seam."""

import dataclasses

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm import models
from tfdpnorm.data import Examples
from trainers.davody import cells as davody
from trainers.ermis import cells as ermis
from trainers.runs import data as datasets
from trainers.runs import pretraining
from trainers.runs.data import load_experiment_data
from trainers.runs.private import PrivateRun


class Sets:
    """Stands for `load_examples`, with small images; counts what it was asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, name, split, data_dir=None):
        self.asked.append((name, split))
        count = {"cifar100": 30, "cifar10": 24}[name]
        rng = np.random.default_rng([len(name), len(split)])
        x = rng.random((count, 12, 12, 3), np.float32)
        y = (np.arange(count) % 10).astype(np.int32)
        return Examples(name, split, x, y, num_classes=10, is_complete=True)


@pytest.fixture
def sets(monkeypatch):
    fake = Sets()
    monkeypatch.setattr(datasets, "load_examples", fake)
    monkeypatch.setattr(pretraining, "load_examples", fake)
    return fake


def make_spec(norm="none", **fields):
    return davody.spec(
        "cifar10",
        norm,
        8.0,
        **{
            "pretraining_epochs": 1,
            "public_batch_size": 6,
            "expected_batch_size": 8,
            "steps": 2,
            "delta": 1e-3,
            **fields,
        },
    )


def load(spec, folder, lines=None):
    return load_experiment_data(
        spec, cache_dir=folder, echo=(lambda line: None) if lines is None else lines.append
    )


@pytest.mark.slow_cases("public_batch")
@pytest.mark.parametrize("norm", ["none", "public_batch"])
def test_head_on_features_is_the_whole_network(sets, tmp_path, norm):
    """Up to the centring and scaling, which are constants of public images."""
    data = load(make_spec(norm), tmp_path)
    (folder,) = tmp_path.iterdir()
    own = {"public_batch": "batch"}.get(norm, norm)
    whole = models.build("tf_tutorial", norm=own, input_shape=(12, 12, 3))
    whole.load_weights(folder / "whole.weights.h5")
    part = keras.Model(whole.inputs, whole.get_layer("flatten").output)
    by_hand = part.predict(sets("cifar10", "train").x, verbose=0)
    public = part.predict(sets("cifar100", "train").x, verbose=0)
    mean = public.mean(0)
    scale = np.sqrt(((public - mean) ** 2).mean())
    np.testing.assert_allclose(data.train_x, (by_hand - mean) / scale, atol=1e-4)
    assert data.model_options == {"part": "head"}
    assert "30 images of cifar100" in data.pretrained
    private = PrivateRun(make_spec(norm), data).model
    assert private.model.input_shape[1:] == data.train_x.shape[1:] == (3 * 3 * 64,)
    if norm == "public_batch":
        assert data.public_x.shape == (6, 576)


@pytest.mark.slow
def test_pretraining_sees_public_images_alone(sets, tmp_path, monkeypatch):
    """Whatever the private images are, what is trained is the same to the last bit."""
    load(make_spec(), tmp_path / "a")
    plain = sets.__call__

    def other(name, split, data_dir=None):
        examples = plain(name, split)
        return examples if name == "cifar100" else dataclasses.replace(examples, x=1 - examples.x)

    monkeypatch.setattr(datasets, "load_examples", other)
    load(make_spec(), tmp_path / "b")
    weights = []
    for name in "ab":
        network = models.build("tf_tutorial", input_shape=(12, 12, 3))
        (path,) = (tmp_path / name).glob("*/whole.weights.h5")
        network.load_weights(path)
        weights.append(network.get_weights())
    for one, another in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, another)


def test_the_private_set_is_not_public():
    """What is learnt from it without noise would be given out as if it were nobody's."""
    with pytest.raises(ValueError, match="^Expected another pretraining_dataset"):
        make_spec(pretraining_dataset="cifar10")


def test_public_characters_come_in_the_form_of_digits(tmp_path, monkeypatch):
    """And the record says what the public network makes of the digits that are tested."""
    rng = np.random.default_rng(0)

    def few(name, split, data_dir=None):
        x = (rng.random((40, 28, 28, 1)) * (name == "mnist")).astype(np.float32)
        y = (np.arange(40) % 10).astype(np.int32)
        return Examples(name, split, x, y, num_classes=10, is_complete=True)

    monkeypatch.setattr(pretraining, "load_examples", few)
    shapes = []
    train = pretraining._PublicTraining._train
    monkeypatch.setattr(
        pretraining._PublicTraining,
        "_train",
        lambda self, whole: (shapes.append(self.images), train(self, whole)),
    )
    options = dict(pretraining_epochs=1, held_out=300, expected_batch_size=1137)
    spec = ermis.spec("digits", "dpsgd", 1.0, model="small_cnn", **options)
    data = load(spec, tmp_path)
    assert shapes[0].shape == (40, 8, 8, 1)
    assert set(np.unique(shapes[0] * 16)) <= set(range(17)) and shapes[0].std() > 0
    assert data.train_x.shape == (1137, 16) and data.model_options == {"part": "head"}
    (folder,) = tmp_path.iterdir()
    whole = models.build("small_cnn", input_shape=(8, 8, 1))
    whole.load_weights(folder / "whole.weights.h5")
    raw = load_experiment_data(ermis.spec("digits", "dpsgd", 1.0, held_out=300))
    found = whole.predict(raw.test_x, verbose=0).argmax(1)
    share = 100 * np.mean(found == raw.test_y)
    assert f"without any example of digits, have {share:.2f} %" in data.pretrained
    private = PrivateRun(spec, data).model
    assert [v.shape for v in private.model.trainable_variables] == [(16, 10)]
