"""Operations that write into their input: whoever shares it gets what was written."""

import pytest
import tensorflow as tf

from tests.each import each
from tfdpnorm.independence.outputs import prove, prove_state
from tfdpnorm.keras_compat.graphs import traced

P = 4
ROWS = tf.TensorSpec([P, 3])
TYPES = ["InplaceAdd", "InplaceSub", "InplaceUpdate"]


@pytest.fixture
def zeros():
    return tf.Variable(tf.zeros([1, 3]), trainable=False)


def shared(x, zeros, name):
    """Numbers that look free, and hold the first example once the operation has run."""
    free = tf.sin(zeros)
    done = getattr(tf.raw_ops, name)(x=free, i=tf.constant([0]), v=x[:1])
    with tf.control_dependencies([done]):
        return tf.identity(free)


@each("name", TYPES)
def test_outputs_that_share_an_input_are_not_free(zeros, name):
    proof = prove(lambda x: x + shared(x, zeros, name), (ROWS,), P)
    assert not proof.holds and "in place" in proof.obstacle
    in_a_function = tf.function(lambda x: x + shared(x, zeros, name), autograph=False)
    assert not prove(in_a_function, (ROWS,), P).holds


@each("name", TYPES)
def test_state_that_shares_an_input_depends_on_examples(zeros, name):
    """Whatever engine trains: the variable is released without noise."""
    kept = tf.Variable(tf.zeros([1, 3]), trainable=False)

    def keeping(x):
        kept.assign(shared(x, zeros, name))
        return 2.0 * x

    proof = prove_state(traced(keeping, (ROWS,)).graph, P)
    assert proof.state_faults and "in place" in str(proof.state_faults[0])


def test_without_state_rows_that_run_apart_may_write_in_place(zeros):
    graph = traced(lambda x: x + shared(x, zeros, "InplaceAdd"), (ROWS,)).graph
    assert not prove_state(graph, P).state_faults


def test_it_does_write_in_place(zeros):
    found = traced(lambda x: shared(x, zeros, "InplaceAdd"), (ROWS,))(tf.ones([P, 3]))
    assert found.numpy().any()
