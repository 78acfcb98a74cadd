"""What a proof says, and what it rejects to be made of."""

import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each
from tfdpnorm.independence.book_keeping import (
    prove_book_keeping,
    prove_training,
    remembered_tensors,
)
from tfdpnorm.independence.outputs import prove, prove_outputs
from tfdpnorm.independence.verification.registry import rule, supported
from tfdpnorm.independence.verification.verdicts import (
    FREE,
    ListOf,
    Mixed,
    Rows,
    fits,
    join,
)
from tfdpnorm.keras_compat.graphs import traced

P = 5
SPEC = tf.TensorSpec([P, 4])
MIXTURE = Mixed("layer/sum", "Sum", "layer", "sums")


def test_a_proof_holds_if_every_output_does():
    proof = prove(lambda x: {"a": x + 1, "b": tf.ones([P])}, (SPEC,), P)
    assert proof.holds and proof.obstacle is None
    assert [claim.verdict for claim in proof.claims] == [Rows(0), FREE]
    assert "verified" in str(proof.claims[0])


def test_positions_depend_on_no_example():
    proof = prove(lambda x: (x, tf.range(tf.shape(x)[0])), (SPEC,), P)
    assert proof.holds and proof.claims[1].verdict == FREE


def test_the_obstacle_names_the_operation_and_its_scope():
    def function(x):
        with tf.name_scope("mixing"):
            return x, tf.reduce_sum(x, 0, name="total")

    proof = prove(function, (SPEC,), P)
    assert not proof.holds
    (failed,) = proof.failed
    assert failed.what == "output 1"
    assert proof.culprit.op_type == "Sum"
    assert proof.culprit.scope == "mixing"
    assert "Sum 'mixing/total' in mixing" in proof.obstacle


def test_the_culprit_is_where_the_examples_met_first():
    def function(x):
        return tf.nn.relu(tf.cumsum(x, name="first") @ tf.ones([4, 2])) - x[::-1, :2]

    assert prove(function, (SPEC,), P).culprit.op_name == "first"


def test_the_culprit_in_a_function_is_named_after_its_call():
    inner = tf.function(lambda x: tf.cumsum(x, name="inside"), autograph=False)
    name = prove(lambda x: inner(x), (SPEC,), P).culprit.op_name
    assert name.endswith("/inside") and "PartitionedCall" in name


@each("per_example", [1, 2])
def test_the_rows_of_an_example_are_counted(per_example):
    function = lambda x: tf.repeat(x, per_example, axis=0)  # noqa: E731
    assert prove(function, (SPEC,), P, per_example).holds
    assert not prove(function, (SPEC,), P, 3).holds


def test_writing_rows_is_a_fault_and_writing_free_values_is_not():
    variable = tf.Variable(tf.zeros([4]))

    def counts(x):
        variable.assign_add(tf.ones([4]))
        return x + variable

    def remembers(x):
        variable.assign(tf.reduce_sum(x, 0))
        return x

    assert prove(counts, (SPEC,), P).holds
    proof = prove(remembers, (SPEC,), P)
    assert not proof.holds and proof.failed == ()
    assert proof.obstacle == str(proof.state_faults[0])


def test_state_that_examples_decide_on_is_a_fault():
    variable = tf.Variable(0.0)

    def function(x):
        tf.cond(tf.reduce_sum(x) > 0, lambda: variable.assign_add(1.0), lambda: variable + 0)
        return x

    (fault,) = prove(function, (SPEC,), P).state_faults
    assert fault.op_type == "If" and "AssignAddVariableOp" in fault.why


@each("draw", [tf.random.uniform, tf.random.Generator.from_seed(1).uniform])
def test_random_numbers_that_examples_decide_to_draw_are_a_fault(draw):
    """They would move the numbers that are drawn later."""

    def function(x):
        noise = tf.cond(tf.reduce_sum(x) > 0, lambda: draw([]), lambda: 0.0)
        return x + 0 * tf.stop_gradient(tf.zeros_like(noise))

    assert prove(function, (SPEC,), P).state_faults


def test_an_assertion_on_all_examples_is_no_fault():
    def function(x):
        tf.debugging.assert_less(x, 1e9)
        return x * 2

    assert prove(function, (SPEC,), P).holds


def test_tables_that_are_filled_with_examples_are_a_fault():
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)

    def function(i):
        found = table.lookup(i)
        table.insert(i, i)
        return found

    proof = prove(function, (tf.TensorSpec([P], tf.int64),), P)
    assert [fault.op_type for fault in proof.state_faults] == ["LookupTableInsertV2"]


