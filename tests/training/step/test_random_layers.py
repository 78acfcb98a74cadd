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


class Late(keras.Model):
    """Is not built before `fit`, so that Keras makes generators where they first draw."""

    def __init__(self):
        super().__init__()
        self.flip, self.drop = layers.RandomFlip(), layers.Dropout(0.5)
        self.flat, self.head = layers.Flatten(), layers.Dense(2)

    def call(self, x, training=None):
        x = self.flat(self.flip(x, training=training))
        return self.head(self.drop(x, training=training))


def images(*drawing):
    return keras.Sequential([keras.Input((3, 3, 1)), *drawing, layers.Flatten(), layers.Dense(2)])


def steps(*drawing):
    return keras.Sequential([keras.Input((3, 3, 1)), layers.Reshape((3, 3)), *drawing])


def of_call(draw):
    return lambda: images(layers.Lambda(lambda x: x + draw(tf.shape(x))))


MODELS = {
    "dropout": lambda: images(layers.Dropout(0.5)),
    "seeded": lambda: images(layers.Dropout(0.5, seed=3), layers.GaussianNoise(0.1, seed=3)),
    "flip": lambda: images(layers.RandomFlip()),
    "contrast": lambda: images(layers.RandomContrast(0.2)),
    "recurrent": lambda: steps(layers.LSTM(2, dropout=0.2, recurrent_dropout=0.2), layers.Dense(2)),
    "kernel": of_call(tf.random.normal),
    "generator": lambda: images(Jitter()),
    "global": of_call(lambda shape: tf.random.get_global_generator().normal(shape)),
    "traced_before": lambda: images(
        layers.Lambda(tf.function(lambda x: x + tf.random.normal(tf.shape(x))))
    ),
    "late": Late,
}
SLOW = ("*-seeded", "*-contrast", "*-global", "per_example-flip", "per_example-recurrent")


def trained(model, engine, *, noise_generator=None, **compiled):
    private = private_of(
        model,
        num_examples=24,
        expected_batch_size=6,
        steps=3,
        l2_norm_clip=1.0,
        noise_multiplier=1.0,
        delta=1e-4,
        physical_batch_size=4,
        engine=engine,
        noise_generator=noise_generator,
    )
    private.compile("sgd", keras.losses.SparseCategoricalCrossentropy(True), **compiled)
    x = np.random.default_rng(0).normal(size=(24, 3, 3, 1)).astype(np.float32)
    private.fit(x, np.arange(24) % 2, verbose=0)
    return private


@pytest.mark.quick_cases("book_keeping-dropout")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("engine", ["book_keeping", "per_example"])
@pytest.mark.filterwarnings("ignore:Examples are taken one row at a time")
def test_a_model_that_draws_is_verified_and_trained(engine, name):
    private = trained(MODELS[name](), engine)
    assert private.ledger.guarantee_holds and private.ledger.updates == 3
    said = " ".join(private.privacy_statement().split())
    assert ("verified from the graph" if engine == "book_keeping" else "computed by itself") in said


@pytest.mark.quick_cases("dropout")
@pytest.mark.parametrize("name", ["dropout", "generator", "kernel", "recurrent", "global"])
def test_it_is_compiled_by_xla(name):
    compiled = dict(noise_generator="philox", jit_compile=True)
    assert trained(MODELS[name](), "book_keeping", **compiled).ledger.updates == 3
