"""Audits."""

import dataclasses
from typing import ClassVar

from tfdpnorm import arguments
from tfdpnorm.choices import MODELS, NORMS
from trainers.specs.checks import check_public_dataset
from trainers.specs.options import again, option
from trainers.specs.parts import RunSpec
from trainers.specs.private import PrivateSpec

_NOT_IN_THE_GRID = "not for sensitivity"


@dataclasses.dataclass(frozen=True, kw_only=True)
class AuditSpec(RunSpec):
    """The subject of an audit: one private step, or one private training, and its claim."""

    kind: ClassVar[str] = "audit"

    dataset: str = option("digits", "Where the rows come from.")
    seed: int = option(0, "Seeds weights, rows and the audit's samples; never noise.", at_least=0)
    norm: str = option("public_batch", f"Its normalisation; {_NOT_IN_THE_GRID}.", choices=NORMS)
    model: str = option(
        "lenet5",
        f"Network, with fresh weights; mlp has 100 hidden units; {_NOT_IN_THE_GRID}.",
        choices=MODELS,
    )
    model_options: tuple[tuple[str, object], ...] = again(PrivateSpec, "model_options")
    precision: str = again(PrivateSpec, "precision", help="Precision of the layers.")
    statistics: str = again(
        PrivateSpec,
        "statistics",
        help="Source of the moments of public-batch normalisation; lot is NOT private.",
    )
    statistics_gradient: str = again(PrivateSpec, "statistics_gradient")
    public_batch_size: int = again(PrivateSpec, "public_batch_size", 32, only_if=None, flag=False)
    public_dataset: str = option(
        "split",
        "Where the public rows come from, see `PrivateSpec`.",
        check=lambda name, value: check_public_dataset(value),
        flag=False,
    )
    epsilon: float = option(
        1.0, "The claim: the noise is calibrated to it.", check=arguments.positive
    )
    delta: float = again(PrivateSpec, "delta", help="Delta of the claim.")
    expected_batch_size: int = again(PrivateSpec, "expected_batch_size", 64)
    physical_batch_size: int | None = option(
        None, "Rows that go through the network at once.", at_least=1, flag=False
    )
    l2_norm_clip: float = again(PrivateSpec, "l2_norm_clip", check=arguments.positive)
    clipping: str = again(PrivateSpec, "clipping", flag=False)
    clip_function: str = option("abadi", "See `tfdpnorm.Clipping`.", flag=False)
    engine: str | None = again(PrivateSpec, "engine", measured=True)
    augmentation_multiplicity: int = option(
        1,
        "K views of each example; above 1 with random horizontal flips.",
        at_least=1,
        flag=False,
    )

    @property
    def needs_public_rows(self):
        """Whether the network has public-batch normalisation."""
        return self.norm == "public_batch"

    @property
    def path(self):
        """The normalisation, and where its statistics come from, in words."""
        name = path_name(self.norm, self.statistics, self.statistics_gradient)
        if not self.needs_public_rows or self.public_dataset == "split":
            return name
        return f"{name}, public rows {self.public_dataset}"


def path_name(norm, statistics, statistics_gradient):
    """A normalisation, and where its statistics come from, in words."""
    if norm != "public_batch":
        return norm
    stopped = "" if statistics_gradient == "full" else ", gradient stopped"
    return f"{norm} ({statistics}{stopped})"
