"""Variables, random numbers, and operations that give nothing on.

Lemma. A variable is free at first, and stays so if only free values are written to it. Random
numbers are drawn by place: they are free if their shape is. The draws of generators that are
variables move these by free amounts. See `draws` for those that are drawn for one example each.
"""

import tensorflow as tf

from tfdpnorm.audit.row_independence.proof.registry import rule
from tfdpnorm.audit.row_independence.proof.verdicts import FREE, Free

_CHANGES = "changes a variable with each physical batch, of which a lot may have several"


@rule("VarHandleOp", "ReadVariableOp", "VarIsInitializedOp", "VariableShape")
def _read(node):
    return FREE if node.all_free(range(len(node.verdicts))) else node.mixed("reads by examples")


@rule("Assert", "NoOp", "Print", "PrintV2", takes_mixed=True)
def _gives_nothing(node):
    node.apart(range(len(node.verdicts)))
    return list(node.verdicts[: len(node.op.outputs)])


@rule(
    "AssignVariableOp",
    "AssignAddVariableOp",
    "AssignSubVariableOp",
    "ResourceScatterAdd",
    "ResourceScatterUpdate",
    "ResourceScatterNdUpdate",
    "ResourceStridedSliceAssign",
    takes_mixed=True,
)
def _write(node):
    if not node.all_free(range(len(node.verdicts))):
        source = next((v for v in node.verdicts if v != FREE), None)
        node.fault(f"a variable gets a value that depends on examples ({source})")
    elif _may_be_a_generator(node):
        node.fault("may set the state of a generator, so that its random numbers are no secret")
    else:
        node.walk.draws.write(node.mixed(_CHANGES))
    return []


def _may_be_a_generator(node):
    """Whether a value that is written is of the type and shape of a generator's state."""
    value = node.op.inputs[-1]
    return value.dtype == tf.int64 and value.shape.rank == 1 and value.shape[0] in (None, 2, 3)


@rule(
    "RandomStandardNormal",
    "RandomUniform",
    "RandomUniformInt",
    "TruncatedNormal",
    "ParameterizedTruncatedNormal",
    "RandomGamma",
    "RandomPoisson",
    "RandomPoissonV2",
    "StatefulStandardNormal",
    "StatefulStandardNormalV2",
    "StatefulTruncatedNormal",
    "StatefulUniform",
    "StatefulUniformFullInt",
    "StatefulUniformInt",
    "RngReadAndSkip",
    "RngSkip",
    "StatefulRandomBinomial",
)
def _draw(node):
    if node.all_free(range(len(node.verdicts))):
        return FREE
    node.fault("how many random numbers are drawn, or which, depends on examples")
    return node.mixed("draws random numbers by values that depend on examples")


@rule("Multinomial", "StatelessMultinomial")
def _draw_classes(node):
    """From logits [rows, classes], by as many random numbers for each row, whatever these are."""
    rows = node.of_rows(0)
    if rows is None:
        return _draw(node)
    if rows.axis:
        return node.mixed("draws an example")
    seeds = [v.seed if isinstance(v, Free) else None for v in node.verdicts]
    return node.walk.draws.for_each(node, seeds, rows)


@rule("ImmutableConst", "HashTableV2", "AnonymousHashTable", "LookupTableSizeV2")
def _constant(node):
    return FREE


@rule("PyFunc", "PyFuncStateless", "EagerPyFunc", takes_mixed=True)
def _python(node):
    if not node.all_free(range(len(node.verdicts))):
        node.fault("a Python function, which may keep them, gets values that depend on examples")
    return node.mixed("runs a Python function, which is not followed")
