"""Clipped lots, the noise on their sums, and the guarantee that is aimed at."""

import dataclasses
import functools
import math

from tfdpnorm import arguments
from tfdpnorm.choices import ACCOUNTANTS, ENGINES, GENERATORS
from trainers.knobs import Part, knob
from trainers.parts.network import Network

VIEWS = ("moved", "random")
# Other numbers of moved views would favour a direction (`runs.augmentation`).
MULTIPLICITIES = (1, 5, 9)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClippedLots(Part):
    """Poisson-sampled lots, and how their clipped sums are computed."""

    expected_batch_size: int = knob(1024, "Expected lot size L.", at_least=1, make_private=True)
    physical_batch_size: int | None = knob(
        None,
        "Rows that go through the network at once; default: the whole lot.",
        at_least=1,
        make_private=True,
        measured=False,
    )
    l2_norm_clip: float = knob(
        1.0,
        "Clipping norm C of each example's gradient.",
        check=functools.partial(arguments.positive, allow_inf=True),
        make_private=True,
    )
    engine: str | None = knob(
        None,
        "How clipped sums are computed; default: the fastest that can.",
        choices=ENGINES,
        make_private=True,
        measured=False,
    )

    @property
    def examples_per_update(self):
        """How many examples an update takes, in expectation."""
        return self.expected_batch_size


@dataclasses.dataclass(frozen=True, kw_only=True)
class Claim(Part):
    """The guarantee that is aimed at."""

    epsilon: float | None = knob(
        None,
        "Target epsilon; the noise is calibrated to it. inf: without privacy, noise or clipping. "
        "Or --noise_multiplier.",
        check=functools.partial(arguments.positive, allow_inf=True),
    )
    delta: float = knob(1e-5, "Delta of the guarantee.", check=arguments.open_unit)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Noise(Claim, Network):
    """The noise of private training, and how what it costs is counted."""

    noise_multiplier: float | None = knob(
        None,
        "Noise multiplier z: standard deviation of the noise on the clipped sum, over the clipping "
        "norm. Or --epsilon.",
        check=arguments.nonnegative,
        instead_of="epsilon",
    )
    accountant: str = knob("rdp", "Accountant.", choices=ACCOUNTANTS, make_private=True)
    noise_generator: str = knob(
        "philox",
        "Where noise comes from; shake256 is a cryptographic generator, and fast leaks by its "
        "floating-point bits.",
        choices=GENERATORS,
        make_private=True,
    )
    insecure_seed: int | None = knob(
        None,
        "For tests: repeatable noise and lots. No guarantee holds. Default: none.",
        at_least=0,
        make_private=True,
    )

    def __post_init__(self):
        super().__post_init__()
        if self.norm == "batch":
            raise ValueError(
                'Expected a normalisation that treats each example by itself, got norm="batch": '
                "ordinary batch normalisation mixes the examples of a lot and cannot be trained "
                'privately. Use norm="public_batch", "group" or "layer".'
            )

    @property
    def is_unclipped(self):
        """Whether this is the baseline without privacy (epsilon infinite)."""
        return self.epsilon is not None and math.isinf(self.epsilon)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Views(Part):
    """Multi-view augmentation: several views of each example behind one clipped gradient."""

    augmentation_multiplicity: int = knob(
        1,
        "Views of each image behind one clipped gradient: 1, 5 or 9 that are moved, or any number "
        "of random ones.",
        at_least=1,
        make_private=True,
    )
    views: str = knob(
        "moved",
        "moved: the image, and it moved by a pixel, the same at every update; random: a window of "
        "the image padded by 4 pixels, half of them flipped, drawn anew for each view.",
        choices=VIEWS,
    )

    def __post_init__(self):
        super().__post_init__()
        if self.views == "moved":
            arguments.choice(
                "augmentation_multiplicity",
                self.augmentation_multiplicity,
                MULTIPLICITIES,
                remedy='With views="random" it may be any number.',
            )
