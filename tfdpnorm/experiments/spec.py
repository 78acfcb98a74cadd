"""What one training run is, as plain values."""

import dataclasses
import math

from tfdpnorm.layers.public_batch_normalization import STATISTICS, STATISTICS_GRADIENTS
from tfdpnorm.models import NORMS, names
from tfdpnorm.privacy.accountants import ACCOUNTANTS
from tfdpnorm.training.engines import check_engine
from tfdpnorm.training.noise import GENERATORS

OPTIMIZERS = ("sgd", "adam", "nadam", "adamw", "rmsprop", "adagrad")
SCHEDULES = ("constant", "cosine", "linear")


@dataclasses.dataclass(frozen=True)
class ExperimentSpec:
    """One cell of one table.

    Attributes:
        experiment: Which table, such as "davody_table5".
        cell: Which cell of it, such as "public_batch/eps=1".
        dataset: Name of the private dataset (`tfdpnorm.data.load_examples`).
        norm: The network's normalisation, one of `tfdpnorm.models.NORMS`.
        model: Name of the network (`tfdpnorm.models.build`).
        epsilon: Target epsilon; infinity trains without noise or clipping, and not privately.
        noise_multiplier: z, instead of `epsilon`.
        delta: The delta of the guarantee.
        accountant: "rdp" or "pld".
        expected_batch_size: L.
        physical_batch_size: Rows through the network at once, or None for the lot.
        epochs: Passes over the data, L * updates / N; or give `steps`.
        steps: T, the number of updates; or give `epochs`.
        l2_norm_clip: C.
        optimizer: One of `OPTIMIZERS`.
        learning_rate: At the start.
        learning_rate_schedule: One of `SCHEDULES`; "cosine" and "linear" go to 0 at the last
            update.
        momentum: Of "sgd".
        ema_decay: Decay of the weight average, or None for none.
        statistics: Of public-batch normalisation.
        statistics_gradient: Likewise.
        pull_back_weight: Of public-batch normalisation, see `make_private`.
        public_dataset: Name of the dataset that the public rows come from; "split" for a part of
            the private set that is taken out of it first.
        public_batch_size: M.
        engine: One of `tfdpnorm.training.ENGINES`; None for the one that `make_private` takes.
        model_options: Pairs of further options of the model, such as (("activation", "tanh"),).
        seed: Of the initial weights and the choice of public rows. Never of noise or lots.
        noise_generator: "philox" or "shake256", see `make_private`.
        insecure_seed: For tests: seeds noise and lots; no guarantee.
        max_examples: Use only that many private examples; None for all.
        paper_value: The paper's test accuracy in percent, or None.
    """

    experiment: str
    cell: str
    dataset: str
    norm: str = "none"
    model: str = "lenet5"
    epsilon: float | None = None
    noise_multiplier: float | None = None
    delta: float = 1e-5
    accountant: str = "rdp"
    expected_batch_size: int = 1024
    physical_batch_size: int | None = None
    epochs: float | None = None
    steps: int | None = None
    l2_norm_clip: float = 1.0
    optimizer: str = "sgd"
    learning_rate: float = 1.0
    learning_rate_schedule: str = "constant"
    momentum: float = 0.9
    ema_decay: float | None = 0.99
    statistics: str = "public"
    statistics_gradient: str = "full"
    pull_back_weight: float = 1.0
    public_dataset: str = "kmnist"
    public_batch_size: int = 128
    engine: str | None = None
    model_options: tuple[tuple[str, object], ...] = ()
    seed: int = 0
    noise_generator: str = "philox"
    insecure_seed: int | None = None
    max_examples: int | None = None
    paper_value: float | None = None

    def __post_init__(self):
        _one_of("norm", self.norm, NORMS)
        _one_of("model", self.model, names())
        _one_of("optimizer", self.optimizer, OPTIMIZERS)
        _one_of("learning_rate_schedule", self.learning_rate_schedule, SCHEDULES)
        _one_of("statistics", self.statistics, STATISTICS)
        _one_of("statistics_gradient", self.statistics_gradient, STATISTICS_GRADIENTS)
        _one_of("accountant", self.accountant, ACCOUNTANTS)
        _one_of("noise_generator", self.noise_generator, GENERATORS)
        if self.engine is not None:
            check_engine(self.engine)
        _exactly_one(self, "epsilon", "noise_multiplier")
        _exactly_one(self, "epochs", "steps")
        positive = ("epochs", "steps", "learning_rate", "expected_batch_size", "l2_norm_clip")
        positive = (*positive, "pull_back_weight")
        for name in (*positive, "physical_batch_size", "max_examples", "epsilon"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"Expected {name} > 0, got {value!r}.")
            if value == math.inf and name not in ("epsilon", "l2_norm_clip"):
                raise ValueError(f"Expected {name} to be finite, got {value!r}.")
        for name in ("seed", "insecure_seed"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"Expected {name} >= 0, got {value!r}.")
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


def _one_of(name, value, allowed):
    if value not in allowed:
        raise ValueError(f"Expected {name} to be one of {tuple(allowed)}, got {value!r}.")


def _exactly_one(spec, first, second):
    given = [name for name in (first, second) if getattr(spec, name) is not None]
    if len(given) != 1:
        raise ValueError(
            f"Expected exactly one of {first} and {second}, got {' and '.join(given) or 'neither'}."
        )
