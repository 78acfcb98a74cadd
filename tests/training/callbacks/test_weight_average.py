"""The moving average of the weights."""

import numpy as np
import pytest
from tensorflow import keras

from tfdpnorm.training import WeightAverage


def test_average_follows_its_recurrence_and_is_applied(
    build, private, data, public, cross_entropy, weight_trace
):
    limit = 0.2  # reached within the warm-up
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


def test_an_average_of_another_model_is_not_taken_for_the_runs(
    compiled, build, data, cross_entropy
):
    model, average = build(), WeightAverage(0.5)
    begun = model.get_weights()
    model.compile("sgd", cross_entropy)
    model.fit(*data, verbose=0, callbacks=[average])
    model.set_weights(begun)
    trained = compiled(model, steps=6)
    with pytest.raises(ValueError, match="holds an average of another model"):
        trained.fit(*data, verbose=0, callbacks=[average])


def test_bad_decays_and_averages_of_nothing_are_rejected():
    for decay in (-0.1, 1.0, float("nan")):
        with pytest.raises(ValueError, match="decay"):
            WeightAverage(decay)
    with pytest.raises(RuntimeError, match="no average"), WeightAverage().applied():
        pass
