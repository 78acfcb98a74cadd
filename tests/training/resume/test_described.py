"""What a resumed run is compared by: what differs is refused by name, what does not is not."""

import json

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.training.resume.test_all_state import CopyAt, dense, run
from tfdpnorm.training import PrivateValidation
from tfdpnorm.training.resume.described import described_model, described_training, differences

_cross_entropy = keras.losses.sparse_categorical_crossentropy
_SIGN = 1.0


def loss(y, predictions):
    return _cross_entropy(y, predictions, from_logits=True)


def negated(y, predictions):
    return -_cross_entropy(y, predictions, from_logits=True)


def signed(sign):
    return lambda y, predictions: sign * loss(y, predictions)


class Signed(keras.losses.Loss):
    def __init__(self, sign):
        super().__init__()
        self._sign = sign

    def call(self, y, predictions):
        return self._sign * loss(y, predictions)


class Schedule(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, rate):
        self.rate = rate

    def __call__(self, step):
        return self.rate / tf.cast(step + 1, tf.float32)


def model(units=4, activation="tanh", l2=None, rate=0.1, function=tf.abs):
    layers = [
        keras.layers.Dense(units, activation, kernel_regularizer=l2),
        keras.layers.Activation("tanh"),
        keras.layers.Dropout(rate),
        keras.layers.Lambda(function),
        keras.layers.Dense(3),
    ]
    return keras.Sequential([keras.Input((5,)), *layers])


def residual(adds):
    inputs = keras.Input((5,))
    first = keras.layers.Dense(5)(inputs)
    second = keras.layers.Dense(5)(first)
    return keras.Model(inputs, keras.layers.add([second, inputs if adds else first]))


class Scaled(keras.Model):
    def __init__(self, scale):
        super().__init__()
        self.scale, self.layer = scale, keras.layers.Dense(3)

    def call(self, inputs):
        return self.scale * self.layer(inputs)


_new, _schedules = keras.optimizers, keras.optimizers.schedules
TRAININGS = [
    (lambda: ("nadam", loss, None), lambda: ("adam", loss, None), "optimizer is"),
    (lambda: (_new.Adam(0.01), loss, None), lambda: (_new.Adam(0.02), loss, None), "learning_rate"),
    (lambda: (_new.Adam(), loss, None), lambda: (_new.Adam(use_ema=True), loss, None), "use_ema"),
    (
        lambda: (_new.SGD(_schedules.ExponentialDecay(0.1, 3, 0.5)), loss, None),
        lambda: (_new.SGD(_schedules.ExponentialDecay(0.1, 3, 0.6)), loss, None),
        "learning_rate",
    ),
    (
        lambda: (_new.SGD(Schedule(0.1)), loss, None),
        lambda: (_new.SGD(Schedule(0.2)), loss, None),
        "learning_rate",
    ),
    (lambda: ("adam", loss, None), lambda: ("adam", negated, None), "loss is"),
    (lambda: ("adam", signed(1.0), None), lambda: ("adam", signed(-1.0), None), "loss is"),
    (lambda: ("adam", Signed(1.0), None), lambda: ("adam", Signed(-1.0), None), "loss"),
    (lambda: ("adam", "mse", None), lambda: ("adam", "mae", None), "loss is"),
    (lambda: ("adam", loss, None), lambda: ("adam", loss, [2.0]), "loss_weights"),
    (
        lambda: ("adam", keras.losses.Huber(1.0), None),
        lambda: ("adam", keras.losses.Huber(2.0), None),
        "loss.delta",
    ),
]
MODELS = [
    (model, lambda: model(activation="relu"), "layer 0"),
    (model, lambda: model(l2="l2"), "layer 0"),
    (
        lambda: model(l2=keras.regularizers.L2(0.1)),
        lambda: model(l2=keras.regularizers.L2(0.2)),
        "",
    ),
    (model, lambda: model(rate=0.2), "layer 2"),
    (lambda: model(function=lambda x: 2 * x), lambda: model(function=lambda x: 3 * x), "layer 3"),
    (lambda: residual(True), lambda: residual(False), "model"),
    (lambda: Scaled(1.0), lambda: Scaled(-1.0), "model"),
]


def training(given):
    optimizer, *rest = given
    return described_training(keras.optimizers.get(optimizer), *rest)


