"""The walk, verdicts and claims, on graphs made by hand: no rule may be trusted beyond its word."""

import numpy as np
import pytest

from tests.each import each
from tests.independence.verification.graphs_by_hand import ROWS, Made, P, function
from tfdpnorm.independence.verification.claims import Asked, Claim, Question, verify
from tfdpnorm.independence.verification.registry import rule
from tfdpnorm.independence.verification.verdicts import FREE, ListOf, Mixed, Rows, fits, join


def is_mixed(verdict, op_type=None):
    return isinstance(verdict, Mixed) and op_type in (None, verdict.op_type)


@pytest.fixture
def made():
    return Made()


@pytest.fixture
def x(made):
    return made.input()


# --- operations without a rule, and rules that fail ---


def test_an_operation_without_a_rule_is_mixed_unless_all_is_free(made, x):
    free = made.input(FREE)
    assert is_mixed(made.verdict(made.op("NoSuchOperation", x)), "NoSuchOperation")
    assert is_mixed(made.verdict(made.op("NoSuchOperation", free, x)))
    assert made.verdict(made.op("NoSuchOperation", free)) == FREE


@each(
    "kind, attributes",
    [
        ("Einsum", {}),  # KeyError
        ("Einsum", {"equation": "ij"}),  # ValueError
        ("Transpose", {}),  # IndexError: there is no second input
        ("Unpack", {"axis": None}),  # TypeError
    ],
)
def test_a_rule_that_fails_claims_nothing(kind, attributes):
    made = Made()
    assert is_mixed(made.verdict(made.op(kind, made.input(), **attributes)), kind)


def test_what_is_mixed_stays_so(made, x):
    mixed = made.op("NoSuchOperation", x)
    for kind in ("Relu", "AddV2", "NoSuchOperation"):
        found = made.verdict(made.op(kind, mixed))
        assert is_mixed(found, "NoSuchOperation")


def test_a_placeholder_that_is_no_input_is_mixed(made):
    assert is_mixed(made.verdict(made.op("Placeholder")), "Placeholder")


@each("kind", ["Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch"])
def test_control_flow_of_version_1_is_mixed(kind):
    made = Made()
    assert is_mixed(made.verdict(made.op("Relu", made.op(kind, made.input(FREE)))), kind)


def test_circles_end_in_an_error(made):
    one = made.op("Relu", made.input())
    other = made.op("Relu", one)
    one.op.inputs = [other]
    with pytest.raises(RecursionError):
        made.verdict(other)


def test_operations_may_come_before_their_inputs(made, x):
    first = made.op("Relu", x)
    later = made.op("NoSuchOperation", x)
    first.op.inputs = [later]
    assert is_mixed(made.verdict(first), "NoSuchOperation")


def test_two_rules_for_one_type_are_an_error():
    with pytest.raises(ValueError, match="Relu"):
        rule("Relu")(print)


# --- state ---


def test_state_without_a_rule_is_never_free(made, x):
    free = made.input(FREE)
    assert is_mixed(made.verdict(made.op("NoSuchState!", free)), "NoSuchState")
    assert made.faults() == []
    made.op("NoSuchState!", x)
    assert made.faults() == ["NoSuchState"]


def test_writes_of_examples_are_faults_wherever_they_are(made, x):
    handle = made.input(FREE, (), "resource")
    made.op("AssignVariableOp!", handle, made.input(FREE), shapes=())
    assert made.faults() == []
    # No tensor that is asked for depends on it.
    made.op("AssignVariableOp!", handle, x, shapes=())
    assert made.faults() == ["AssignVariableOp"]


def test_writes_of_what_is_mixed_are_faults(made, x):
    handle = made.input(FREE, (), "resource")
    made.op("AssignVariableOp!", handle, made.op("NoSuchOperation", x), shapes=())
    assert made.faults() == ["AssignVariableOp"]


def test_writes_within_a_function_are_faults(made, x):
    def write(inner, handle, value):
        inner.op("AssignVariableOp!", handle, value, shapes=())
        return value

    handle = made.input(FREE, (), "resource")
    called = function(write, (), (P, 4))
    made.op("PartitionedCall", handle, x, functions=[("f", called)])
    assert made.faults() == ["AssignVariableOp"]


def test_a_function_that_is_unknown_is_a_fault(made, x):
    out = made.op("PartitionedCall", x, functions=[("f", None)])
    assert is_mixed(made.verdict(out)) and made.faults(out) == ["PartitionedCall"]


