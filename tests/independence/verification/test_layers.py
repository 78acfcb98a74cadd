"""Keras layers and losses that look at a whole batch; others are in tests/keras_conformance."""

import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.independence.book_keeping import prove_training

P = 4  # also a size of other axes, on purpose
layers = keras.layers


def spec(*shape, dtype=tf.float32):
    return tf.TensorSpec([P, *shape], dtype)


def proof_of(model, x, loss="sparse_categorical_crossentropy", y=None):
    return prove_training(model, loss, x, spec(dtype=tf.int64) if y is None else y)


@each("name", ["hinge", "squared_hinge"])
def test_hinge_losses_are_not_verified_as_one_label_changes_all(name):
    """Keras takes all labels for 0 and 1 if all of the batch are, and for -1 and 1 else."""
    model = keras.Sequential([keras.Input((5,)), layers.Dense(1)])
    proof = proof_of(model, spec(5), name, spec(1))
    assert not proof.holds
    assert proof.culprit.op_type == "All"
    value = keras.losses.get(name)
    alone = value(tf.constant([[0.0], [1.0]]), tf.constant([[0.5], [0.5]]))
    beside = value(tf.constant([[0.0], [-1.0]]), tf.constant([[0.5], [0.5]]))
    assert alone[0] != beside[0]


DRAWN_FOR_A_BATCH = {
    "layer": lambda: layers.RandomContrast(0.2),
    "number": lambda: layers.Lambda(lambda x: x * tf.random.uniform([])),
    "row": lambda: layers.Lambda(lambda x: x + tf.random.normal([4, 4, 3])),
}


@each("name", DRAWN_FOR_A_BATCH)
def test_layers_drawing_for_a_whole_batch_are_verified(name):
    """Positions are drawn across all physical batches, so that none of them tells an example."""
    behind = [layers.Flatten(), layers.Dense(3)]
    model = keras.Sequential([keras.Input((4, 4, 3)), DRAWN_FOR_A_BATCH[name](), *behind])
    proof = proof_of(model, spec(4, 4, 3))
    assert proof.holds, proof.obstacle
