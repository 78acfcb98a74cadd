"""Where examples meet the proof fails, and names the operation; elsewhere in the model it holds."""

import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tests.independence.verification.coupled_models import (
    FEATURES,
    LOSSES,
    MODELS,
    OTHER_ROWS,
    P,
    around,
)
from tfdpnorm.independence.book_keeping import prove_training

CROSS_ENTROPY = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
LABELS = tf.TensorSpec([P], tf.int64)


def of_rows(shape, dtype=tf.float32):
    return tf.TensorSpec([P, *shape], dtype)


def test_without_a_coupling_the_model_is_verified():
    model = around(lambda x: tf.nn.relu(x))
    proof = prove_training(model, CROSS_ENTROPY, of_rows([FEATURES]), LABELS)
    assert proof.holds, proof.obstacle
    assert proof.obstacle is None and proof.culprit is None and proof.failed == ()


@pytest.mark.filterwarnings("ignore:There is no gradient rule")
@each("name", MODELS)
def test_a_coupling_in_the_model_is_named(name):
    make, named = MODELS[name]
    model = make()
    proof = prove_training(model, CROSS_ENTROPY, of_rows(model.input_shape[1:]), LABELS)
    assert not proof.holds
    assert {proof.culprit.op_type, *(f.op_type for f in proof.state_faults)} & named, proof.obstacle
    assert proof.culprit.why in proof.obstacle


def test_the_scope_of_the_culprit_is_that_of_its_layer():
    make, _ = MODELS["mean_of_the_batch"]
    proof = prove_training(make(), CROSS_ENTROPY, of_rows([FEATURES]), LABELS)
    # Keras 3 numbers the calls.
    assert proof.culprit.scope.rpartition("/")[2] in ("coupling", "coupling_1")


@each("name", LOSSES)
def test_a_coupling_in_the_loss_is_named(name):
    loss, named = LOSSES[name]
    model = around(lambda x: x)
    proof = prove_training(model, loss, of_rows([FEATURES]), LABELS)
    assert proof.failed[0].what == "the losses"
    assert proof.culprit.op_type in named, proof.obstacle


@each("name", OTHER_ROWS)
def test_a_trained_layer_on_other_rows_is_not_verified(name):
    make, shape, dtype, words = OTHER_ROWS[name]
    proof = prove_training(make(), CROSS_ENTROPY, of_rows(shape, tf.as_dtype(dtype)), LABELS)
    assert not proof.holds
    assert words in proof.obstacle


def test_writing_examples_is_a_fault_though_all_is_verified():
    make, _ = MODELS["a_running_mean"]
    proof = prove_training(make(), CROSS_ENTROPY, of_rows([FEATURES]), LABELS)
    assert proof.failed == ()
    (fault,) = proof.state_faults
    assert fault.op_type == "AssignVariableOp" and "a variable gets" in fault.why


@each("examples", [2, 7])
def test_a_coupling_from_8_rows_on_is_not_in_smaller_graphs(examples):
    """What is proved is proved for the number of rows that it was traced for."""
    make, _ = MODELS["from_8_rows_on"]
    x, y = tf.TensorSpec([examples, FEATURES]), tf.TensorSpec([examples], tf.int64)
    assert prove_training(make(), CROSS_ENTROPY, x, y).holds


def test_a_gradient_through_the_example_count_is_not_verified():
    """The engine's mask is one of the rows: whoever divides by its sum couples them."""

    def make_forward(x, mask):
        return lambda x: model(x, training=True) / tf.reduce_sum(mask)

    model = around(lambda x: x)
    proof = prove_training(
        model, CROSS_ENTROPY, of_rows([FEATURES]), LABELS, make_forward=make_forward
    )
    assert proof.culprit.op_type == "Sum"
