"""The parts that specs are made of.

A spec of a kind of run inherits its parts, so that all its fields are its own: `spec.norm`, not
`spec.network.norm`; flags, JSON and Python have the same names. A part that needs the fields of
another one inherits it.
"""

import dataclasses
import functools
import math
import pathlib

from tfdpnorm import arguments
from tfdpnorm.choices import (
    ACCOUNTANTS,
    ENGINES,
    GENERATORS,
    NORMS,
    PULL_BACKS,
    STATISTICS,
    STATISTICS_GRADIENTS,
    SYNTHETIC_KINDS,
    TUNERS,
)
from tfdpnorm.choices import SEARCH_DISTRIBUTIONS as DISTRIBUTIONS
from tfdpnorm.experiments.knobs import Part, again, knob

OPTIMIZERS = ("sgd", "adam", "nadam", "adamw", "rmsprop", "adagrad")
SCHEDULES = ("constant", "cosine", "linear")
ROUNDS = ("epoch", "update")
VOCABULARIES = ("hashed", "public", "private")
VIEWS = ("moved", "random")
PLATEAUS = ("none", "private", "test")
PRECISIONS = ("float32", "mixed_float16", "mixed_bfloat16")
# Other numbers of moved views would favour a direction (`runs.augmentation`).
MULTIPLICITIES = (1, 5, 9)
CACHE_DIR = "outputs/pretrained"


def check_not_private(name, public, private):
    """Refuses a public set that is the private one.

    Args:
        name: Of the setting.
        public: Name or path of the public set.
        private: Name or path of the private one.

    Raises:
        ValueError: if they are the same.
    """
    if pathlib.Path(public).resolve() == pathlib.Path(private).resolve():
        raise ValueError(
            f"Expected another {name} than the private dataset, got {public!r} and {private!r}. "
            "What is taken from the private examples without noise is not private."
        )


def _networks():
    from tfdpnorm.models import names  # loads TensorFlow

    return names()


def _has_public_statistics(settings):
    imported = settings.get("trainable", "head") != "head" and settings.get("batch_norm")
    return "public_batch" in (settings["norm"], imported)


def _has_public_rows(settings):
    # Rows that are split off are missing from everybody's training set.
    return _has_public_statistics(settings) or settings.get("public_dataset") == "split"


