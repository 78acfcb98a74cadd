"""The fused cross entropies.

Lemma. Loss n and row n of the gradient come from row n of logits and labels; where these are
broadcast, from a row that is free.
"""

from tfdpnorm.independence.verification.registry import rule
from tfdpnorm.independence.verification.verdicts import Rows


@rule("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits")
def _cross_entropy(node):
    found = {v for v in node.verdicts if isinstance(v, Rows)}
    if len(found) != 1 or next(iter(found)).axis != 0:
        return node.mixed("works along the axis of the examples")
    return found.pop()
