"""Properties of a trained model: curvature of its loss, scale of its activations.

Nothing here is private: it reads whatever data it is given, and its results depend on them.
"""

from trainers.analysis.activations import BlockActivations, block_activations, residual_additions
from trainers.analysis.hessian import Hessian
from trainers.analysis.public_moments import (
    LayerMismatch,
    moment_mismatch,
    noise_through_statistics,
)
from trainers.analysis.spectrum import (
    Estimate,
    RitzValues,
    lanczos,
    power_iteration,
    trace,
)

__all__ = [
    "BlockActivations",
    "Estimate",
    "Hessian",
    "LayerMismatch",
    "RitzValues",
    "block_activations",
    "lanczos",
    "moment_mismatch",
    "noise_through_statistics",
    "power_iteration",
    "residual_additions",
    "trace",
]