def test_an_operation_without_a_rule_that_calls_functions_is_a_fault(made, x):
    inner = function(lambda inner, x: x, (P, 4))
    out = made.op("MapDefun", x, functions=[("f", inner)])
    assert is_mixed(made.verdict(out), "MapDefun") and made.faults(out) == ["MapDefun"]
    free = made.op("MapDefun", made.input(FREE), functions=[("f", inner)])
    assert is_mixed(made.verdict(free), "MapDefun")


def _branch(kind, nested):
    def body(inner, handle, x):
        if kind == "ReadVariableOp!":
            inner.op(kind, handle)
        else:
            inner.op(kind, handle, x, shapes=())
        return x

    branch = function(body, (), (P, 4))
    if nested:

        def call(inner, handle, x):
            return inner.op("PartitionedCall", handle, x, functions=[("f", branch)])

        branch = function(call, (), (P, 4))
    return branch


@each("kind, faults", [("AssignAddVariableOp!", ["If"]), ("ReadVariableOp!", [])])
@each("nested", [False, True])
def test_examples_must_not_decide_whether_state_changes(kind, faults, nested):
    made = Made()
    chosen = made.input(ROWS, (P,), "bool")
    predicate = made.op("NoSuchOperation", chosen, shapes=((),), dtype="bool")
    handle, value = made.input(FREE, (), "resource"), made.input(FREE)
    branches = [(name, _branch(kind, nested)) for name in ("then_branch", "else_branch")]
    out = made.op("If!", predicate, handle, value, functions=branches)
    assert made.faults(out) == faults
    assert is_mixed(made.verdict(out), "NoSuchOperation")


def test_a_loop_whose_turns_examples_decide_is_mixed(made):
    x = made.input(ROWS, (P,), "bool")
    condition = function(lambda inner, x: inner.op("NoSuchOperation", x, shapes=((),)), (P,))
    body = function(lambda inner, x: x, (P,))
    loop = made.op("While", x, shapes=((P,),), functions=[("cond", condition), ("body", body)])
    assert is_mixed(made.verdict(loop), "NoSuchOperation")


def test_what_a_loop_changes_is_followed_to_its_end(made, x):
    """The second variable gets the first one a turn later."""
    free = made.input(FREE)
    condition = function(
        lambda inner, *v: inner.op("NoSuchOperation", shapes=((),)), (P, 4), (P, 4), (P, 4)
    )
    body = function(lambda inner, a, b, c: [a, a, b], (P, 4), (P, 4), (P, 4))
    loop = made.op(
        "While", x, free, free, shapes=[(P, 4)] * 3, functions=[("cond", condition), ("body", body)]
    )
    assert [made.verdict(t) for t in loop] == [ROWS, ROWS, ROWS]


# --- calls ---


def _summed(inner, x, axes):
    return inner.op("Sum", x, axes, shapes=((None,),), keep_dims=False)


def test_calls_of_one_function_by_other_constants_have_other_verdicts(made):
    x = made.input(shape=(P, P))
    called = function(_summed, (P, P), (1,), dtype="int32")
    outs = [
        made.op(
            "PartitionedCall", x, made.constant([axis]), shapes=((P,),), functions=[("f", called)]
        )
        for axis in (1, 0)
    ]
    assert made.verdict(outs[0]) == ROWS
    assert is_mixed(made.verdict(outs[1]), "Sum")
    assert [isinstance(c.verdict, Mixed) for c in made.asked(*outs).claims] == [False, True]


def test_calls_of_one_function_on_other_rows_have_other_verdicts(made, x):
    called = function(lambda inner, x: inner.op("Relu", x), (P, 4))
    outs = [
        made.op("PartitionedCall", given, functions=[("f", called)])
        for given in (made.input(FREE), x)
    ]
    assert [c.verdict for c in made.asked(*outs).claims] == [FREE, ROWS]


def test_names_tell_the_way_through_functions(made, x):
    called = function(lambda inner, x: inner.op("NoSuchOperation", x), (P, 4))
    out = made.op("PartitionedCall", x, functions=[("f", called)])
    assert made.verdict(out).op_name == f"{out.op.name}/NoSuchOperation_1"


