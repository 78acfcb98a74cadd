"""Convolutions, pooling and what else computes on images, whose first axis is the batch.

Lemma. Result n of the batch is computed from image n and from the other inputs. If these are free,
or of rows on a first axis of their own that is aligned with the batch, it stays with its example.
"""

from tfdpnorm.independence.verification.registry import rule


def _per_image(node, batched=(0,)):
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


@rule(
    "Conv2D",
    "Conv3D",
    "DepthwiseConv2dNative",
    "Dilation2D",
    "ExtractImagePatches",
    "ExtractVolumePatches",
    "ResizeArea",
    "ResizeBicubic",
    "ResizeBilinear",
    "ResizeNearestNeighbor",
    "ResizeNearestNeighborGrad",
    "ScaleAndTranslate",
)
def _first(node):
    return _per_image(node)


@rule("ResizeBilinearGrad", "ResizeBicubicGrad", "ScaleAndTranslateGrad")
def _resize_gradient(node):
    """The second input only says the size of the first."""
    return _per_image(node, (0, 1))


@rule(
    "Conv2DBackpropInput",
    "Conv3DBackpropInput",
    "Conv3DBackpropInputV2",
    "DepthwiseConv2dNativeBackpropInput",
)
def _by_input(node):
    return _per_image(node, (2,))


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


@rule("Dilation2DBackpropInput")
def _dilation_by_input(node):
    return _per_image(node, (0, 2))


@rule("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D")
def _pool(node):
    return _whole_images(node) or _per_image(node)


@rule("MaxPoolWithArgmax")
def _pool_with_places(node):
    """The places may count those of the images before, which are as many for each."""
    return _whole_images(node) or _per_image(node)


@rule("AvgPoolGrad", "AvgPool3DGrad")
def _average_gradient(node):
    return _whole_images(node) or _per_image(node, (1,))


@rule("MaxPoolGrad", "MaxPool3DGrad", "MaxPoolGradGrad", "MaxPool3DGradGrad")
def _maximum_gradient(node):
    return _whole_images(node) or _per_image(node, (0, 1, 2))


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


def _whole_images(node):
    if any(node.attr(name)[0] != 1 for name in ("ksize", "strides")):
        return node.meeting("pools over the axis of the examples")
    return None


@rule("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def _projective(node):
    """A transform for each image, or one for all."""
    return _per_image(node, (0, 1))


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
