"""Variables, random numbers, and operations that give nothing on.

Lemma. A variable is free at first, and stays so if only free values are written to it. Random
numbers are drawn by place: they are free if their shape is. The draws of generators that are
variables move these by free amounts.
"""

from tfdpnorm.audit.row_independence.proof.registry import rule
from tfdpnorm.audit.row_independence.proof.verdicts import FREE


@rule("VarHandleOp", "ReadVariableOp", "VarIsInitializedOp", "VariableShape")
def _read(node):
    return FREE if node.all_free(range(len(node.verdicts))) else node.mixed("reads by examples")


@rule("Assert", "NoOp", "Print", "PrintV2", takes_mixed=True)
def _gives_nothing(node):
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
    return []


@rule(
    "RandomStandardNormal",
    "RandomUniform",
    "RandomUniformInt",
    "TruncatedNormal",
    "ParameterizedTruncatedNormal",
    "RandomGamma",
    "RandomPoisson",
    "RandomPoissonV2",
    "Multinomial",
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


@rule("ImmutableConst", "HashTableV2", "AnonymousHashTable", "LookupTableSizeV2")
def _constant(node):
    return FREE


@rule("PyFunc", "PyFuncStateless", "EagerPyFunc", takes_mixed=True)
def _python(node):
    if not node.all_free(range(len(node.verdicts))):
        node.fault("a Python function, which may keep them, gets values that depend on examples")
    return node.mixed("runs a Python function, which is not followed")
