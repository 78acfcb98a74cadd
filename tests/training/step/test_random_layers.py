"""Models that draw random numbers are verified and trained, by each engine and compiled."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.private_of import private_of

layers = keras.layers


class Jitter(layers.Layer):
    """Draws from a generator of its own."""

    def __init__(self):
        super().__init__()
        self.generator = tf.random.Generator.from_seed(7)

    def call(self, x):
        return x * (1.0 + self.generator.normal(tf.shape(x)))


def images(*drawing):
    return keras.Sequential([keras.Input((3, 3, 1)), *drawing, layers.Flatten(), layers.Dense(2)])


def all_that_draw():
    """Layers of Keras, a kernel's operation, a generator and a function that is traced before."""
    return images(
        layers.Dropout(0.5, seed=3),
        layers.RandomFlip(),
        layers.Lambda(lambda x: x + tf.random.normal(tf.shape(x))),
        Jitter(),
        layers.Lambda(tf.function(lambda x: x + tf.random.normal(tf.shape(x)))),
    )


def trained(model, engine, *, noise_generator=None, **compiled):
    private = private_of(
        model,
        num_examples=24,
        expected_batch_size=6,
        steps=3,
        delta=1e-4,
        physical_batch_size=4,
        engine=engine,
        noise_generator=noise_generator,
    )
    private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(True), **compiled)
    x = np.random.default_rng(0).normal(size=(24, 3, 3, 1)).astype(np.float32)
    private.fit(x, np.arange(24) % 2, verbose=0)
    return private


@pytest.mark.quick_cases("book_keeping")
@pytest.mark.parametrize("engine", ["book_keeping", "per_example"])
@pytest.mark.filterwarnings("ignore:Examples are taken one row at a time")
def test_a_model_that_draws_is_verified_and_trained(engine):
    private = trained(all_that_draw(), engine)
    assert private.ledger.guarantee_holds and private.ledger.updates == 3
    said = " ".join(private.privacy_statement().split())
    assert ("verified from the graph" if engine == "book_keeping" else "computed by itself") in said


def test_it_is_compiled_by_xla():
    compiled = dict(noise_generator="philox", jit_compile=True)
    model = images(layers.Dropout(0.5))
    assert trained(model, "book_keeping", **compiled).ledger.updates == 3
