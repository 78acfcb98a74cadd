"""Private training of layers with variational dropout: sensitivity, the divergence, the draws."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tests.private_of import private_of
from tfdpnorm.layers import VariationalDropoutConv2D, VariationalDropoutDense


def network(hidden=True, **options):
    layers = [VariationalDropoutDense(4, activation="tanh", **options)] if hidden else []
    layers = [*layers, VariationalDropoutDense(3, **options)]
    model = keras.Sequential([keras.Input((5,)), *layers])
    for variable in model.weights:
        if "noise_stddev" in variable.name:
            variable.assign(0.3)
    return model


def test_examples_move_the_sum_by_at_most_the_clipping_norm(compiled, data, one_lot, step_sum):
    """Each in turn, of rows of all sizes; the others draw what they drew."""
    built = network(hidden=False)
    model = compiled(built, l2_norm_clip=0.7, insecure_seed=1)
    x, y = (a[:6] for a in data)
    x = x * np.array([1e-20, 1e-3, 1, 30, 1e6, 1e25], np.float32)[:, None]
    lot, run = one_lot(x, y), step_sum(model)

    def at(mask):
        model.update_count.assign(0)
        for layer in built.layers:
            layer._generator.reset_from_seed(1)
        return run(lot._replace(mask=tf.constant(mask[None])))

    whole = at(np.ones(6, np.float32))
    np.testing.assert_array_equal(at(np.ones(6, np.float32)), whole)
    moved = [np.linalg.norm(whole - at(1 - np.eye(6, dtype="float32")[i])) for i in range(6)]
    assert np.isfinite(moved).all() and max(moved) <= 0.7 * (1 + 1e-6)
    assert max(moved) > 0.69


def test_independence_of_examples_is_verified(data, cross_entropy):
    """By book-keeping, also where a lot has several physical batches."""
    layers = [
        keras.layers.Reshape((5, 1, 1)),
        VariationalDropoutConv2D(2, (3, 1), padding="same", activation="relu"),
        keras.layers.Flatten(),
        VariationalDropoutDense(3, noise="fixed", num_examples=40),
    ]
    built = keras.Sequential([keras.Input((5,)), *layers])
    model = private_of(
        built,
        steps=2,
        noise_multiplier=5.0,
        physical_batch_size=4,
    )
    model.compile("sgd", cross_entropy)
    model.fit(*data, verbose=0)
    assert model.engine == "book_keeping"
    assert any(
        "verified from the graph" in said for said in model.ledger.state.sentences("established")
    )
    assert not model.ledger.state.sentences("no_guarantee")


def test_one_row_at_a_time_each_has_numbers_of_its_own():
    layer = VariationalDropoutDense(3)
    layer.build((None, 2))
    rows = tf.ones([5, 2])
    drawn = tf.vectorized_map(lambda row: layer(row[None], training=True)[0], rows).numpy()
    assert len(np.unique(drawn[:, 0])) == 5
