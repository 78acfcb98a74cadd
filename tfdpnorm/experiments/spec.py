"""What one training run is, as plain values."""

import dataclasses
import math

from tfdpnorm.experiments.runs.augmentation import COUNTS
from tfdpnorm.gradients.engines.registry import check_engine
from tfdpnorm.layers.public_batch_normalization import STATISTICS_GRADIENTS
from tfdpnorm.layers.public_moments_layer import STATISTICS
from tfdpnorm.models import NORMS, names
from tfdpnorm.privacy.accountants import ACCOUNTANTS
from tfdpnorm.training.step.noise import GENERATORS

OPTIMIZERS = ("sgd", "adam", "nadam", "adamw", "rmsprop", "adagrad")
SCHEDULES = ("constant", "cosine", "linear")
VOCABULARIES = ("hashed", "public", "private")


@dataclasses.dataclass(frozen=True)
class CellSpec:
    """What every cell of every table has, however it is trained.

    Attributes:
        experiment: Which table, such as "davody_table5".
        cell: Which cell of it, such as "public_batch/eps=1".
        dataset: Name of the training set (`tfdpnorm.data.load_examples`).
        norm: The network's normalisation, one of `tfdpnorm.models.NORMS`.
        model: Name of the network (`tfdpnorm.models.build`).
        model_options: Pairs of further options of the model, such as (("activation", "tanh"),).
        epochs: Passes over the data; or give `steps`.
        steps: The number of updates; or give `epochs`.
        optimizer: One of `OPTIMIZERS`.
        learning_rate: At the start.
        learning_rate_schedule: One of `SCHEDULES`; "cosine" and "linear" go to 0 at the last
            update.
        momentum: Of "sgd".
        seed: Of the initial weights and the choice of public rows. Never of privacy noise or lots.
        max_examples: Use only that many training examples; None for all.
        vocabulary: For texts: "hashed"; "public", the commonest words of `vocabulary_file`;
            "private", the commonest words of the training texts, for which no guarantee holds.
        vocabulary_size: For texts: number of token ids, padding included.
        vocabulary_file: For vocabulary="public": a text file that is nobody's secret.
        sequence_length: For texts: tokens that are kept of each.
        reduced: What is smaller than in the paper, in words, apart from the number of examples.
        search: How the settings were found, in words; the cost of a search is part of no epsilon.
        paper_value: The paper's test accuracy in percent, or what it says instead, such as "no
            convergence"; None if it has no such cell.
    """

    experiment: str
    cell: str
    dataset: str
    norm: str = "none"
    model: str = "lenet5"
    model_options: tuple[tuple[str, object], ...] = ()
    epochs: float | None = None
    steps: int | None = None
    optimizer: str = "sgd"
    learning_rate: float = 1.0
    learning_rate_schedule: str = "constant"
    momentum: float = 0.9
    seed: int = 0
    max_examples: int | None = None
    vocabulary: str = "hashed"
    vocabulary_size: int = 10_000
    vocabulary_file: str | None = None
    sequence_length: int = 64
    reduced: str = ""
    search: str = "not searched"
    paper_value: float | str | None = None

    def __post_init__(self):
        _one_of("norm", self.norm, NORMS)
        _one_of("model", self.model, names())
        _one_of("optimizer", self.optimizer, OPTIMIZERS)
        _one_of("learning_rate_schedule", self.learning_rate_schedule, SCHEDULES)
        _one_of("vocabulary", self.vocabulary, VOCABULARIES)
        self._exactly_one("epochs", "steps")
        self._positive("epochs", "steps", "learning_rate", "max_examples")
        self._not_negative("seed")
        if (self.vocabulary_file is None) == (self.vocabulary == "public"):
            raise ValueError(
                "Expected vocabulary_file with vocabulary='public' and only there, got "
                f"vocabulary={self.vocabulary!r} and vocabulary_file={self.vocabulary_file!r}."
            )

    def _exactly_one(self, first, second):
        given = [name for name in (first, second) if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"Expected exactly one of {first} and {second}, got "
                f"{' and '.join(given) or 'neither'}."
            )

    def _positive(self, *fields, may_be_infinite=()):
        for name in (*fields, *may_be_infinite):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"Expected {name} > 0, got {value!r}.")
            if value == math.inf and name not in may_be_infinite:
                raise ValueError(f"Expected {name} to be finite, got {value!r}.")

    def _not_negative(self, *fields):
        for name in fields:
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"Expected {name} >= 0, got {value!r}.")


