"""Common settings of all trainings, and trainings without privacy."""

import dataclasses
from typing import ClassVar

from tfdpnorm import arguments
from tfdpnorm.choices import MODELS, NORMS
from trainers.specs.checks import check_model, check_validation, check_vocabulary
from trainers.specs.options import option, when
from trainers.specs.parts import IS_TRAINED, RunSpec

# "nadam" is that of PyTorch; records up to November 2026 have Keras' own.
OPTIMIZERS = ("sgd", "adam", "nadam", "keras_nadam", "adamw", "rmsprop", "adagrad")
SCHEDULES = ("constant", "cosine", "linear", "power")
PRECISIONS = ("float32", "mixed_float16", "mixed_bfloat16")
VOCABULARIES = ("hashed", "public", "private")
CACHE_DIR = "outputs/pretrained"
# Options that are for texts alone, which programs without texts leave out.
TEXTS = ("vocabulary", "vocabulary_size", "vocabulary_file", "sequence_length")
_POWER = when("learning_rate_schedule", "power")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSpec(RunSpec):
    """Common settings of all trainings: a cell of a table, data, a network and an optimizer."""

    kind: ClassVar[str]

    # --- which cell of which table it is, and what is said of it ---
    experiment: str = option(help="Which table, such as davody_table5.", flag=False)
    network: str = option(help="Row of the table, such as public_batch.", flag=False)
    column: str = option(help="Column of the table, such as eps=1.", flag=False)
    reduced: str = option(
        "",
        "Differences from the paper's scale, in words, apart from the number of examples.",
        flag=False,
        measured=False,
    )
    search: str = option(
        "not searched",
        "How the settings were found, in words. No epsilon covers the search.",
        flag=False,
        measured=False,
    )
    paper_value: float | str | None = option(
        None,
        "The paper's test accuracy in percent, or what it says instead, such as 'no convergence'; "
        "None if it has no such cell.",
        flag=False,
        measured=False,
    )

    # --- data ---
    dataset: str = option(
        help="Name of the training set (`trainers.data.sources.load_examples`).", flag=False
    )
    seed: int = option(
        0, "Seeds initial weights and public rows; never batches or the privacy noise.", at_least=0
    )
    max_examples: int | None = option(
        None, "Use only this many training examples, the first ones.", at_least=1
    )
    vocabulary: str = option(
        "hashed",
        "For texts: how words get token ids. private: the commonest words of the training texts, "
        "NO GUARANTEE; public: those of --vocabulary_file.",
        choices=VOCABULARIES,
    )
    vocabulary_size: int = option(10_000, "For texts: number of token ids, padding included.")
    vocabulary_file: str | None = option(None, "For --vocabulary=public: a public text file.")
    sequence_length: int = option(64, "For texts: tokens kept of each.")

    # --- network ---
    norm: str = option("none", "Normalisation of the network.", choices=NORMS)
    model: str = option("lenet5", f"Network: {', '.join(MODELS)}.")
    model_options: tuple[tuple[str, object], ...] = option(
        (), "Pairs of further options of the model, such as (('activation', 'tanh'),).", flag=False
    )
    precision: str = option(
        "float32",
        "Precision of the layers. Weights, norms, clipped sums and noise stay in float32.",
        choices=PRECISIONS,
    )

    # --- how long it is trained, and by which steps ---
    epochs: float | None = option(
        None, "Passes over the data; or --steps.", check=arguments.positive, only_if=IS_TRAINED
    )
    steps: int | None = option(
        None, "Updates; or --epochs.", at_least=1, instead_of="epochs", only_if=IS_TRAINED
    )
    optimizer: str = option("sgd", "Keras optimizer.", choices=OPTIMIZERS, only_if=IS_TRAINED)
    learning_rate: float = option(
        1.0, "Learning rate at the start.", check=arguments.positive, only_if=IS_TRAINED
    )
    learning_rate_schedule: str = option(
        "constant",
        "Of the learning rate; cosine and linear go down to 0 at the last update, power is "
        "the first one over t to the --learning_rate_power.",
        choices=SCHEDULES,
        only_if=IS_TRAINED,
    )
    learning_rate_power: float = option(
        1.0, "Gamma of power.", check=arguments.nonnegative, only_if=_POWER
    )
    learning_rate_round: str = option(
        "epoch", "Unit of t in the power schedule.", choices=("epoch", "update"), only_if=_POWER
    )
    momentum: float = option(0.9, "Momentum of sgd.", only_if=when("optimizer", "sgd"))

    def __post_init__(self):
        super().__post_init__()
        check_vocabulary(self)

    @property
    def cell(self):
        """Name of the cell, such as "public_batch/eps=1"."""
        return f"{self.network}/{self.column}"

    @property
    def run(self):
        """The spec itself; of a `SearchSpec`, the run that is searched."""
        return self

    @property
    def datasets(self):
        """Names, or paths, of the data sets that the run reads, a tuple."""
        return (self.dataset,)

    def updates(self, num_examples):
        """The number of updates T on `num_examples` examples."""
        if self.steps is not None:
            return self.steps
        return max(1, round(self.epochs * num_examples / self.examples_per_update))


_HALVES = when("plateau", "validation")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NonPrivateSpec(TrainingSpec):
    """A cell that is trained without privacy, by Keras' ordinary step."""

    kind: ClassVar[str] = "non_private"

    optimizer: str = option("adam", "Keras optimizer.", choices=OPTIMIZERS)
    learning_rate: float = option(1e-3, "Learning rate at the start.", check=arguments.positive)
    batch_size: int = option(128, "Examples of an update.", at_least=1)
    validation_examples: int = option(
        5_000, "Training examples held out, for the curve.", at_least=0
    )
    plateau: str = option(
        "none",
        "Whether the learning rate is halved on a plateau: validation, of the loss on the examples "
        "held out. A resumed run counts anew.",
        choices=("none", "validation"),
    )
    plateau_patience: int = option(
        3, "Epochs without progress that make a plateau.", at_least=1, only_if=_HALVES
    )
    early_stopping: int | None = option(
        None,
        "Epochs without progress of the loss on the examples held out that end training, with the "
        "weights of the best epoch; default: it never ends early. A resumed run counts anew.",
        at_least=1,
    )
    augmentation: str = option(
        "none",
        "random: at each epoch another crop of each image padded by 4 pixels, half of the crops "
        "flipped.",
        choices=("none", "random"),
    )
    weight_noise_stddev: float | None = option(
        None,
        "Standard deviation of each weight, in training and testing.",
        check=arguments.nonnegative,
        flag="stddev",
    )
    batch_norm_momentum: float = option(
        0.99,
        "Share of its running averages that an update keeps, in batch normalisation; 0.9 is "
        "PyTorch's default.",
        check=arguments.decay,
        only_if=when("norm", "batch"),
    )

    def __post_init__(self):
        super().__post_init__()
        check_model(self.model)
        if self.norm in ("public_batch", "noised_batch"):
            raise ValueError(
                f'Expected norm="batch" without privacy, got {self.norm!r}, which is trained by '
                "make_private only."
            )
        check_validation(self)

    @property
    def examples_per_update(self):
        """How many examples an update takes."""
        return self.batch_size
