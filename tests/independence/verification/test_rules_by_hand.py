"""Inputs that a rule must not take, on graphs made by hand: an error in a rule is a false claim."""

from tests.each import each
from tests.independence.verification.graphs_by_hand import ROWS, Made, P
from tfdpnorm.independence.verification.verdicts import FREE, ListOf, Mixed, Rows

IMAGE = ((P, P, P, P), ROWS)
PLACES = ((P,), ROWS, "int32")
LIST = ((), ListOf(ROWS), "variant")
SCALAR = ((), FREE, "int32")

# By name: the type of the operation, its attributes, and its inputs: shape, verdict and dtype. The
# shapes are such that no check of shapes notices what is wrong. Numbers are constants.
WRONG = {
    "filters of examples": ("Conv2D", {}, [IMAGE, IMAGE]),
    "images on another axis": ("Conv2D", {}, [((P, P, P, P), Rows(1)), ((P, P, P, P), FREE)]),
    "sums of filters": ("Conv2DBackpropFilter", {}, [IMAGE, SCALAR, IMAGE]),
    "a bias of examples": ("BiasAdd", {}, [((P, P), ROWS), ((P,), ROWS)]),
    "pools over examples": (
        "MaxPool",
        {"ksize": [2, 1, 1, 1], "strides": [1, 1, 1, 1]},
        [IMAGE],
    ),
    "a list of the examples": ("TensorListFromTensor", {}, [((P, P), ROWS), SCALAR]),
    "places in a list": ("TensorListGetItem", {}, [LIST, PLACES, SCALAR]),
    "sizes of a list": ("TensorListResize", {}, [LIST, PLACES]),
    "other elements of a list": ("TensorListPushBack", {}, [LIST, ((P, P), Rows(1))]),
    "indices and table of examples": (
        "GatherV2",
        {"batch_dims": 0},
        [((P, P), Rows(1)), PLACES, 0],
    ),
    "examples by free indices": (
        "GatherV2",
        {"batch_dims": 0},
        [((P, P), ROWS), ((P,), FREE, "int32"), 0],
    ),
    "a batch of indices, along the examples": (
        "GatherV2",
        {"batch_dims": 1},
        [((P, P), Rows(1)), ((P, P), ROWS, "int32"), 1],
    ),
    "segments of examples": (
        "UnsortedSegmentSum",
        {},
        [((P, P), ROWS), ((P,), FREE, "int32"), P],
    ),
    "entropies along the examples": (
        "SoftmaxCrossEntropyWithLogits",
        {},
        [((P, P), Rows(1)), ((P, P), Rows(1))],
    ),
    "moments of the batch": (
        "FusedBatchNormV3",
        {"data_format": "NHWC", "is_training": True},
        [IMAGE, *[((P,), FREE)] * 4],
    ),
    "moments of examples": (
        "FusedBatchNormV3",
        {"data_format": "NHWC", "is_training": False},
        [IMAGE, *[((P,), ROWS)] * 4],
    ),
    "products of all examples": (
        "MatMul",
        {"transpose_a": False, "transpose_b": True},
        [((P, P), ROWS), ((P, P), ROWS)],
    ),
    "sums over examples": (
        "MatMul",
        {"transpose_a": True, "transpose_b": False},
        [((P, P), ROWS), ((P, P), FREE)],
    ),
    "diagonals": ("Einsum", {"equation": "ii->i"}, [((P, P), ROWS)]),
    "traces": ("Einsum", {"equation": "ij,ij->ij"}, [((P, P), ROWS), ((P, P), Rows(1))]),
    "softmax over examples": ("Softmax", {}, [((P, P), Rows(1))]),
    "running sums over examples": ("Cumsum", {}, [((P, P), ROWS), 0]),
    "axes of examples": ("Sum", {"keep_dims": True}, [((P, P), ROWS), PLACES]),
    "solutions for several examples": (
        "MatrixSolve",
        {},
        [((P, P, P), Rows(1)), ((P, P, P), Rows(1))],
    ),
    "parts of the batch": ("Slice", {}, [((2 * P, P), Rows(0, 1, 2)), [1, 0], [P, P]]),
    "reversed examples": ("ReverseV2", {}, [((P, P), ROWS), [0]]),
    "several rows joined": (
        "ConcatV2",
        {},
        [((P, P), ROWS), ((2 * P, P), Rows(0, 2)), 0],
    ),
    "examples with other entries": (
        "ConcatV2",
        {},
        [((P, P), ROWS), ((2, P), FREE), 0],
    ),
    "other axes stacked": ("Pack", {"axis": 0}, [((P, P), ROWS), ((P, P), Rows(1))]),
    "examples unstacked": ("Unpack", {"axis": 0, "num": P}, [((P, P), ROWS)]),
    "mirrored examples": ("MirrorPad", {}, [((P, P), ROWS), [[P, P], [0, 0]]]),
    "a shape of examples": ("Reshape", {}, [((P, P), ROWS), ((2,), Rows(0), "int32")]),
    "broadcasts of two axes": ("AddV2", {}, [((P, P), ROWS), ((P, P), Rows(1))]),
    "rows and blocks": ("AddV2", {}, [((2 * P,), Rows(0, 2)), ((2 * P,), Rows(0, 1, 2))]),
    "a vector on the last axis": ("AddV2", {}, [((P, P), ROWS), ((P,), ROWS)]),
    "shuffled examples": ("RandomShuffle!", {}, [((P, P), ROWS)]),
    "draws by examples": ("RandomUniform!", {}, [((1,), ROWS, "int32")]),
    "tables of examples": (
        "ResourceGather!",
        {},
        [((), Mixed("", "", "", ""), "resource"), PLACES],
    ),
    "true classes of no rows": (
        "LogUniformCandidateSampler!",
        {},
        [((P, P), Mixed("", "", "", ""))],
    ),
}


@each("name", WRONG)
def test_wrong_inputs_are_mixed(name):
    kind, attributes, inputs = WRONG[name]
    made, given = Made(), []
    for each_input in inputs:
        if isinstance(each_input, tuple):
            shape, verdict, *dtype = each_input
            given.append(made.input(verdict, shape, *dtype))
        else:
            given.append(made.constant(each_input))
    shapes = [(P, P)] if kind not in ("Conv2D", "MaxPool") else [(P, P, P, P)]
    if kind == "FusedBatchNormV3":
        shapes = [(P, P, P, P)] + 5 * [(P,)]
    if kind in ("Slice", "ConcatV2", "GatherV2", "Pack", "Conv2DBackpropFilter"):
        shapes = [None]
    dtype = "variant" if kind.startswith("TensorList") and "Get" not in kind else "float32"
    made.op(kind, *given, shapes=shapes, dtype=dtype, **attributes)
    found = made.verdict(made.graph.operations[-1].outputs[0])
    assert isinstance(found, Mixed), found
