"""Whether all that a graph of a training step draws is what the run lets it draw."""

from tfdpnorm.audit.row_independence.proof.draws import is_draw
from tfdpnorm.keras_compat.functions import NoGraph, leaf_operations


def check_draws(operations, seeds, states, by_xla):
    """Refuses random operations with other seeds and generators than those of the run.

    They are in functions that were traced before, outside of the step, or made by hand. Their seeds
    may be known, and the numbers belong to places in a lot: whoever knows the numbers can tell by
    them whether an example is there.

    Args:
        operations: `tf.Operation`s of the graph that is traced.
        seeds: Set of the pairs of seeds that operations may have.
        states: List of the handles of the states of generators that may be drawn from.
        by_xla: Whether the whole step is compiled: XLA does not look at the seeds of operations,
            and draws the same numbers in every process.

    Raises:
        ValueError: naming the first operation.
    """
    known = {id(handle) for handle in states}
    for op, handles, within_xla in _leaves(operations):
        if handles and (is_draw(op.type) or op.type.startswith("Rng")):
            secret = all(id(handle) in known for handle in handles)
        elif is_draw(op.type) and "seed" in op.node_def.attr:
            secret = (op.get_attr("seed"), op.get_attr("seed2")) in seeds
            if by_xla or within_xla:
                raise ValueError(
                    f"Expected random numbers that the training step makes secret, got {op.name!r} "
                    f"({op.type}), which draws the same in every process with jit_compile=True. "
                    "Use jit_compile=False, or draw from a tf.random.Generator."
                )
        else:
            continue
        if not secret:
            raise ValueError(
                f"Expected random numbers that the training step makes secret, got {op.name!r} "
                f"({op.type}) with a seed or a generator of its own, as in a function that was "
                "traced before. Take the decorator tf.function off the function that draws; it "
                "becomes part of the step anyway."
            )


def _leaves(operations):
    try:
        return list(leaf_operations(operations))
    except NoGraph as error:
        raise ValueError(
            "Expected functions that can be looked into for random numbers, got one of which "
            f"{error}. Call its operations in the model itself."
        ) from None
