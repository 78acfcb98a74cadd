"""A model that draws random numbers is compiled by XLA."""

import numpy as np
from tensorflow import keras

from tests.private_of import private_of

layers = keras.layers


def test_it_is_compiled_by_xla():
    drawing = [keras.Input((3, 3, 1)), layers.Dropout(0.5), layers.Flatten(), layers.Dense(2)]
    private = private_of(
        keras.Sequential(drawing), steps=3, physical_batch_size=4, noise_generator="philox"
    )
    loss = keras.losses.SparseCategoricalCrossentropy(True)
    private.compile("sgd", loss, jit_compile=True)
    x = np.random.default_rng(0).normal(size=(40, 3, 3, 1)).astype(np.float32)
    private.fit(x, np.arange(40) % 2, verbose=0)
    assert private.engine == "book_keeping" and private.ledger.updates == 3