@dataclasses.dataclass(frozen=True)
class ExperimentSpec(CellSpec):
    """A cell that is trained by DP-SGD, or by the same program without noise and clipping.

    Attributes:
        epsilon: Target epsilon; infinity trains without noise or clipping, and not privately.
        noise_multiplier: z, instead of `epsilon`.
        delta: The delta of the guarantee.
        accountant: "rdp" or "pld".
        expected_batch_size: L.
        physical_batch_size: Rows through the network at once, or None for the lot.
        l2_norm_clip: C.
        augmentation_multiplicity: K, the views of each image behind one clipped gradient: 1, or 5
            or 9 with the image moved by a pixel (`tfdpnorm.experiments.runs.augmentation`).
        ema_decay: Decay of the weight average, or None for none.
        statistics: Of public-batch normalisation.
        statistics_gradient: Likewise.
        pull_back_weight: Of public-batch normalisation, see `make_private`.
        statistics_budget_share: Of norm="noised_batch", see `make_private`; None for its own.
        public_dataset: Name of the dataset that the public rows come from; "split" for a part of
            the private set that is taken out of it first.
        public_batch_size: M.
        pretraining_dataset: Public set on which the network is trained first; its part "features"
            is then frozen, and only the part "head" is trained privately. None for none.
        pretraining_epochs: Passes over the public set.
        engine: One of `tfdpnorm.training.ENGINES`; None for the one that `make_private` takes.
        noise_generator: "philox" or "shake256", see `make_private`.
        insecure_seed: For tests: seeds noise and lots; no guarantee.
        evaluations: About how many times the test accuracy is taken during the run, for its curve.
    """

    epsilon: float | None = None
    noise_multiplier: float | None = None
    delta: float = 1e-5
    accountant: str = "rdp"
    expected_batch_size: int = 1024
    physical_batch_size: int | None = None
    l2_norm_clip: float = 1.0
    augmentation_multiplicity: int = 1
    ema_decay: float | None = 0.99
    statistics: str = "public"
    statistics_gradient: str = "full"
    pull_back_weight: float = 1.0
    statistics_budget_share: float | None = None
    public_dataset: str = "kmnist"
    public_batch_size: int = 128
    pretraining_dataset: str | None = None
    pretraining_epochs: int = 40
    engine: str | None = None
    noise_generator: str = "philox"
    insecure_seed: int | None = None
    evaluations: int = 10

    def __post_init__(self):
        super().__post_init__()
        _one_of("statistics", self.statistics, STATISTICS)
        _one_of("statistics_gradient", self.statistics_gradient, STATISTICS_GRADIENTS)
        _one_of("accountant", self.accountant, ACCOUNTANTS)
        _one_of("noise_generator", self.noise_generator, GENERATORS)
        _one_of("augmentation_multiplicity", self.augmentation_multiplicity, COUNTS)
        if self.engine is not None:
            check_engine(self.engine)
        self._exactly_one("epsilon", "noise_multiplier")
        self._positive(
            "expected_batch_size",
            "pull_back_weight",
            "physical_batch_size",
            "pretraining_epochs",
            "evaluations",
            may_be_infinite=("epsilon", "l2_norm_clip"),
        )
        self._not_negative("insecure_seed")
        if self.ema_decay is not None and not 0 <= self.ema_decay < 1:
            raise ValueError(f"Expected 0 <= ema_decay < 1, got {self.ema_decay!r}.")
        if self.public_batch_size < 2:
            raise ValueError(
                f"Expected public_batch_size >= 2, got {self.public_batch_size!r}: one row alone "
                "has variance 0. Take some 128 rows."
            )
        if self.norm == "batch":
            raise ValueError(
                'Expected a normalisation that treats each example by itself, got norm="batch": '
                "ordinary batch normalisation mixes the examples of a lot and cannot be trained "
                'privately. Use norm="public_batch", "group" or "layer".'
            )
        if self.statistics_budget_share is not None and self.norm != "noised_batch":
            raise ValueError(
                "Expected statistics_budget_share with norm='noised_batch' only, got "
                f"{self.statistics_budget_share!r} with norm={self.norm!r}."
            )

    @property
    def is_unclipped(self):
        """Whether this is the baseline without privacy (epsilon infinite)."""
        return self.epsilon is not None and math.isinf(self.epsilon)

    @property
    def needs_public_rows(self):
        """Whether the network has public-batch normalisation."""
        return self.norm == "public_batch"

    def updates(self, num_examples):
        """The number of updates T on `num_examples` examples."""
        if self.steps is not None:
            return self.steps
        return max(1, round(self.epochs * num_examples / self.expected_batch_size))


@dataclasses.dataclass(frozen=True)
class WeightNoiseSpec(CellSpec):
    """A cell that is trained without privacy, with noise in the weights.

    Attributes:
        weight_noise_stddev: Standard deviation of each weight, in training and in testing.
        batch_size: Examples of an update.
        validation_examples: Training examples that are held out and only looked at.
    """

    optimizer: str = "adam"
    learning_rate: float = 1e-3
    weight_noise_stddev: float = 0.0
    batch_size: int = 128
    validation_examples: int = 5_000

    def __post_init__(self):
        super().__post_init__()
        self._positive("batch_size")
        self._not_negative("weight_noise_stddev", "validation_examples")
        if math.isinf(self.weight_noise_stddev):
            raise ValueError("Expected weight_noise_stddev to be finite, got inf.")
        if self.norm in ("public_batch", "noised_batch"):
            raise ValueError(
                f'Expected norm="batch" without privacy, got {self.norm!r}, which is trained by '
                "make_private only."
            )

    def updates(self, num_examples):
        """The number of updates on `num_examples` training examples."""
        if self.steps is not None:
            return self.steps
        return max(1, round(self.epochs * num_examples / self.batch_size))


def _one_of(name, value, allowed):
    if value not in allowed:
        raise ValueError(f"Expected {name} to be one of {tuple(allowed)}, got {value!r}.")