@each("shape, holds", [((P, 4), True), ((2 * P, 4), False), ((None, 4), False)])
def test_branches_of_rows_and_of_what_is_free_need_the_shape_of_rows(shape, holds):
    made = Made()
    given = made.input(), made.input(FREE)
    branches = [
        (name, function(lambda inner, a, b, i=i: (a, b)[i], (P, 4), (P, 4)))
        for i, name in enumerate(["then_branch", "else_branch"])
    ]
    out = made.op("If", made.input(FREE, (), "bool"), *given, shapes=(shape,), functions=branches)
    assert made.verdict(out) == ROWS if holds else is_mixed(made.verdict(out), "If")


# --- what is checked of every verdict ---


def test_a_tensor_without_entries_is_free(made, x):
    assert made.verdict(made.op("NoSuchOperation", x, shapes=((0, 4),))) == FREE
    for dtype in ("variant", "resource"):
        assert is_mixed(made.verdict(made.op("NoSuchOperation", x, shapes=((0,),), dtype=dtype)))


def test_a_number_that_bounds_decide_is_free(made):
    x = made.input(ROWS, (P,), "int32")
    low, high = made.constant([6, 6, 6]), made.constant([6, 6, 7])
    mixed = made.op("NoSuchOperation", x, shapes=((P,),), dtype="int32")
    at_least = made.op("Maximum", mixed, low, shapes=((P,),), dtype="int32")
    decided = made.op("Minimum", at_least, low, shapes=((P,),), dtype="int32")
    other = made.op("Minimum", at_least, high, shapes=((P,),), dtype="int32")
    assert made.verdict(decided) == FREE and is_mixed(made.verdict(other))


@each(
    "shape, examples, holds",
    [
        ((P, 4), P, True),
        ((P + 1, 4), P, False),
        ((4, P), P, False),
        ((), P, False),
        ((None, 4), P, True),
        ((None, 4), 1, False),  # it may have been broadcast
        ((1, 4), 1, True),
        (None, P, True),
    ],
)
def test_rows_need_the_shape_of_rows(shape, examples, holds):
    made = Made()
    made.input(shape=(examples, 4))
    out = made.op("Relu", made.graph.inputs[0], shapes=(shape,))
    found = made.verdict(out, examples)
    assert found == ROWS if holds else is_mixed(found)


def test_inputs_are_checked_as_well(made):
    assert is_mixed(made.verdict(made.input(shape=(P + 1, 4))))


def test_lists_hold_no_numbers_and_numbers_are_no_lists(made, x):
    assert is_mixed(made.verdict(made.op("Relu", x, shapes=((P,),), dtype="variant")))
    with_list = made.input(ListOf(ROWS), (), "variant")
    assert made.verdict(made.op("Identity", with_list, shapes=((),), dtype="variant")) == ListOf(
        ROWS
    )
    assert is_mixed(made.verdict(made.op("Identity", with_list, shapes=((P, 4),))))


# --- verdicts ---


MIXED = Mixed("op", "Op", "", "why")


@each(
    "one, other, expected",
    [
        (FREE, FREE, FREE),
        (FREE, ROWS, ROWS),
        (ROWS, ROWS, ROWS),
        (ROWS, Rows(1), None),
        (ROWS, Rows(0, 2), None),
        (ROWS, Rows(0, 1, 2), None),
        (MIXED, FREE, MIXED),
        (ROWS, MIXED, MIXED),
        (ListOf(FREE), ListOf(ROWS), ListOf(ROWS)),
        (ListOf(ROWS), FREE, ListOf(ROWS)),
        (ListOf(ROWS), ListOf(Rows(1)), None),
        (ListOf(ROWS), ROWS, None),
        (ListOf(MIXED), ListOf(FREE), MIXED),
    ],
)
def test_a_value_that_is_one_or_the_other(one, other, expected):
    assert join(one, other) == join(other, one) == expected


@each(
    "verdict, shape, expected",
    [
        (FREE, None, True),
        (MIXED, (7,), True),
        (ROWS, None, False),
        (ROWS, (), False),
        (ROWS, (P,), True),
        (ROWS, (2 * P,), False),
        (ROWS, (None,), False),
        (Rows(0, 2), (2 * P,), True),
        (Rows(0, 1, 2), (2 * P,), True),
        (Rows(0, 2, 2), (2 * P,), False),
        (Rows(1), (P,), False),
        (Rows(-1), (P,), False),
    ],
)
def test_shapes_that_a_verdict_fits(verdict, shape, expected):
    assert fits(verdict, shape, P) == expected


