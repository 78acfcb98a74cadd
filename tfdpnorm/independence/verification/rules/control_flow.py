"""Calls of functions, conditions and loops.

Lemma. A call is what its graph is. A condition that is free takes the same branch in two runs that
agree in what is free, and each result is that of this branch: what holds for the results of all
branches holds. Of a loop whose condition is free two such runs take the same number of turns; if
what is known of the loop's variables before a turn holds after it as well, it holds at the end.
Where the condition is not free, what state the functions change depends on examples.
"""

from tfdpnorm.independence.verification.registry import rule
from tfdpnorm.independence.verification.verdicts import FREE, Mixed
from tfdpnorm.plain_graph import called

_MOST_ROUNDS = 50  # each one moves a variable up a short scale, so that few are needed


@rule("PartitionedCall", "StatefulPartitionedCall", takes_mixed=True)
def _call(node):
    constants = [node.constant(i) for i in range(len(node.verdicts))]
    verdicts, values = node.walk.call(node.op, "f", node.verdicts, constants)
    # A function that was differentiated hands axes and shapes on to its gradient.
    for tensor, value in zip(node.op.outputs, values, strict=True):
        node.walk.constants.give(tensor, value)
    return verdicts


@rule("If", "StatelessIf", "Case", "StatelessCase", takes_mixed=True)
def _condition(node):
    op = node.op
    constants = [node.constant(i) for i in range(len(node.verdicts))]
    if op.type in ("If", "StatelessIf"):
        names = ["then_branch", "else_branch"]
    else:
        names = list(op.functions)
    if node.verdicts[0] != FREE:
        _no_state(node, names, "whether it is run")
        why = "which branch is taken depends on examples"
        return _culprit(node, node.verdicts[0], why)
    taken = _taken(op, names, constants[0])
    found = [node.walk.call(op, name, node.verdicts[1:], constants[1:])[0] for name in taken]
    result = found[0]
    for other in found[1:]:
        pairs = enumerate(zip(result, other, strict=True))
        result = [node.walk.joined(op, i, a, b) for i, (a, b) in pairs]
    return result


def _taken(op, names, predicate):
    """The branches that may be taken: one, if the graph alone decides it."""
    if predicate is None or predicate.shape != ():
        return names
    if op.type in ("If", "StatelessIf"):
        return [names[0] if predicate else names[1]]
    index = int(predicate)
    return [names[index if 0 <= index < len(names) else -1]]


@rule("While", "StatelessWhile", takes_mixed=True)
def _loop(node):
    op, walk = node.op, node.walk
    graph = called(op, "body")
    pairs = zip(graph.outputs, graph.inputs, strict=True)
    fixed = [out is given for out, given in pairs]
    constants = [node.constant(i) if same else None for i, same in enumerate(fixed)]
    verdicts = list(node.verdicts)
    for _ in range(_MOST_ROUNDS):
        after, _ = walk.call(op, "body", verdicts, constants)
        pairs = enumerate(zip(verdicts, after, strict=True))
        joined = [walk.joined(op, i, one, other) for i, (one, other) in pairs]
        if joined == verdicts:
            break
        verdicts = joined
    else:
        return node.mixed("no end was found to what its turns change")
    ((goes_on,), _) = walk.call(op, "cond", verdicts, constants)
    if goes_on != FREE:
        _no_state(node, ["cond", "body"], "how often it is run")
        return _culprit(node, goes_on, "the number of turns depends on examples")
    return verdicts


def _culprit(node, verdict, why):
    return verdict if isinstance(verdict, Mixed) else node.mixed(why)


def _no_state(node, names, what):
    written = node.walk.writes(node.op, names)
    if written:
        node.fault(f"{written[0]} changes state, and {what} depends on examples")
