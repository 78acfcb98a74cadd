"""The specs of the kinds of run: what one run is, as plain values.

A spec is made of parts (`trainers.parts`), where its fields are explained.
"""

import dataclasses
from typing import ClassVar

from tfdpnorm import arguments
from tfdpnorm.choices import (
    BATCH_NORMS,
    CLAIMING_ACCOUNTANTS,
    CLIP_GROUPINGS,
    MODELS,
    VARIATIONAL_METHODS,
)
from trainers.knobs import Condition, again, knob
from trainers.parts import (
    Cell,
    Claim,
    ClippedLots,
    Dataset,
    Evaluation,
    HeldOut,
    Network,
    Noise,
    NoisedStatistics,
    Optimizer,
    Plateau,
    PowerSchedule,
    Pretraining,
    PublicRows,
    ScoredOn,
    Statistics,
    Texts,
    TrainingSet,
    Views,
    check_not_private,
)


def check_trainable(name, value):
    """Refuses the strings that `tfdpnorm.convert.backbone` does not take, without TensorFlow."""
    number = value.removeprefix("last:")
    if value not in ("all", "head") and (
        number == value or not number.isdecimal() or number == "0"
    ):
        raise arguments.refusal(name, 'to be "head", "last:N" or "all"', value)


_NOT_IN_THE_GRID = "not for sensitivity"


