"""The training step is traced once, whatever the optimizer: its variables are made before."""

import pytest
from tensorflow import keras

from tfdpnorm.keras_compat.variables import KERAS_3

OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda: keras.optimizers.Adam(amsgrad=True),
    "average": lambda: keras.optimizers.SGD(0.1, use_ema=True),
} | ({} if KERAS_3 else {"legacy": lambda: keras.optimizers.legacy.Adam()})


def traces_of(model, data, monkeypatch):
    traces, step = [], type(model).train_step
    monkeypatch.setattr(
        type(model), "train_step", lambda self, lot: traces.append(1) or step(self, lot)
    )
    model.fit(*data, epochs=2, verbose=0)
    assert model.ledger.updates == 8
    return len(traces)


@pytest.mark.quick_cases("average")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_step_is_traced_once(build, data, private, cross_entropy, monkeypatch, name):
    model = private(build("functional", "layer"))
    model.compile(OPTIMIZERS[name](), cross_entropy, metrics=["accuracy"])
    assert traces_of(model, data, monkeypatch) == 1


def test_the_step_of_random_layers_is_traced_once(data, private, cross_entropy, monkeypatch):
    layers = [keras.layers.Dropout(0.5), keras.layers.Flatten(), keras.layers.Dense(3)]
    model = private(keras.Sequential([keras.Input(data[0].shape[1:]), *layers]))
    model.compile("sgd", cross_entropy)
    assert traces_of(model, data, monkeypatch) == 1
