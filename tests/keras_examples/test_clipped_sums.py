"""The clipped sums of Keras' examples: equal to the loop, and moved by at most C by one row.

The models have as many steps as the physical batch has examples, so that no shape tells a layer
that reads positions from one that reads examples.
"""

import pytest
import tensorflow as tf
from tensorflow import keras

from tests.gradients.looped_reference import looped_sum, relative_error
from tests.keras_examples.case import P, private_with
from tests.keras_examples.examples import EXAMPLES, without_dropout
from tests.keras_examples.positions import NO_EXAMPLE
from tfdpnorm.audit.sensitivity import measure_sensitivity
from tfdpnorm.data import Lot
from tfdpnorm.gradients import book_keeping
from tfdpnorm.independence import prove_training

CLIP = 0.05
# Their inputs are floats, and their operations have gradients of gradients.
ASCENDED = ("vision_transformer", "sequence_to_sequence")


def loss_function(model, case):
    loss = keras.losses.get(case.whole_loss)
    loss = getattr(loss, "call", loss)

    def loss_fn(x, y, sample_weight):
        predictions = model(x, training=True)
        losses = loss(y, predictions)
        losses = tf.reduce_mean(tf.reshape(losses, [tf.shape(losses)[0], -1]), 1)
        return losses * sample_weight, predictions

    return loss_fn


def tensors(structure):
    return tf.nest.map_structure(tf.constant, structure)


@pytest.mark.slow_cases(
    "unet", "text_transformer", "sequence_to_sequence", "convolutional_vae", "vision_*"
)
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_clipped_sum_equals_the_loop(name):
    check_equal_to_the_loop(without_dropout(name))


@pytest.mark.slow_cases(*sorted(set(NO_EXAMPLE) - {"positions_broadcast_vectors"}))
@pytest.mark.parametrize("name", NO_EXAMPLE)
def test_the_clipped_sum_with_positions_equals_the_loop(name):
    check_equal_to_the_loop(NO_EXAMPLE[name])


def check_equal_to_the_loop(case):
    model = case.build()
    x, y = tensors(case.rows(P))
    mask = tf.constant([1.0] * (P - 1) + [0.0])
    rows = (x, y, tf.ones([P]), mask)
    loss_fn = loss_function(model, case)
    variables = model.trainable_variables
    options = {"broadcast": prove_training(model, case.whole_loss, case.x, case.y).broadcast_layers}

    for clip in (CLIP, 1e6):
        clipped = tf.function(
            lambda c=clip: book_keeping(model, loss_fn, rows, variables, c, **options)
        )
        found = [g.numpy() for g in clipped().gradients]
        assert relative_error(found, looped_sum(loss_fn, rows, variables, clip)) < 1e-5


def trained(name, **settings):
    """A private model after three updates, and the rows that it was trained on."""
    case = without_dropout(name)
    x, y = case.rows(2 * P)
    private = private_with(case, num_examples=2 * P, steps=3, l2_norm_clip=CLIP, **settings)
    private.fit(x, y, verbose=0)
    return private, x, y


def of_first(rows, count):
    return tf.nest.map_structure(lambda leaf: leaf[:count], rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_clipped_sum_of_a_trained_model_equals_the_loop(name):
    private, x, y = trained(name)
    rows = (*tensors(of_first((x, y), P)), tf.ones([P]), tf.ones([P]))
    lot = Lot(*tf.nest.map_structure(lambda t: t[tf.newaxis], rows))
    found = [g.numpy() for g in private.clipped_sum(lot)]
    model = private.model
    loss_fn = loss_function(model, EXAMPLES[name])
    expected = looped_sum(loss_fn, rows, model.trainable_variables, CLIP)
    assert relative_error(found, expected) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_rows_move_the_clipped_sum_by_at_most_the_clipping_norm(name):
    """In a lot of one physical batch; C is so small that every row is clipped."""
    private, x, y = trained(name)
    found = measure_sensitivity(
        private, *of_first((x, y), P), ascent_steps=3 if name in ASCENDED else 0
    )
    assert 0.99 < found.add_or_remove_one <= 1 + 1e-4, found.add_or_remove_one_case
    assert found.replace <= 2 + 1e-4, found.replace_case


@pytest.mark.slow
def test_rows_apart_need_no_rule_for_positions():
    private, x, y = trained("text_transformer", engine="per_example")
    found = measure_sensitivity(private, *of_first((x, y), P))
    assert 0.99 < found.add_or_remove_one <= 1 + 1e-4, found.add_or_remove_one_case
