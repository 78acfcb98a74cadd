"""Public-batch normalisation inside TimeDistributed is the same layer over all steps."""

import numpy as np
import pytest
from tensorflow import keras

from tests.private_of import private_of
from tfdpnorm.layers import PublicBatchNormalization

layers = keras.layers
STEPS, FEATURES = 3, 4


def network(*inner):
    return keras.Sequential(
        [keras.Input((STEPS, FEATURES)), *inner, layers.Flatten(), layers.Dense(3)]
    )


def direct():
    inner = keras.Sequential([layers.Dense(4, "tanh"), PublicBatchNormalization()])
    return network(layers.TimeDistributed(inner))


def over_all():
    return network(layers.Dense(4, "tanh"), PublicBatchNormalization())


@pytest.mark.parametrize("engine", ["book_keeping", "per_example"])
def test_it_trains_as_the_layer_over_all_steps_does(engine):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(24, STEPS, FEATURES)).astype(np.float32)
    y = rng.integers(3, size=24)
    public = 2.0 + 3.0 * rng.normal(size=(6, STEPS, FEATURES)).astype(np.float32)
    results, weights = [], None
    for make in (direct, over_all):
        model = make()
        weights = weights or [w + rng.normal(size=w.shape) for w in model.get_weights()]
        model.set_weights(weights)
        private = private_of(
            model,
            num_examples=24,
            expected_batch_size=8,
            steps=3,
            l2_norm_clip=0.5,
            public_batch=public,
            engine=engine,
            insecure_seed=1,
        )
        private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        private.fit(x, y, verbose=0)
        # But for the number of rows that moments come from: here each step is one.
        trained = [w for w in model.get_weights() if w.ndim]
        results.append([*trained, private.predict(x, verbose=0)])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    before = [w for w in weights if w.ndim]
    assert all(np.abs(w - old).max() > 1e-3 for w, old in zip(results[0], before, strict=False))
