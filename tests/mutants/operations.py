"""Faults in the gradients of layers that have no rule, from the operations of their call."""

from tests.mutants.mutant import fault

_JOINS = "tfdpnorm/gradients/rules/operations.py"
_TABLES = "tfdpnorm/gradients/rules/embedding.py"
_TESTS = ("tests/gradients/rules/test_operations.py",)

MUTANTS = (
    fault(
        "copies-share-their-gradient",
        _JOINS,
        "return Instantiated(tf.reshape(found, [-1, *u.shape]))",
        "return Instantiated(tf.reshape(found, [-1, *u.shape]) + tf.reduce_mean(found))",
        "An example gets the gradient of all of them.",
        _TESTS,
    ),
    fault(
        "joins-of-several-weights",
        _JOINS,
        "if (joins and len(places) > 1) or not",
        "if not",
        "An operation of two weights counts for the first of them.",
        _TESTS,
    ),
    fault(
        "functions-taken-for-operations",
        _JOINS,
        'any(x.type == "func" for x in op.op_def.attr) or ',
        "",
        "What a function does with a weight is not looked into.",
        _TESTS,
    ),
    fault(
        "custom-gradients-run-without",
        _JOINS,
        ' or "_gradient_op_type" in op.node_def.attr',
        "",
        "A gradient that its author has replaced is the usual one again.",
        _TESTS,
    ),
    fault(
        "returned-weights-not-looked-at",
        _JOINS,
        "left += [t for t in returned if calculation.has(t)]",
        "left += []",
        "What is returned of weights alone has no gradient.",
        _TESTS,
    ),
    fault(
        "product-from-the-wrong-side",
        _JOINS,
        "of_u == (place == 1)",
        "of_u",
        "Products from the left have the transposed gradient.",
        _TESTS,
    ),
    fault(
        "scale-lost-on-the-way-back",
        _JOINS,
        "return part.scaled(others[0])",
        "return part",
        "LoRA has gradients without its factor.",
        _TESTS,
    ),
    fault(
        "lookups-along-any-axis",
        _JOINS,
        "if axis != 0 or op",
        "if op",
        "A lookup of columns is taken for one of rows.",
        _TESTS,
    ),
    fault(
        "stopped-gradients-flow",
        _JOINS,
        '_WITHOUT_GRADIENT = ("StopGradient", ',
        "_WITHOUT_GRADIENT = (",
        "A weight gets the gradient that its author has stopped.",
        _TESTS,
    ),
    fault(
        "tied-table-without-cross-terms",
        _TABLES,
        "found = tf.where((ids >= 0)[",
        "found = tf.where((ids < 0)[",
        "The norm lacks what lookups and products share, and examples exceed the clip.",
        _TESTS,
    ),
    fault(
        "tied-table-loses-its-products",
        _TABLES,
        "tensor_scatter_nd_add(total,",
        "tensor_scatter_nd_add(tf.zeros_like(total),",
        "The sum has the lookups alone.",
        _TESTS,
    ),
    fault(
        "tied-table-in-float32",
        _TABLES,
        "finite, IN_FLOAT64)",
        "finite, sums)",
        "Parts of an example longer than C are rounded in float32, more than is charged for.",
        _TESTS,
    ),
    fault(
        "tied-table-counts-lookups-outside",
        _TABLES,
        "tf.where(ids[:, tf.newaxis] >= 0, tf.cast",
        "tf.where(ids[:, tf.newaxis] >= -1, tf.cast",
        "Ids outside of the table are added to the first vector, and no norm has them.",
        _TESTS,
    ),
    fault(
        "folded-across-examples",
        _JOINS,
        " and before[1:].num_elements() % x.shape[-1] == 0",
        "",
        "Numbers of two examples in one position are taken for those of one.",
        _TESTS,
    ),
)
