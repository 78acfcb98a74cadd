"""What kinds of operation a graph holds, besides arithmetic."""

import contextlib
import re

from tfdpnorm.keras_compat.functions import NoGraph, called_functions, function_graph

_DRAWS_BY_KERNELS = re.compile(
    r"Random(Uniform|Standard|Shuffle|Gamma|Poisson|Crop)|TruncatedNormal|ParameterizedTruncated|"
    r"Multinomial|SampleDistortedBoundingBox"
)
_DRAWS_BY_VARIABLES = re.compile(r"Stateful(Uniform|Standard|Truncated|Random)|Rng(ReadAnd)?Skip")
_PYTHON = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}
_STORES = re.compile(r"LookupTable(Insert|Import|Remove)|QueueEnqueue|BarrierInsert|(Map)?Stage$")


def operation_types(graph):
    """Returns the set of types of operation in a `FuncGraph` and in the functions that it calls."""
    found, walked, graphs = set(), set(), [graph]
    while graphs:
        for op in graphs.pop().get_operations():
            found.add(op.type)
            for name in set(called_functions(op)) - walked:
                walked.add(name)
                with contextlib.suppress(NoGraph):
                    graphs.append(function_graph(op, name))
    return found


def draws_by_kernels(types):
    """Whether operations of these types draw random numbers by counters inside of kernels."""
    return any(_DRAWS_BY_KERNELS.match(each) for each in types)


def draws_by_variables(types):
    """Whether operations of these types draw random numbers by a state in a variable."""
    return any(_DRAWS_BY_VARIABLES.match(each) for each in types)


def calls_python(types):
    """Whether operations of these types run Python functions."""
    return bool(_PYTHON & types)


def stores(types):
    """Sorted names of those types that put what they get into tables or queues."""
    return sorted(each for each in types if _STORES.match(each))


def elements(graph):
    """Number of floats in all tensors of known shape in a graph: what a run of it costs."""
    shapes = [t.shape for op in graph.get_operations() for t in op.outputs if t.dtype.is_floating]
    return sum(shape.num_elements() or 0 for shape in shapes)
