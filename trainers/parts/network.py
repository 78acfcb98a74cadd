"""The network, its public rows and its statistics."""

import dataclasses
import functools

from tfdpnorm import arguments
from tfdpnorm.choices import NORMS, PULL_BACKS, STATISTICS, STATISTICS_GRADIENTS, SYNTHETIC_KINDS
from trainers.knobs import Condition, Part, knob

PRECISIONS = ("float32", "mixed_float16", "mixed_bfloat16")


def _networks():
    from tfdpnorm.models import names  # loads TensorFlow

    return names()


def _has_public_statistics(settings):
    imported = settings.get("trainable", "head") != "head" and settings.get("batch_norm")
    return "public_batch" in (settings["norm"], imported)


def _has_public_rows(settings):
    # Rows that are split off are missing from everybody's training set.
    is_split = settings.get("public_dataset") == "split"
    has_scaled_features = settings.get("feature_scaling") == "public"
    return _has_public_statistics(settings) or is_split or has_scaled_features


_PUBLIC_STATISTICS = Condition(
    "public-batch normalisation (--norm=public_batch)", _has_public_statistics
)
_PUBLIC_ROWS = Condition("public rows (--norm=public_batch)", _has_public_rows)


def _public_sets():
    from tfdpnorm.data import known_names  # loads TensorFlow

    made_up = (f"synthetic:{kind}" for kind in SYNTHETIC_KINDS)
    return (*known_names(), "split", "synthetic", *made_up)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network(Part):
    """The network."""

    norm: str = knob("none", "Normalisation of the network.", choices=NORMS)
    model: str = knob("lenet5", "Network.", choices=_networks)
    model_options: tuple[tuple[str, object], ...] = knob(
        (), "Pairs of further options of the model, such as (('activation', 'tanh'),).", flag=False
    )
    precision: str = knob(
        "float32",
        "What layers compute in. Weights, norms, clipped sums and noise stay in float32.",
        choices=PRECISIONS,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Statistics(Network):
    """Whose moments public-batch normalisation takes."""

    statistics: str = knob(
        "public",
        "Whose moments public-batch normalisation takes; lot is the paper's Algorithm 1 as "
        "printed, which is NOT private.",
        choices=STATISTICS,
        only_if=_PUBLIC_STATISTICS,
    )
    statistics_gradient: str = knob(
        "full",
        "Gradient through the public statistics.",
        choices=STATISTICS_GRADIENTS,
        only_if=_PUBLIC_STATISTICS,
    )
    public_batch_size: int = knob(
        128,
        "Number of public rows M.",
        check=functools.partial(
            arguments.whole,
            at_least=2,
            remedy="One row alone has variance 0. Take some 128 rows.",
        ),
        only_if=_PUBLIC_ROWS,
    )

    @property
    def needs_public_rows(self):
        """Whether the network has public-batch normalisation."""
        return self.norm == "public_batch"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublicRows(Statistics):
    """Where public rows come from, and the weight of what is learnt through them."""

    public_dataset: str = knob(
        "kmnist",
        "Where the public rows come from: a data set; split for a part of the private one, which "
        "is taken out of it first; synthetic or synthetic:KIND for rows that are made up.",
        choices=_public_sets,
        only_if=_PUBLIC_ROWS,
    )
    pull_back_weight: float = knob(
        1.0,
        "Weight of public-batch gammas' and betas' gradients in the clip.",
        check=arguments.positive,
        make_private=True,
        only_if=_PUBLIC_STATISTICS,
    )
    pull_back: str = knob(
        "whole",
        "Whether the gradient through the public statistics is shrunk by its ratio of signal to "
        "noise.",
        choices=PULL_BACKS,
        make_private=True,
        only_if=_PUBLIC_STATISTICS,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoisedStatistics(Network):
    """What norm "noised_batch" spends on its statistics."""

    statistics_budget_share: float | None = knob(
        None,
        "Share of the budget for the running averages of norm noised_batch; default: that of "
        "`make_private`.",
        make_private=True,
    )

    def __post_init__(self):
        super().__post_init__()
        if self.statistics_budget_share is not None and self.norm != "noised_batch":
            raise ValueError(
                "Expected statistics_budget_share with norm='noised_batch' only, got "
                f"{self.statistics_budget_share!r} with norm={self.norm!r}."
            )
