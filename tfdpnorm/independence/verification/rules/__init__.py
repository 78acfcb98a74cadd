"""The rules, one module for each family of operations."""

from tfdpnorm.independence.verification.rules import (
    candidates,
    control_flow,
    elementwise,
    images,
    lists,
    lookups,
    losses,
    normalization,
    products,
    reductions,
    shapes,
    slices,
    state,
)

# Imported to register themselves.
del candidates, control_flow, elementwise, images, lists, lookups, losses, normalization, products
del reductions, shapes, slices, state
