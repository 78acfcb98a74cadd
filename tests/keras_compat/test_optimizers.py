"""An optimizer's variables: made once, as Keras makes them, and before the step is traced."""

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm.keras_compat.optimizers import make_optimizer_variables

OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda: keras.optimizers.Adam(amsgrad=True),
    "average": lambda: keras.optimizers.SGD(0.1, use_ema=True),
    "legacy": lambda: keras.optimizers.legacy.Adam(),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_they_are_those_that_keras_makes(build, data, name):
    found = []
    for made_before in (False, True):
        keras.backend.clear_session()
        keras.utils.set_random_seed(0)
        model, optimizer = build("sequential"), OPTIMIZERS[name]()
        model.compile(optimizer, "mse")
        if made_before:
            make_optimizer_variables(optimizer, model.trainable_variables)
            make_optimizer_variables(optimizer, model.trainable_variables)
        model.fit(data[0], np.ones((40, 3)), epochs=2, verbose=0, shuffle=False)
        variables = optimizer.variables() if name == "legacy" else optimizer.variables
        found.append([(v.name, v.shape, v.numpy().tolist()) for v in variables])
        found[-1].append(model.get_weights()[0].tolist())
    assert found[0] == found[1]


@pytest.mark.slow_cases("adam", "average")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_step_is_traced_once(build, data, private, cross_entropy, monkeypatch, name):
    model = private(build("functional", "layer"))
    model.compile(OPTIMIZERS[name](), cross_entropy, metrics=["accuracy"])
    traces, step = [], type(model).train_step
    monkeypatch.setattr(
        type(model), "train_step", lambda self, lot: traces.append(1) or step(self, lot)
    )
    model.fit(*data, epochs=2, verbose=0)
    assert model.ledger.updates == 8 and len(traces) == 1
