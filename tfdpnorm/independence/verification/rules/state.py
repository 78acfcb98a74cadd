"""Variables, random numbers, and operations that give nothing on.

Lemma. A variable is free at first, and stays so if only free values are written to it. Random
numbers come from a stream that the state of a generator or of a kernel says, and that is as a
variable. How many a draw takes depends on its shape alone: so if that is free, the state stays
free, and so do the numbers, unless they are made from parameters that depend on examples. How many
there are must not depend on examples even where none of them is used: what is drawn later would.
"""

from tfdpnorm.independence.verification.registry import rule
from tfdpnorm.independence.verification.verdicts import FREE

# Arguments of draws that do not say how many numbers are drawn, if their own shape is known.
_PARAMETERS = """
alpha counts logits maxval maxvals means minval minvals probs rate stdevs value
""".split()


@rule("VarHandleOp", "ReadVariableOp", "VarIsInitializedOp", "VariableShape")
def _read(node):
    return FREE if node.all_free(range(len(node.verdicts))) else node.mixed("reads by examples")


rule("Assert", "NoOp", "Print", "PrintV2", takes_mixed=True)(
    lambda node: list(node.verdicts[: len(node.op.outputs)])
)


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
    "StatefulStandardNormal",
    "StatefulStandardNormalV2",
    "StatefulTruncatedNormal",
    "StatefulUniform",
    "StatefulUniformFullInt",
    "StatefulUniformInt",
    "RngReadAndSkip",
    "RngSkip",
    "StatefulRandomBinomial",
    takes_mixed=True,
)
def _draw(node):
    if node.all_free(range(len(node.verdicts))):
        return FREE
    if node.op.is_stateful:
        _check_count(node)
    return node.mixed("draws random numbers by values that depend on examples")


def _check_count(node):
    """Notes a fault if the number of random numbers that are drawn depends on examples."""
    names = node.op.arguments
    for i, verdict in enumerate(node.verdicts):
        known = names[i] in _PARAMETERS and node.op.inputs[i].size is not None
        if verdict != FREE and not known:
            node.fault("how many random numbers are drawn, or which, depends on examples")
            return


@rule("Multinomial", "StatelessMultinomial", takes_mixed=True)
def _draw_classes(node):
    """From logits [rows, classes], by as many random numbers for each row, whatever these are."""
    rows = node.of_rows(0)
    if rows is None:
        return _draw(node)
    return node.meeting("draws an example") if rows.axis else rows


@rule("RandomShuffle", takes_mixed=True)
def _shuffle(node):
    """The order of the first axis is free."""
    rows = node.of_rows(0)
    if rows is None:
        return _draw(node)
    return node.meeting("shuffles the examples") if rows.axis == 0 else rows


rule("ImmutableConst", "HashTableV2", "AnonymousHashTable", "LookupTableSizeV2")(lambda node: FREE)


@rule("PyFunc", "PyFuncStateless", "EagerPyFunc", takes_mixed=True)
def _python(node):
    if not node.all_free(range(len(node.verdicts))):
        node.fault("a Python function, which may keep them, gets values that depend on examples")
    return node.mixed("runs a Python function, which is not followed")
