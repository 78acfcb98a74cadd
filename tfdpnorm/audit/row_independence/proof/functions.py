"""The graphs of the functions that an operation calls.

Private part: `Graph._get_function`, the one way from the name of a function in an attribute, which
is what the runtime goes by, to its graph.
"""


class NoGraph(LookupError):
    """The graph of a function could not be found."""


def function_graph(op, name):
    """Returns the `FuncGraph` of a function, with its `inputs` and `outputs`.

    Args:
        op: The `tf.Operation` that calls it.
        name: Name of the function.

    Raises:
        NoGraph: if it is not known.
    """
    graph = op.graph
    while graph is not None:
        function = graph._get_function(name)
        if function is not None:
            found = getattr(function, "graph", None)
            if found is None:
                break
            return found
        graph = getattr(graph, "outer_graph", None)
    raise NoGraph(f"the graph of function {name!r} is not known")


def called_functions(op):
    """Returns the names of the functions that an operation may call, from all its attributes."""
    names = []
    for name in op.node_def.attr:
        value = op.node_def.attr[name]
        if value.HasField("func"):
            names.append(value.func.name)
        names += [function.name for function in value.list.func]
    return names
