"""Models and losses that no graph can hold: single gradients and proofs are computed in graphs."""

import re

from tfdpnorm.audit.row_independence.mode import short
from tfdpnorm.keras_compat.walk import sublayers

_CALLED = re.compile(r"when calling layer ['\"](\S+)['\"] \(")  # as Keras says it


def check_no_dynamic_layers(model):
    """Refuses layers of whose `call` their author says that it runs eagerly only.

    Args:
        model: A Keras model.

    Raises:
        ValueError: naming the first of them.
    """
    for layer in reversed((model, *sublayers(model))):  # what holds a dynamic layer is, too
        if layer.dynamic:
            raise ValueError(
                f"Expected layers that run in a graph, got {type(layer).__name__} {layer.name!r} "
                "with dynamic=True. If its call() holds operations of TensorFlow alone, leave "
                "dynamic=True out; otherwise write it in them."
            )


def in_no_graph(error):
    """The ValueError for a model or a loss that an eager step runs, but that cannot be traced.

    Args:
        error: What it raised when it was traced.
    """
    layer = _CALLED.search(str(error))
    where = "" if layer is None else f" in layer {layer[1]!r}"
    what = short(error).partition(". ")[0].removesuffix(".")  # without TensorFlow's advice
    return ValueError(
        "Expected a model and a loss that run in a graph, in which gradients of single examples "
        f"are computed with run_eagerly=True too, got {what}{where}. Write them in operations of "
        "TensorFlow, without branches of Python on values."
    )
