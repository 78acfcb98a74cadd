"""The moving average of the weights."""

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm.training import WeightAverage


@pytest.mark.quick_cases("0.2")
@pytest.mark.parametrize("limit", [0.5, 0.2])  # above and below that of the warm-up
def test_average_follows_its_recurrence_and_is_applied(
    limit, build, private, data, public, cross_entropy, weight_trace
):
    model = build(norm="public_batch")
    trained = private(model, public_batch=public, steps=6)
    trained.compile(keras.optimizers.SGD(0.5), cross_entropy)
    average, trace = WeightAverage(limit), weight_trace()
    trained.fit(*data, epochs=1, steps_per_epoch=3, verbose=0, callbacks=[average, trace])
    trained.fit(*data, epochs=1, steps_per_epoch=3, verbose=0, callbacks=[average, trace])

    expected = trace.vectors[0]
    for update, now in enumerate(trace.vectors[1:], start=1):
        decay = min(limit, (1 + update) / (10 + update))
        expected = [decay * e + (1 - decay) * n for e, n in zip(expected, now, strict=True)]
    raw = [v.numpy() for v in model.trainable_variables]
    raw_prediction = trained.predict(data[0], verbose=0)
    with pytest.raises(KeyError), average.applied():
        for variable, value in zip(model.trainable_variables, expected, strict=True):
            np.testing.assert_allclose(variable.numpy(), value, rtol=1e-5, atol=1e-6)
        assert np.abs(trained.predict(data[0], verbose=0) - raw_prediction).max() > 1e-3
        raise KeyError("the weights must come back all the same")
    for variable, value in zip(model.trainable_variables, raw, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_an_execution_of_several_updates_counts_as_many(build, private, data, cross_entropy):
    trained = private(build(), steps=7)
    trained.compile(keras.optimizers.SGD(0.5), cross_entropy, steps_per_execution=3)
    average, seen = WeightAverage(0.9), []
    weights = lambda *_, logs=None: seen.append(trained.model.trainable_variables[0].numpy())  # noqa: E731
    trace = keras.callbacks.LambdaCallback(on_train_begin=weights, on_train_batch_end=weights)
    trained.fit(*data, verbose=0, epochs=1, steps_per_epoch=7, callbacks=[average, trace])
    expected, update = seen[0], 0
    for now, updates in zip(seen[1:], (3, 3, 1), strict=True):
        for _ in range(updates):
            update += 1
            decay = min(0.9, (1 + update) / (10 + update))
            expected = decay * expected + (1 - decay) * now
    with average.applied():
        found = trained.model.trainable_variables[0].numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_an_average_of_another_model_is_not_taken_for_the_runs(build, private, data, cross_entropy):
    model, average = build(), WeightAverage(0.5)
    begun = model.get_weights()
    model.compile("sgd", cross_entropy)
    model.fit(*data, verbose=0, callbacks=[average])
    model.set_weights(begun)
    trained = private(model, steps=6)
    trained.compile("sgd", cross_entropy)
    with pytest.raises(ValueError, match="holds an average of another model"):
        trained.fit(*data, verbose=0, callbacks=[average])


@pytest.mark.parametrize("decay", [-0.1, 1.0, float("nan")])
def test_bad_decay_is_rejected(decay):
    with pytest.raises(ValueError, match="0 <= decay < 1"):
        WeightAverage(decay)


def test_an_average_of_nothing_is_rejected():
    with pytest.raises(RuntimeError, match="There is no average yet"), WeightAverage().applied():
        pass
