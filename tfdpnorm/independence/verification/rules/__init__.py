"""The rules, one module for each family of operations."""

from tfdpnorm.independence.verification.rules import (
    control_flow,
    elementwise,
    images,
    lists,
    lookups,
    normalization,
    products,
    reductions,
    shapes,
    slices,
    state,
)

# Imported to register themselves.
del control_flow, elementwise, images, lists, lookups, normalization, products, reductions
del shapes, slices, state
