"""The training step is traced once, whatever the optimizer: its variables are made before."""

from tensorflow import keras


def traces_of(model, data, monkeypatch):
    traces, step = [], type(model).train_step
    monkeypatch.setattr(
        type(model), "train_step", lambda self, lot: traces.append(1) or step(self, lot)
    )
    model.fit(*data, epochs=2, verbose=0)
    assert model.ledger.updates == 8
    return len(traces)


def test_the_step_is_traced_once(data, private, cross_entropy, monkeypatch):
    layers = [keras.layers.Dropout(0.5), keras.layers.Flatten(), keras.layers.Dense(3)]
    model = private(keras.Sequential([keras.Input(data[0].shape[1:]), *layers]))
    averages = keras.optimizers.SGD(0.1, momentum=0.9, use_ema=True)
    model.compile(averages, cross_entropy, metrics=["accuracy"])
    assert traces_of(model, data, monkeypatch) == 1
