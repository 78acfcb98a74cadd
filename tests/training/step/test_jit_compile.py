"""XLA on and off train to the same weights, whatever form the engine takes under it."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tfdpnorm import models


def patches():
    return keras.Sequential(
        [
            keras.Input((12, 12, 3)),
            keras.layers.Conv2D(4, 3, padding="same", activation="relu"),
            keras.layers.GroupNormalization(2),
            keras.layers.Flatten(),
            keras.layers.Dense(3),
        ]
    )


def row_by_row():
    return keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            keras.layers.Conv2D(32, 3, padding="same"),
            keras.layers.Conv2D(48, 3),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(3),
        ]
    )


def bilstm():
    return models.build("bilstm", input_shape=(6,), vocabulary_size=50, embedding_dim=4, units=3)


def transformer():
    return models.build("transformer", input_shape=(6,))


@pytest.mark.slow
@pytest.mark.parametrize(
    "build",
    [
        patches,
        pytest.param(row_by_row, marks=pytest.mark.slow),
        pytest.param(bilstm, marks=pytest.mark.slow),
        pytest.param(transformer, marks=pytest.mark.slow),
    ],
)
def test_compiled_training_gives_the_same_weights(build, private):
    results = []
    for jit_compile in (False, True):
        keras.utils.set_random_seed(4)
        model = build()
        rng = np.random.default_rng(0)
        x = 9 * rng.random((40, *model.input_shape[1:]))
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        trained = private(model, insecure_seed=3, l2_norm_clip=0.5, physical_batch_size=8)
        trained.compile(keras.optimizers.SGD(0.1), loss, jit_compile=jit_compile)
        x = x.astype(tf.as_dtype(model.inputs[0].dtype).as_numpy_dtype)
        trained.fit(x, np.arange(40) % 3, epochs=1, steps_per_epoch=3, verbose=0)
        results.append(np.concatenate([w.ravel() for w in model.get_weights()]))
    np.testing.assert_allclose(results[1], results[0], rtol=1e-4, atol=1e-5)
