"""Convolutions, pooling, cross entropies and what else has the batch on its first axis.

Lemma. Result n of the batch is computed from image n and from the other inputs. If these are free,
or of rows on a first axis of their own that is aligned with the batch, it stays with its example.
"""

import functools

from tfdpnorm.independence.verification.registry import rule


def _per_image(node, batched):
    """The verdict on an operation on each entry of the first axis, that of the `batched` inputs."""
    found = {v for i, v in node.rows if i in batched}
    others = [i for i in range(len(node.verdicts)) if i not in batched]
    if not node.all_free(others):
        return node.mixed("has filters or sizes that depend on examples")
    if len(found) > 1:
        return node.mixed("rows of several kinds meet")
    rows = found.pop()
    if rows.axis:
        return node.meeting("works along the axis of the examples, which is not the first")
    return rows


def _pool(node, batched):
    return _whole_images(node) or _per_image(node, batched)


def _whole_images(node):
    if any(node.attr(name)[0] != 1 for name in ("ksize", "strides")):
        return node.meeting("pools over the axis of the examples")
    return None


# By types of operations: the inputs that are of rows. Of some, one only says the size of another.
_BATCHED = {
    """
    Conv2D Conv3D DepthwiseConv2dNative Dilation2D ExtractImagePatches ExtractVolumePatches
    ResizeArea ResizeBicubic ResizeBilinear ResizeNearestNeighbor ResizeNearestNeighborGrad
    ScaleAndTranslate
    """: (0,),
    """
    ImageProjectiveTransformV2 ImageProjectiveTransformV3 ResizeBicubicGrad ResizeBilinearGrad
    ScaleAndTranslateGrad SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits
    """: (0, 1),
    """
    Conv2DBackpropInput Conv3DBackpropInput Conv3DBackpropInputV2
    DepthwiseConv2dNativeBackpropInput
    """: (2,),
    "Dilation2DBackpropInput": (0, 2),
}
_POOLED = {
    # The places of an argmax may count those of the images before, which are as many for each.
    "AvgPool AvgPool3D MaxPool MaxPool3D MaxPoolWithArgmax": (0,),
    "AvgPoolGrad AvgPool3DGrad": (1,),
    "MaxPoolGrad MaxPool3DGrad MaxPoolGradGrad MaxPool3DGradGrad": (0, 1, 2),
}
for _function, _table in ((_per_image, _BATCHED), (_pool, _POOLED)):
    for _types, _inputs in _table.items():
        rule(*_types.split())(functools.partial(_function, batched=_inputs))


@rule(
    "BiasAddGrad",
    "Conv2DBackpropFilter",
    "Conv3DBackpropFilter",
    "Conv3DBackpropFilterV2",
    "DepthwiseConv2dNativeBackpropFilter",
    "Dilation2DBackpropFilter",
    "L2Loss",
)
def _over_batch(node):
    return node.meeting("sums over all examples")


@rule("MaxPoolGradWithArgmax")
def _argmax_gradient(node):
    """The kernel trusts the places that it is given: they have to be those of the pooling."""
    places = node.op.inputs[2]
    pooling = places.op
    if pooling.type != "MaxPoolWithArgmax" or places.index != 1:
        return node.mixed("gets places from elsewhere than its pooling")
    if pooling.inputs[0].shape != node.op.inputs[0].shape or any(
        pooling.attributes[name] != node.attr(name)
        for name in ("include_batch_in_index", "ksize", "padding", "strides")
    ):
        return node.mixed("gets places of another pooling")
    return _whole_images(node) or _per_image(node, (0, 1, 2))


@rule("AdjustContrastv2")
def _contrast(node):
    """Moves each channel from its mean over height and width, the axes before the last."""
    rows, rank = node.of_rows(0), node.rank(0)
    if rows is None or rank is None or rows.axis >= rank - 3:
        return node.meeting("takes means over the axis of the examples, or a factor from them")
    return rows


@rule("AdjustHue", "AdjustSaturation", "RGBToHSV", "HSVToRGB")
def _colours(node):
    rows, rank = node.of_rows(0), node.rank(0)
    if rows is None or rank is None or rows.axis == rank - 1:
        return node.meeting("works along the axis of the examples, or a factor from them")
    return rows


@rule("BiasAdd")
def _bias_add(node):
    return node.of_rows(0) or node.mixed("adds a bias that depends on examples")