def test_specs_have_known_shapes_and_the_examples_before():
    for spec in (tf.TensorSpec([None, 4]), tf.TensorSpec([P, None]), tf.TensorSpec([P + 1, 4])):
        with pytest.raises(ValueError, match=r"Expected specs of known shape \[5, \.\.\.\], got"):
            prove(lambda x: x, (spec,), P)


def test_a_proof_is_made_eagerly():
    @tf.function
    def outer(x):
        prove(lambda y: x, (SPEC,), P)
        return x

    with pytest.raises(RuntimeError, match="The verification was called inside a graph"):
        outer(tf.ones([P, 4]))


def test_a_model_that_the_loss_does_not_reach_is_rejected():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])

    def unconnected(y, predictions):
        return tf.stop_gradient(predictions)[:, 0]

    with pytest.raises(ValueError, match="Expected the loss to depend on every trainable variable"):
        prove_training(model, unconnected, SPEC, tf.TensorSpec([P]))


def test_a_loss_that_reads_no_example_is_not_verified():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])

    def make_loss_fn(x, mask):
        def loss_fn(x, y, sample_weight):
            predictions = model(tf.ones([P, 4]))
            return predictions[:, 0], predictions

        return loss_fn

    proof = prove_book_keeping(model, make_loss_fn, SPEC, tf.TensorSpec([P]))
    assert proof.obstacle == "the losses: reads no example"


def test_cached_tensors_are_found_in_structures_and_objects():
    class Kept:
        def __init__(self, tensor):
            self.tensor = tensor

    a, b, c = (tf.constant(float(i)) for i in range(3))
    layer = keras.layers.Dense(1)
    layer.left = tf.constant(3.0)
    remembered = [{"a": (a, 3, None)}, Kept([b, Kept(c)]), layer, tf.Variable(1.0)]
    found = {float(t) for t in remembered_tensors(remembered)}
    assert found == {0.0, 1.0, 2.0}


# --- what a graph reads of the graph outside ---


@each("seen_as_public", [False, True])
def test_captured_tensors_may_depend_on_examples_unless_public(seen_as_public):
    with tf.Graph().as_default():
        outside = tf.compat.v1.placeholder(tf.float32, [P, 4])
        inner = traced(lambda x: x * tf.reduce_mean(outside), (tf.TensorSpec([P, 4]),)).graph
    proof = prove_outputs(inner, P, public=[outside] if seen_as_public else [])
    assert proof.holds == seen_as_public
    assert seen_as_public or "of the graph outside" in proof.obstacle


# --- verdicts ---


@each(
    ("one", "other", "both"),
    [
        (FREE, FREE, FREE),
        (FREE, Rows(1, 2), Rows(1, 2)),
        (Rows(0), Rows(0), Rows(0)),
        (Rows(0), Rows(1), None),
        (Rows(0, 2), Rows(0, 1, 2), None),
        (Rows(0), MIXTURE, MIXTURE),
        (ListOf(FREE), ListOf(Rows(0)), ListOf(Rows(0))),
        (FREE, ListOf(Rows(0)), ListOf(Rows(0))),
        (ListOf(Rows(1)), ListOf(Rows(0)), None),
        (ListOf(Rows(1)), Rows(0), None),
    ],
)
def test_join_of_verdicts_is_symmetric(one, other, both):
    assert join(one, other) == join(other, one) == both


def test_rows_fit_shapes_with_so_many_entries_on_their_axis():
    assert fits(Rows(1, 2, 3), (7, 6 * P), P)
    for shape in (None, (), (6 * P,), (7, None), (7, 6)):
        assert not fits(Rows(1, 2, 3), shape, P)


# --- the registry ---


def test_an_operation_has_one_rule():
    with pytest.raises(ValueError, match="Expected one rule for 'MatMul', got two"):
        rule("MatMul")(lambda node: None)


def test_every_rule_is_of_an_operation_that_tensorflow_has():
    assert [name for name in supported() if not hasattr(tf.raw_ops, name)] == []


def test_operations_without_a_rule_are_mixed_unless_all_is_free():
    proof = prove(lambda x: tf.linalg.lu(x)[0], (tf.TensorSpec([P, 3, 3]),), P)
    assert proof.culprit.why == "no rule is known for this operation"
    assert prove(lambda x: x[:, 0] + tf.linalg.lu(tf.eye(3))[0][0, 0], (SPEC,), P).holds
