"""Runs with noise in the weights: what the record says, curves, backups."""

import dataclasses
import json

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm.layers import WeightNoise
from trainers import registry as cells
from trainers.records.fields import FIELDS
from trainers.records.store import read_records
from trainers.runs import non_private
from trainers.specs import NonPrivateSpec

INF = float("inf")


@pytest.fixture
def noisy_spec():
    """Returns a function that makes the spec of two epochs on `tiny_data`."""

    def make(**fields):
        return NonPrivateSpec(
            **{
                "experiment": "tiny",
                "network": "a",
                "column": "stddev=0.5",
                "dataset": "synthetic",
                "model": "lenet_300_100",
                "norm": "batch",
                "batch_size": 16,
                "epochs": 2,
                "weight_noise_stddev": 0.5,
                **fields,
            }
        )

    return make


@pytest.fixture
def held_out(tiny_data):
    """`tiny_data` with some rows to look at."""
    return dataclasses.replace(
        tiny_data, validation_x=tiny_data.test_x[:8], validation_y=tiny_data.test_y[:8]
    )


def silent(line):
    pass


def test_the_record_claims_no_privacy(noisy_spec, held_out, tmp_path):
    stddev = 0.5
    spec, lines = noisy_spec(weight_noise_stddev=stddev, seed=3), []
    result = cells.run_cell(spec, data=held_out, output_dir=tmp_path, echo=lines.append)
    record = result.record
    assert set(record) == set(FIELDS)
    (read,) = read_records(tmp_path)
    assert read == record | {"flags": read["flags"]}
    assert [record[f"epsilon{which}"] for which in ("", "_rdp", "_pld")] == [INF] * 3
    assert record["guarantee_holds"] is False
    assert record["no_guarantee_because"] == [non_private.reason_of(spec)]
    expected = dict(weight_noise_stddev=stddev, seed=3, updates=8, num_examples=64, delta=None)
    assert {name: record[name] for name in expected} == expected
    assert [point["epoch"] for point in record["curve"]] == [1, 2]
    assert "NO GUARANTEE" in "\n".join(lines)
    noisy = [layer for layer in result.model.layers if isinstance(layer, WeightNoise)]
    assert len(noisy) == 3 and json.loads(json.dumps(record["curve"])) == record["curve"]


def test_without_noise_it_is_keras_own_training(noisy_spec, held_out):
    """The same start, batches and optimizer by hand give the same weights."""
    spec = noisy_spec(weight_noise_stddev=0.0, norm="none", optimizer="sgd", learning_rate=0.1)
    trained = cells.run_cell(spec, data=held_out, echo=silent).model
    model = non_private.NonPrivateRun(spec, held_out).model
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss_fn)
    batches = iter(non_private.batches(held_out, spec))
    for _ in range(8):
        model.train_on_batch(*next(batches))
    for ours, by_hand in zip(trained.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(ours, by_hand, rtol=1e-5, atol=1e-6)


def trained_with_wrong_labels_held_out(spec, data):
    """A run after training, and loss and weights after each epoch.

    The loss on labels that are all wrong rises while that of the training examples falls.
    """
    data = dataclasses.replace(data, validation_y=1 - data.validation_y)
    losses, weights = [], []

    def look(epoch, logs):
        losses.append(logs["val_loss"])
        weights.append(run.model.get_weights())

    callback = keras.callbacks.LambdaCallback(on_epoch_end=look)
    run = non_private.NonPrivateRun(spec, data, echo=silent, callbacks=[callback])
    run.restore()
    examples = run.train()
    best = weights[int(np.argmin(losses))]
    for ours, of_best in zip(run.model.get_weights(), best, strict=True):
        np.testing.assert_array_equal(ours, of_best)
    assert examples == spec.batch_size * run.measured()["updates"]
    return run, losses


def test_a_plateau_halves_the_rate_and_then_ends_training(noisy_spec, held_out):
    watched = dict(plateau="validation", plateau_patience=1, early_stopping=3)
    spec = noisy_spec(epochs=40, learning_rate=0.01, weight_noise_stddev=0.0, **watched)
    run, losses = trained_with_wrong_labels_held_out(spec, held_out)
    assert len(losses) == np.argmin(losses) + 1 + 3 < 40
    assert run.measured()["updates"] == 4 * len(losses)
    assert float(run.model.optimizer.learning_rate) <= 0.01 / 4
    said = "halved after 1 epochs without progress, ended after 3 epochs without progress"
    assert said in run.describe()


def test_a_run_without_noise_or_privacy_says_so(tiny_data):
    """Also with batch normalisation, which no private run takes."""
    spec = NonPrivateSpec(
        experiment="t",
        network="n",
        column="eps=inf",
        dataset="synthetic",
        norm="batch",
        steps=4,
        batch_size=16,
    )
    lines = []
    record = cells.run_cell(spec, data=tiny_data, echo=lines.append).record
    assert record["kind"] == "non_private" and record["weight_noise_stddev"] is None
    assert record["no_guarantee_because"] == ["trained without differential privacy"]
    assert record["epsilon"] == float("inf") and "noise" not in lines[0].replace("weight_noise", "")