# Dataclasses take the fields of the last base first.
@dataclasses.dataclass(frozen=True, kw_only=True)
class ExperimentSpec(
    Evaluation,
    Pretraining,
    NoisedStatistics,
    PublicRows,
    Views,
    Noise,
    ClippedLots,
    Plateau,
    Optimizer,
    Network,
    Texts,
    ScoredOn,
    TrainingSet,
    Cell,
):
    """A cell that is trained by DP-SGD, or by the same program without noise and clipping."""

    kind: ClassVar[str] = "private"

    def __post_init__(self):
        super().__post_init__()
        if self.needs_public_rows:
            check_not_private("public_dataset", self.public_dataset, self.dataset)
        if self.plateau_dataset is not None:
            check_not_private("plateau_dataset", self.plateau_dataset, self.dataset)
        if self.plateau == "test" and self.held_out is not None:
            raise ValueError(
                "Expected no held_out with plateau='test', got "
                f"{self.held_out}: these are private training examples, and no test set is loaded. "
                "Use plateau='private'."
            )

    @property
    def at_any_noise(self):
        """Dict of fields with which a spec may have another noise, to time its updates."""
        return {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class NonPrivateSpec(HeldOut, Optimizer, Network, Texts, TrainingSet, Cell):
    """A cell that is trained without privacy, by Keras' ordinary step."""

    kind: ClassVar[str] = "non_private"

    optimizer: str = again(Optimizer, "optimizer", "adam")
    learning_rate: float = again(Optimizer, "learning_rate", 1e-3)
    batch_size: int = knob(128, "Examples of an update.", at_least=1)

    def __post_init__(self):
        super().__post_init__()
        if self.norm in ("public_batch", "noised_batch"):
            raise ValueError(
                f'Expected norm="batch" without privacy, got {self.norm!r}, which is trained by '
                "make_private only."
            )

    @property
    def examples_per_update(self):
        """How many examples an update takes."""
        return self.batch_size


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightNoiseSpec(NonPrivateSpec):
    """A cell that is trained without privacy, with noise in the weights."""

    kind: ClassVar[str] = "weight_noise"

    weight_noise_stddev: float = knob(
        0.0,
        "Standard deviation of each weight, in training and testing.",
        check=arguments.nonnegative,
        flag="stddev",
    )


_HAS_PRIOR = Condition("--method=svi", lambda settings: settings["method"] == "svi")
_HAS_DROPOUT = Condition("--method=dpvd", lambda settings: settings["method"] == "dpvd")


@dataclasses.dataclass(frozen=True, kw_only=True)
class VariationalSpec(PowerSchedule, ExperimentSpec):
    """A cell of Ermis & Cemgil (2017): one of their methods, private or not."""

    kind: ClassVar[str] = "variational"

    model: str = again(
        Network,
        "model",
        "mlp",
        help="mlp: the paper's; random_features: fixed features and trained logits; small_cnn: the "
        "same with features learnt on a public set, see --pretraining_dataset.",
        choices=("mlp", "random_features", "small_cnn"),
    )
    method: str = knob(
        "dpsgd",
        "dpvd: variational dropout; svi: the same without dropout, a point estimate under a normal "
        "prior; dpsgd: Abadi et al. (2016); none: without privacy.",
        choices=VARIATIONAL_METHODS,
        flag=False,
    )
    calibrated_by: str | None = knob(
        None,
        "The paper's accountant (ac or zcdp) whose claim the noise is calibrated to, in place of "
        "one that holds.",
        choices=CLAIMING_ACCOUNTANTS,
        flag=False,
    )
    clipping: str = knob(
        "flat",
        "flat: the whole gradient is clipped to C; per_layer: that of each of G layers to C / "
        "sqrt(G).",
        choices=CLIP_GROUPINGS,
        make_private=True,
    )
    prior_stddev: float | None = knob(
        None,
        "Of svi: standard deviation of the normal prior; default: a flat one.",
        check=arguments.positive,
        only_if=_HAS_PRIOR,
    )
    kl_weight: float = knob(
        0.0,
        "Of dpvd: factor on the divergence from the log-uniform prior, which is divided by N.",
        check=arguments.nonnegative,
        only_if=_HAS_DROPOUT,
    )

    @property
    def at_any_noise(self):
        """As `ExperimentSpec`."""
        method = "dpsgd" if self.method == "none" else self.method
        return {"method": method, "calibrated_by": None}

    def __post_init__(self):
        super().__post_init__()
        if (self.method == "none") != self.is_unclipped:
            raise ValueError(
                "Expected epsilon=inf with method='none' and only there, got "
                f"epsilon={self.epsilon!r} with method={self.method!r}."
            )
        if self.calibrated_by is not None and (self.epsilon is None or self.is_unclipped):
            raise ValueError(
                f"Expected a finite epsilon with calibrated_by={self.calibrated_by!r}, got "
                f"{self.epsilon!r}."
            )
        if self.prior_stddev is not None and (self.method, self.optimizer) != ("svi", "sgd"):
            raise ValueError(
                "Expected prior_stddev with method='svi' and optimizer='sgd', got "
                f"method={self.method!r} and optimizer={self.optimizer!r}."
            )
        if (self.model == "small_cnn") != (self.pretraining_dataset is not None):
            raise ValueError(
                "Expected pretraining_dataset with model='small_cnn' and only there, got model="
                f"{self.model!r} with pretraining_dataset={self.pretraining_dataset!r}."
            )
        plain = self.optimizer == "sgd" and not self.momentum
        if self.method == "dpvd" and not plain:
            raise ValueError(
                "Expected optimizer='sgd' and momentum=0 with method='dpvd', whose noise is that "
                f"of such updates, got {self.optimizer!r} and {self.momentum!r}."
            )
        if self.kl_weight and self.method != "dpvd":
            raise ValueError(
                f"Expected kl_weight with method='dpvd', got method={self.method!r}. Leave it out."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrintedSpec(VariationalSpec):
    """A cell that is trained by Algorithm 1 of Ermis & Cemgil (2017) as printed: not private."""

    kind: ClassVar[str] = "as_printed"

    def __post_init__(self):
        super().__post_init__()
        if self.method != "dpvd" or self.calibrated_by is None:
            raise ValueError(
                "Expected method='dpvd' and calibrated_by='ac' or 'zcdp' for Algorithm 1 as "
                f"printed, got method={self.method!r} and calibrated_by={self.calibrated_by!r}."
            )
        ours = {
            "learning_rate_schedule": "power",
            "learning_rate_round": "update",
            "clipping": "per_layer",
        }
        other = {name: getattr(self, name) for name in ours if getattr(self, name) != ours[name]}
        if other:
            raise ValueError(f"Expected {ours} for Algorithm 1 as printed, got {other}.")


_TRAINS_IMPORTED_LAYERS = Condition(
    "--trainable=last:N or --trainable=all", lambda settings: settings.get("trainable") != "head"
)
_HAS_FROZEN_FEATURES = Condition(
    "--trainable=head", lambda settings: settings.get("trainable") == "head"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneSpec(ExperimentSpec):
    """A model of somebody else's, imported, and trained further on a private set."""

    kind: ClassVar[str] = "finetune"

    model: str = again(
        Network,
        "model",
        help="Keras model to start from: the path of a .keras or .h5 file, or its name in the "
        "folder that the environment variable TFDPNORM_MODELS_DIR names.",
        choices=None,
    )
    norm: str = again(
        Network, "norm", "none", help="Normalisation of the features, before the new last layer."
    )
    # An export takes the ranges of its whole numbers from these images, whatever is trained.
    public_dataset: str = again(PublicRows, "public_dataset", "kmnist", only_if=None)
    trainable: str = knob(
        "head",
        "What is trained: head, the new last layer and its normalisation, on features that are "
        "computed once; last:N, the last N layers that have weights, the head's included; all.",
        check=check_trainable,
    )
    batch_norm: str = knob(
        "frozen",
        "What becomes of the batch normalisation of layers that are trained.",
        choices=BATCH_NORMS,
        only_if=_TRAINS_IMPORTED_LAYERS,
    )
    image_size: int | None = knob(
        None,
        "Height and width, in pixels, that images are brought to; default: their own.",
        at_least=1,
    )
    pixel_mean: float = knob(
        0.0, "Subtracted from pixel values of 0 to 255.", check=arguments.finite
    )
    pixel_scale: float = knob(255.0, "What these are then divided by.", check=arguments.positive)
    feature_views: int = knob(
        1,
        "Views whose features are averaged: 1, or 2 with the mirror image.",
        choices=(1, 2),
        only_if=_HAS_FROZEN_FEATURES,
    )

    feature_scaling: str = knob(
        "none",
        "public: features are centred by the mean of public images' features and divided by the "
        "root mean square of what is left, constants of --public_dataset.",
        choices=("none", "public"),
        only_if=_HAS_FROZEN_FEATURES,
    )
    head: str = knob(
        "new",
        "new: a last layer from zeros; imported: it begins as that of the imported model, which "
        "has as many classes.",
        choices=("new", "imported"),
    )

    def __post_init__(self):
        super().__post_init__()
        if self.head == "imported" and (self.norm, self.feature_scaling) != ("none", "none"):
            raise ValueError(
                "Expected norm and feature_scaling to be none with head=imported, got "
                f"{self.norm!r} and {self.feature_scaling!r}: that layer was trained on the "
                "features as they are."
            )
        if self.feature_scaling != "public":
            return
        check_not_private("public_dataset", self.public_dataset, self.dataset)
        if self.public_dataset == "split":
            raise ValueError(
                "Expected a public data set, or synthetic images, with feature_scaling=public, got "
                "public_dataset='split'. Name one that is not private."
            )

    @property
    def needs_public_rows(self):
        """Whether there is public-batch normalisation, in the head or in imported layers."""
        in_layers = self.trainable != "head" and self.batch_norm == "public_batch"
        return in_layers or self.norm == "public_batch"


@dataclasses.dataclass(frozen=True, kw_only=True)
class AuditSpec(Statistics, Claim, ClippedLots, Network, Dataset):
    """What is audited: one private step, or one private training, and what is claimed of it."""

    kind: ClassVar[str] = "audit"

    model: str = again(
        Network,
        "model",
        "lenet5",
        help=f"Network, with fresh weights; mlp has 100 hidden units; {_NOT_IN_THE_GRID}.",
        choices=MODELS,
    )
    norm: str = again(
        Network, "norm", "public_batch", help=f"Its normalisation; {_NOT_IN_THE_GRID}."
    )
    dataset: str = again(Dataset, "dataset", "digits", help="Where the rows come from.", flag=True)
    seed: int = again(
        Dataset, "seed", 0, help="Seeds weights, rows and the audit's samples; never noise."
    )
    epsilon: float = again(
        Claim,
        "epsilon",
        1.0,
        help="The claim: the noise is calibrated to it.",
        check=arguments.positive,
    )
    delta: float = again(Claim, "delta", 1e-5, help="Delta of the claim.")
    expected_batch_size: int = again(ClippedLots, "expected_batch_size", 64)
    physical_batch_size: int | None = again(ClippedLots, "physical_batch_size", None, flag=False)
    public_batch_size: int = again(Statistics, "public_batch_size", 32, flag=False)
    public_dataset: str = again(PublicRows, "public_dataset", "split", flag=False)
    clipping: str = knob("flat", "See `make_private`.", flag=False, make_private=True)
    clip_function: str = knob("abadi", "See `make_private`.", flag=False, make_private=True)
    augmentation_multiplicity: int = knob(
        1,
        "K views of each example; above 1 with random horizontal flips.",
        at_least=1,
        flag=False,
        make_private=True,
    )

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
