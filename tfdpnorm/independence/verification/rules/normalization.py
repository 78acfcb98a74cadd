"""Fused batch normalisation.

Lemma. With given moments (inference) each entry is scaled and shifted by free numbers. With moments
of its own (training) an entry is computed from all entries of its channel: of one example only if
the examples are the channels, as Keras' LayerNormalization has it, with [1, rows, features, 1].
"""

from tfdpnorm.independence.verification.registry import rule
from tfdpnorm.independence.verification.verdicts import FREE, Rows

_FUSED = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
_SCRATCH = 5  # output and, in the gradient, input: what the kernel of the gradient wants to keep


def _channels(node):
    return node.attr("data_format").index("C")


def _of_channels(node, axis, images):
    """The one layout of all inputs, the first `images` of them images, if it is of channels."""
    layouts = set()
    for i, verdict in enumerate(node.verdicts):
        if isinstance(verdict, Rows):
            expected = axis if i < images else 0
            layouts.add(verdict.at(0) if node.is_of(i, verdict.at(expected)) else None)
    return layouts.pop() if len(layouts) == 1 else None


@rule(*_FUSED)
def _forward(node):
    axis, count = _channels(node), len(node.op.outputs)
    rows = node.of_rows(0)
    if not node.attr("is_training") and rows is not None and rows.axis != axis:
        return [rows] + [FREE] * (count - 1)
    layout = _of_channels(node, axis, 1)
    if layout is None:
        return node.meeting("takes the moments of all examples")
    scratch = node.mixed("is scratch memory of the kernel")
    return [layout.at(axis), *[layout] * 4, *[scratch] * (count - 5)]


@rule("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3", takes_mixed=True)
def _gradient(node):
    given = node.op.inputs[_SCRATCH:]
    if any(x.op.type not in _FUSED or x.index != _SCRATCH for x in given):
        return node.mixed("has scratch memory from elsewhere")
    verdicts = node.verdicts[:_SCRATCH]
    culprit = next((v for v in verdicts if not isinstance(v, Rows) and v != FREE), None)
    if culprit is not None:
        return culprit
    axis, count = _channels(node), len(node.op.outputs)
    sums = node.meeting("sums over all examples")
    layout = _of_channels(node, axis, 2)
    if layout is not None:
        return [layout.at(axis), layout, layout, *[sums] * (count - 3)]
    found = {v for v in verdicts[:2] if isinstance(v, Rows)}
    moments_free = all(v == FREE for v in verdicts[2:])
    if node.attr("is_training") or not moments_free or len(found) != 1:
        return node.meeting("takes the moments of all examples")
    return [found.pop(), sums, sums, *[sums] * (count - 3)]
