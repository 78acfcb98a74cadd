"""How the landscape of a trained network is measured."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class LandscapeSettings:
    """How a landscape is measured.

    Attributes:
        rows: Examples that the mean loss is taken over.
        tolerance: Relative, of eigenvalues and of the trace.
        max_products: The most products with the Hessian for each number.
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