def _public_sets():
    from tfdpnorm.data import known_names  # loads TensorFlow

    made_up = (f"synthetic:{kind}" for kind in SYNTHETIC_KINDS)
    return (*known_names(), "split", "synthetic", *made_up)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(Part):
    """Which cell of which table a run is for, and what is said of it."""

    experiment: str = knob(help="Which table, such as davody_table5.", flag=False)
    network: str = knob(help="Row of the table, such as public_batch.", flag=False)
    column: str = knob(help="Column of the table, such as eps=1.", flag=False)
    reduced: str = knob(
        "",
        "What is smaller than in the paper, in words, apart from the number of examples.",
        flag=False,
        measured=False,
    )
    search: str = knob(
        "not searched",
        "How the settings were found, in words. No epsilon covers the search.",
        flag=False,
        measured=False,
    )
    paper_value: float | str | None = knob(
        None,
        "The paper's test accuracy in percent, or what it says instead, such as 'no convergence'; "
        "None if it has no such cell.",
        flag=False,
        measured=False,
    )

    @property
    def cell(self):
        """Name of the cell, such as "public_batch/eps=1"."""
        return f"{self.network}/{self.column}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dataset(Part):
    """Where the examples come from, and the seed of what is drawn that need not be secret."""

    dataset: str = knob(
        help="Name of the training set (`tfdpnorm.data.load_examples`).", flag=False
    )
    seed: int = knob(
        0,
        "Seeds initial weights and public rows; never lots or the noise of privacy.",
        at_least=0,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSet(Dataset):
    """How much of the data set is trained on."""

    max_examples: int | None = knob(None, "Use only the first training examples.", at_least=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeldOut(Dataset):
    """Examples to look at during training."""

    validation_examples: int = knob(5_000, "Training examples held out, for the curve.", at_least=0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoredOn(Dataset):
    """Which examples the accuracy is taken of."""

    held_out: int | None = knob(
        None,
        "For the choice of settings: leave so many training examples out, drawn by --seed, and "
        "take the accuracy of these in place of the test set. No epsilon covers what is chosen.",
        at_least=2,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Texts(Part):
    """How texts become token ids."""

    vocabulary: str = knob(
        "hashed",
        "For texts: how words get token ids. private: the commonest words of the training texts, "
        "NO GUARANTEE; public: those of --vocabulary_file.",
        choices=VOCABULARIES,
    )
    vocabulary_size: int = knob(10_000, "For texts: number of token ids, padding included.")
    vocabulary_file: str | None = knob(
        None, "For --vocabulary=public: a text file that is nobody's secret."
    )
    sequence_length: int = knob(64, "For texts: tokens kept of each.")

    def __post_init__(self):
        super().__post_init__()
        if (self.vocabulary_file is None) == (self.vocabulary == "public"):
            raise ValueError(
                "Expected vocabulary_file with vocabulary='public' and only there, got "
                f"vocabulary={self.vocabulary!r} and vocabulary_file={self.vocabulary_file!r}."
            )


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
class Optimizer(Part):
    """How long the network is trained, and by which steps.

    A spec with this part has a property `examples_per_update`.
    """

    epochs: float | None = knob(None, "Passes over the data; or --steps.", check=arguments.positive)
    steps: int | None = knob(None, "Updates; or --epochs.", at_least=1, instead_of="epochs")
    optimizer: str = knob("sgd", "Keras optimizer.", choices=OPTIMIZERS)
    learning_rate: float = knob(1.0, "Learning rate at the start.", check=arguments.positive)
    learning_rate_schedule: str = knob(
        "constant",
        "Course of the learning rate; cosine and linear go down to 0 at the last update.",
        choices=SCHEDULES,
    )
    momentum: float = knob(0.9, "Momentum of sgd.")

    def updates(self, num_examples):
        """The number of updates T on `num_examples` examples."""
        if self.steps is not None:
            return self.steps
        return max(1, round(self.epochs * num_examples / self.examples_per_update))


def _decays(settings):
    return settings["learning_rate_schedule"] == "power"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PowerSchedule(Optimizer):
    """A learning rate that may also fall as a power of the round t = 1, 2, ..."""

    learning_rate_schedule: str = again(
        Optimizer,
        "learning_rate_schedule",
        "constant",
        help="Course of the learning rate; cosine and linear go down to 0 at the last update, "
        "power is the first one over t to the --learning_rate_power.",
        choices=(*SCHEDULES, "power"),
    )
    learning_rate_power: float = knob(
        1.0, "Gamma of power.", check=arguments.nonnegative, only_if=_decays
    )
    learning_rate_round: str = knob(
        "epoch", "What t of power counts.", choices=ROUNDS, only_if=_decays
    )


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


def _halves(settings):
    return settings["plateau"] != "none"


def _asks_private_examples(settings):
    return settings["plateau"] == "private"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plateau(Optimizer):
    """Halving of the learning rate where training makes no progress."""

    plateau: str = knob(
        "none",
        "Whether the learning rate is halved on a plateau: private, of a noised accuracy on "
        "private examples that are left out of training, which is paid for; test, of the loss on "
        "the test set, which no epsilon covers, as the statement says.",
        choices=PLATEAUS,
    )
    plateau_patience: int = knob(
        3, "Epochs without progress that make a plateau.", at_least=1, only_if=_halves
    )
    plateau_examples: int = knob(
        5_000,
        "For --plateau=private: how many examples.",
        at_least=2,
        only_if=_asks_private_examples,
    )
    plateau_epsilon: float = knob(
        1.0,
        "For --plateau=private: what all answers together cost these examples, at the same delta.",
        check=arguments.positive,
        only_if=_asks_private_examples,
    )

    def __post_init__(self):
        super().__post_init__()
        if self.plateau != "none" and self.learning_rate_schedule != "constant":
            raise ValueError(
                "Expected learning_rate_schedule='constant' with a plateau, got "
                f"{self.learning_rate_schedule!r}. Leave one of them out."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Statistics(Network):
    """Whose moments public-batch normalisation takes."""

    statistics: str = knob(
        "public",
        "Whose moments public-batch normalisation takes; lot is the paper's Algorithm 1 as "
        "printed, which is NOT private.",
        choices=STATISTICS,
        only_if=_has_public_statistics,
    )
    statistics_gradient: str = knob(
        "full",
        "Gradient through the public statistics.",
        choices=STATISTICS_GRADIENTS,
        only_if=_has_public_statistics,
    )
    public_batch_size: int = knob(
        128,
        "Number of public rows M.",
        check=functools.partial(
            arguments.whole,
            at_least=2,
            remedy="One row alone has variance 0. Take some 128 rows.",
        ),
        only_if=_has_public_rows,
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
        only_if=_has_public_rows,
    )
    pull_back_weight: float = knob(
        1.0,
        "Weight of public-batch gammas' and betas' gradients in the clip.",
        check=arguments.positive,
        make_private=True,
        only_if=_has_public_statistics,
    )
    pull_back: str = knob(
        "whole",
        "Whether the gradient through the public statistics is shrunk by its ratio of signal to "
        "noise.",
        choices=PULL_BACKS,
        make_private=True,
        only_if=_has_public_statistics,
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pretraining(Dataset):
    """Public training of the network's part "features", which is then frozen."""

    pretraining_dataset: str | None = knob(
        None,
        "Public set to train convolutions on, which are then frozen, so that only the rest is "
        "trained privately.",
    )
    pretraining_epochs: int = knob(40, "Passes over the public set.", at_least=1)

    def __post_init__(self):
        super().__post_init__()
        if self.pretraining_dataset is not None:
            check_not_private("pretraining_dataset", self.pretraining_dataset, self.dataset)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation(Part):
    """What is evaluated, and when."""

    ema_decay: float | None = knob(0.99, "Decay of the weight average.", check=arguments.decay)
    evaluations: int = knob(
        10,
        "About how many times to take the test accuracy during the run, for its curve.",
        at_least=1,
        measured=False,
    )


def _chooses_number(settings):
    return settings["tuner"] == "private_random"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trials(Part):
    """What a search tries, and how trials get their settings."""

    tuner: str = knob(
        "private_random",
        "How trials get their settings. private_random: at random, so many trials as is drawn in "
        "secret, of which the best is released; random, bayesian, hyperband: Keras Tuner's, with "
        "all trials composed.",
        choices=TUNERS,
    )
    over: str = knob(
        help="What is searched: names such as learning_rate,norm, with values or without: "
        "learning_rate=0.1:0.3:1,l2_norm_clip.",
    )
    expected_trials: float = knob(
        8.0, "Number of trials; of private_random the expected one.", check=arguments.positive
    )
    score_examples: int = knob(
        500,
        "Training examples left out to score the trials on, which noise protects.",
        at_least=2,
    )
    recorded_trials: str = knob(
        "winner",
        "Whether the record has the winner alone, or all trials, which is NOT FOR RELEASE where "
        "the data are private.",
        choices=("winner", "all"),
        measured=False,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Search(Noise, Trials):
    """A search for settings, whose budget is the epsilon of the spec: that of all trials."""

    distribution: str = knob(
        "poisson",
        "Of the number of trials.",
        choices=tuple(DISTRIBUTIONS),
        only_if=_chooses_number,
    )

    def __post_init__(self):
        super().__post_init__()
        if self.epsilon is None or self.is_unclipped:
            raise ValueError(
                f"Expected a finite epsilon for a search, got {self.epsilon!r}. It is the budget "
                "of all trials together."
            )
        if self.accountant != "rdp":
            raise ValueError(f'Expected accountant="rdp" in a search, got {self.accountant!r}.')