def test_sizes_of_rows():
    rows = Rows(1, 2, 5)
    assert (rows.period(P), rows.size(P), rows.at(0)) == (6, 30, Rows(0, 2, 5))


# --- claims ---


def test_a_claim_holds_for_one_layout_alone():
    for verdict in (Rows(1), Rows(0, 2), Rows(0, 1, 2), ListOf(ROWS), MIXED):
        assert not Claim("it", 1, verdict).holds
    assert Claim("it", 2, Rows(0, 2)).holds and Claim("it", 1, FREE).holds
    assert not Claim("it", 1, FREE, may_be_free=False).holds


def test_what_no_example_changes_needs_a_gradient_of_rows(made, x):
    free = made.input(FREE)
    mixed = made.op("NoSuchOperation", x)

    def claims(gradient):
        asked = [Asked("z", free, gradient=1), Asked("b", gradient)]
        return verify(Question(made.graph, P, made.given, asked)).claims

    assert [c.holds for c in claims(x)] == [True, True]
    assert [c.holds for c in claims(mixed)] == [False, False]
    assert claims(mixed)[0].reads_no_example


def test_constants_outside_are_free(made, x):
    asked = [Asked("outside", None), Asked("x", x), Asked("none", None, may_be_free=False)]
    proof = verify(Question(made.graph, P, made.given, asked))
    assert [c.verdict for c in proof.claims] == [FREE, ROWS, FREE]
    assert [c.holds for c in proof.claims] == [True, True, False] and not proof.holds


def test_a_proof_with_a_state_fault_does_not_hold(made, x):
    assert made.asked(x).holds
    made.op("NoSuchState!", x)
    proof = made.asked(x)
    assert not proof.holds and not proof.failed
    assert proof.culprit.op_type == "NoSuchState" and "NoSuchState" in proof.obstacle


def test_examples_that_are_known_to_meet_are_told_from_others(made, x):
    summed = made.op("Sum", x, made.constant([0]), shapes=((4,),), keep_dims=False)
    assert made.asked(summed).couples and not made.asked(made.op("NoSuchOperation", x)).couples
    assert not made.asked(x).couples


def test_memory_that_is_written_in_place_is_never_known(made, x):
    made.op("InplaceUpdate", x, made.input(FREE, (1,), "int32"), made.input(FREE))
    proof = made.asked(x)
    assert is_mixed(proof.claims[0].verdict, "InplaceUpdate") and not proof.state_faults
    made.op("RandomUniform!", made.constant([P, 4]))
    assert not made.asked(x).state_faults  # it keeps none
    made.op("NoSuchState!", made.input(FREE))
    assert [f.op_type for f in made.asked(x).state_faults] == ["InplaceUpdate"]


def test_memory_that_a_function_writes_in_place_is_never_known(made, x):
    called = function(lambda inner, x: inner.op("InplaceAdd", x, x, x), (P, 4))
    made.op("PartitionedCall", made.input(FREE), functions=[("f", called)])
    assert is_mixed(made.verdict(x), "InplaceAdd")


# --- rows of an operation's inputs ---


def test_other_inputs_have_to_be_free(made, x):
    """Rules that look at the first input alone."""
    others = made.input(ROWS, (P,), "int32")
    for kind, attributes in (("BiasAdd", {}), ("Reshape", {}), ("OneHot", {"axis": -1})):
        assert is_mixed(made.verdict(made.op(kind, x, others, **attributes)), kind)


@each("examples, holds", [(1, True), (2, False)])
def test_one_example_may_be_on_any_axis_of_one(examples, holds):
    """So it is in the gradient of a batch normalisation that has the examples for channels."""
    made = Made()
    x, scale = made.input(Rows(0), (examples, 1, 4, 5)), made.input(FREE, (1,))
    (normalised, *_) = made.op(
        "FusedBatchNormV3",
        *(x, scale, scale, scale, scale),
        shapes=[(examples, 1, 4, 5)] + 5 * [(1,)],
        data_format="NCHW",
        is_training=True,
    )
    found = made.verdict(normalised, examples)
    assert found == Rows(1) if holds else is_mixed(found, "FusedBatchNormV3")


def test_large_constants_are_data(made, x):
    """What is not read cannot say along which axis a sum is."""
    axes = made.op("Const", shapes=((1,),), dtype="int32")
    assert is_mixed(made.verdict(made.op("Sum", x, axes, shapes=((4,),), keep_dims=False)), "Sum")
    assert np.ndim(made.constant([0]).op.attributes["value"]) == 1
