"""Element-wise operations, with broadcasting.

Lemma. An entry of the result is computed from the entries of the inputs at the same place, where
axes are aligned from the right and an axis of size 1 has the same entry at all places. If all
inputs of rows have them on the same axis of the result, so laid out, an entry of example i reads
entries of example i and free ones.
"""

from tfdpnorm.independence.verification.registry import rule
from tfdpnorm.independence.verification.verdicts import FREE, ListOf

_ONE = """
Abs Acos Acosh Angle AsString Asin Asinh Atan Atanh BesselI0 BesselI0e BesselI1 BesselI1e Bucketize
Cast Ceil CheckNumerics ComplexAbs Conj Cos Cosh Digamma Elu EnsureShape Erf Erfc Erfinv Exp Expm1
FakeQuantWithMinMaxArgs Floor Identity Imag Inv Invert IsFinite IsInf IsNan LeakyRelu Lgamma Log
Log1p LogicalNot Ndtri Neg PlaceholderWithDefault PreventGradient Real Reciprocal RegexFullMatch
Relu Relu6 Rint Round Rsqrt Selu Sigmoid Sign Sin Sinh Snapshot Softplus Softsign Sqrt Square
StaticRegexFullMatch StaticRegexReplace StopGradient StringLength StringLower StringStrip
StringToHashBucket StringToHashBucketFast StringToNumber StringUpper Tan Tanh
"""
_SEVERAL = """
Add AddN AddV2 ApproximateEqual Atan2 Betainc BitwiseAnd BitwiseOr BitwiseXor ClipByValue Complex
Div DivNoNan EluGrad Equal FakeQuantWithMinMaxArgsGradient FloorDiv FloorMod Greater GreaterEqual
Igamma Igammac InvGrad LeakyReluGrad LeftShift Less LessEqual LogicalAnd LogicalOr Maximum Minimum
Mod Mul MulNoNan NextAfter NotEqual Polygamma Pow RealDiv ReciprocalGrad Relu6Grad ReluGrad
RightShift RsqrtGrad SelectV2 SeluGrad SigmoidGrad SoftplusGrad SoftsignGrad SqrtGrad
SquaredDifference StringJoin Sub TanhGrad TruncateDiv TruncateMod Xdivy Xlog1py Xlogy Zeta
"""

OPERATIONS = frozenset((*_ONE.split(), *_SEVERAL.split()))


def broadcast(node, inputs=None):
    """The verdict on a result that is broadcast from the inputs of some numbers, None for all."""
    inputs = range(len(node.verdicts)) if inputs is None else inputs
    ranks = [node.rank(i) for i in inputs]
    if None in ranks:
        return node.mixed("broadcasts a tensor of unknown rank")
    found = None
    for i, rank in zip(inputs, ranks, strict=True):
        verdict = node.verdicts[i]
        if verdict == FREE:
            continue
        if isinstance(verdict, ListOf):
            return node.mixed("computes with a list")
        verdict = verdict.at(verdict.axis + max(ranks) - rank)
        if found not in (None, verdict):
            return node.mixed(f"{found} meet {verdict}")
        found = verdict
    return FREE if found is None else found


@rule(*_ONE.split())
def _one(node):
    if isinstance(node.verdicts[0], ListOf):
        # Only operations that give their input on take lists.
        return node.verdicts[0]
    return node.verdicts[0] if len(node.verdicts) == 1 else broadcast(node)


@rule(*_SEVERAL.split())
def _several(node):
    if node.op.type == "AddN" and any(isinstance(v, ListOf) for v in node.verdicts):
        # Lists are added element by element.
        found = node.verdicts[0]
        for verdict in node.verdicts[1:]:
            found = node.walk.joined(node.op, 0, found, verdict)
        return found
    return broadcast(node)


@rule("Select")
def _select(node):
    """Version 1: a condition [rows] chooses whole rows of the others."""
    if node.rank(0) == 1 and (node.rank(1) or 0) > 1:
        found = {v for _, v in node.rows}
        rows = found.pop() if len(found) == 1 else None
        if rows is None or (node.verdicts[0] != FREE and rows.axis):
            return node.meeting("chooses between rows of different examples")
        return rows
    return broadcast(node)


rule("IdentityN")(lambda node: list(node.verdicts))


@rule("Bitcast")
def _bitcast(node):
    if node.rank(0) == node.op.outputs[0].rank:
        return node.verdicts[0]
    return node.mixed("takes entries apart")


@rule("LookupTableFindV2")
def _table(node):
    if node.all_free(range(3)):
        return FREE
    keys = node.of_rows(1)
    return keys if keys is not None else node.mixed("depends on examples by its table")
