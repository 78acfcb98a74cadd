"""How the landscape of a trained network is measured."""

import dataclasses

from tfdpnorm import arguments
from trainers.specs.options import Spec, option


@dataclasses.dataclass(frozen=True)
class LandscapeSettings(Spec):
    """How a landscape is measured: each setting is a flag of the program, too."""

    rows: int = option(512, "Training examples that the loss is a mean over.", at_least=1)
    tolerance: float = option(1e-3, "Relative, of eigenvalues and trace.", check=arguments.positive)
    max_products: int = option(
        1000, "The most products with the Hessian for each number.", at_least=2
    )  # A standard error needs 2.
    lanczos_steps: int = option(
        150,
        "Lanczos steps, and so Ritz values. As many vectors of the network's size are held in "
        "float32: for ResNet-9, 150 of them are 1.5 GB.",
        at_least=1,
    )
    batch_size: int = option(64, "Rows that go through the model at once.", at_least=1)
    seed: int = option(0, "Of rows and random vectors.", at_least=0)