@pytest.mark.parametrize("one, other, name", TRAININGS, ids=range(len(TRAININGS)))
def test_what_compile_is_given(one, other, name):
    before = json.loads(json.dumps(training(one())))
    assert not differences(before, training(one()))
    found = differences(before, training(other()))
    assert name in " ".join(found) and "there and" in found[0]


@pytest.mark.parametrize("one, other, name", MODELS, ids=range(len(MODELS)))
def test_models(one, other, name):
    before = json.loads(json.dumps(described_model(one())))
    model(), residual(True)  # Keras counts names up.
    assert not differences(before, described_model(one()))
    assert name in " ".join(differences(before, described_model(other())))


def test_a_value_that_a_function_reads_elsewhere(monkeypatch):
    def reads(y, predictions):
        return _SIGN * loss(y, predictions)

    before = training(("sgd", reads, None))
    monkeypatch.setitem(globals(), "_SIGN", -1.0)
    assert differences(before, training(("sgd", reads, None)))


def test_augmentations():
    one, other = (lambda x: x + 1, lambda x: x + 2)
    layers = [keras.layers.GaussianNoise(0.1), keras.layers.GaussianNoise(0.2)]
    for a, b in ((one, other), layers, (one, layers[0])):
        before = described_model(dense(), [a])
        assert not differences(before, described_model(dense(), [a]))
        assert "augmentation 0" in differences(before, described_model(dense(), [b]))[0]


def test_a_run_is_not_resumed_with_its_loss_negated(tmp_path, data):
    copying = CopyAt(8, tmp_path / "whole", tmp_path / "again")
    run(tmp_path / "whole", data, dense, "adam", loss, [copying], insecure_seed=1)
    ledger = (tmp_path / "again" / "ledger.jsonl").read_text()
    for optimizer, changed, name in (
        ("adam", negated, "loss is"),
        ("nadam", loss, "optimizer is"),
        (keras.optimizers.Adam(0.1), loss, "optimizer.learning_rate is 0.001"),
    ):
        with pytest.raises(ValueError, match=f"got others: {name}.* there and .* here.*Restore"):
            run(tmp_path / "again", data, dense, optimizer, changed, insecure_seed=1)
    later = (tmp_path / "again" / "ledger.jsonl").read_text()
    assert later.startswith(ledger) and later.count('"updates"') == ledger.count('"updates"')
    done = run(tmp_path / "again", data, dense, "adam", loss, insecure_seed=1)
    assert done.ledger.updates == 12 and done.ledger.recounted == 0


@pytest.mark.slow
def test_callbacks_may_change_the_learning_rate(tmp_path, data, cross_entropy):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(30, 5)).astype(np.float32), np.zeros(30, np.int64)

    def callbacks():
        return [
            PrivateValidation(*rows, noise_multiplier=1e6, queries=6),
            keras.callbacks.ReduceLROnPlateau(
                "private_val_accuracy", mode="max", factor=0.5, patience=1, min_delta=1e9
            ),
            keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9),
        ]

    settings = {"insecure_seed": 1, "checkpoint_every": None, "steps": 12}
    folders = tmp_path / "whole", tmp_path / "again"
    given = [data, dense, "adam", cross_entropy]
    whole = run(folders[0], *given, [*callbacks(), CopyAt(10, *folders)], **settings)
    again = run(folders[1], *given, callbacks(), **settings)
    assert float(again.optimizer.learning_rate) == float(whole.optimizer.learning_rate) < 0.0008
    for expected, found in zip(whole.model.weights, again.model.weights, strict=True):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
    assert again.ledger.recounted == 0


@pytest.mark.slow
def test_a_checkpoint_of_before_is_resumed(tmp_path, data, cross_entropy):
    copying = CopyAt(8, tmp_path / "whole", tmp_path / "again")
    run(tmp_path / "whole", data, dense, "adam", cross_entropy, [copying], insecure_seed=1)
    for file in (tmp_path / "again").glob("checkpoint-*/state.json"):
        state = json.loads(file.read_text())
        assert state.pop("training")
        file.write_text(json.dumps(state))
    done = run(tmp_path / "again", data, dense, "adam", cross_entropy, insecure_seed=1)
    assert done.ledger.updates == 12 and done.ledger.recounted == 0
