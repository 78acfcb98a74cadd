"""How the landscape of a trained network is measured."""

import dataclasses

from tfdpnorm import arguments


@dataclasses.dataclass(frozen=True)
class LandscapeSettings:
    """How a landscape is measured.

    Attributes:
        rows: Examples that the mean loss is taken over.
        tolerance: Relative, of eigenvalues and of the trace.
        max_products: The most products with the Hessian for each number; a standard error needs 2.
        lanczos_steps: Steps from one random vector; the number of Ritz values.
        batch_size: Rows that go through the model at once.
        seed: Of random vectors.
    """

    rows: int = 512
    tolerance: float = 1e-3
    max_products: int = 1000
    lanczos_steps: int = 150
    batch_size: int = 64
    seed: int = 0

    def __post_init__(self):
        arguments.positive("tolerance", self.tolerance)
        least = {"rows": 1, "max_products": 2, "lanczos_steps": 1, "batch_size": 1, "seed": 0}
        for name, at_least in least.items():
            arguments.whole(name, getattr(self, name), at_least=at_least)
