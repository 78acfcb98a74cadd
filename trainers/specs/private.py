"""Private trainings."""

import dataclasses
import functools
import math
from typing import ClassVar

from tfdpnorm import arguments
from tfdpnorm.choices import (
    ACCOUNTANTS,
    AUTO,
    CLIP_GROUPINGS,
    ENGINES,
    GENERATORS,
    PULL_BACKS,
    STATISTICS,
    STATISTICS_GRADIENTS,
    UNITS,
)
from trainers.specs import checks
from trainers.specs.options import Condition, option, options, when
from trainers.specs.parts import IS_TRAINED, SOLVED, FineTuning, Variational
from trainers.specs.training import TrainingSpec

PLATEAUS = ("none", "private", "public", "test")
VIEWS = ("moved", "random")
# What the statement says on the word of the data holder.
DECLARED = (
    "responsible",
    "contact",
    "search",
    "settings_used_private_data",
    "initial_weights_used_private_data",
)
# Groups of options that a program may leave out.
PRETRAINING = ("pretraining_dataset", "pretraining_epochs")
STATISTICS_AND_ROWS = (
    "statistics",
    "statistics_gradient",
    "statistics_budget_share",
    "public_batch_size",
    "public_dataset",
    "pull_back_weight",
    "pull_back",
)
VARIATIONAL = ("clipping", *options(Variational))
IMPORTED = (*options(FineTuning), "person_feature", "most_per_person", "unit")


def has_public_statistics(settings):
    in_layers = settings.get("trainable") not in (None, "head") and settings.get("batch_norm")
    return "public_batch" in (settings["norm"], in_layers)


def _has_public_rows(settings):
    # Rows that are split off are missing from everybody's training set.
    is_split = settings.get("public_dataset") == "split"
    scales_features = settings.get("feature_scaling") == "public" or settings.get("head") == SOLVED
    return has_public_statistics(settings) or is_split or scales_features


def _has_public_set(settings):
    # An export of an imported model takes the ranges of its whole numbers from public images.
    return _has_public_rows(settings) or settings.get("trainable") is not None


HAS_PUBLIC_STATISTICS = Condition(
    "public-batch normalisation (--norm=public_batch)", has_public_statistics
)
HAS_PUBLIC_ROWS = Condition("public rows (--norm=public_batch)", _has_public_rows)
_HAS_PUBLIC_SET = Condition(HAS_PUBLIC_ROWS.needs, _has_public_set)
_HAS_PRETRAINING = Condition(
    "--pretraining_dataset", lambda settings: settings["pretraining_dataset"] is not None
)
_HALVES = when("plateau", "private", "public", "test")

IS_PUBLIC_BATCH_SIZE = functools.partial(
    arguments.whole,
    at_least=2,
    remedy="One row alone has variance 0. Take some 128 rows.",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivateSpec(TrainingSpec):
    """A cell that is trained by DP-SGD, or by the same program without noise and clipping.

    It may train an imported model further (`finetuning`), or be a method of Ermis & Cemgil (2017).
    """

    kind: ClassVar[str] = "private"

    # --- data: what is scored, and public data ---
    held_out: int | None = option(
        None,
        "For choosing settings: hold out this many training examples, drawn with --seed, and "
        "report their accuracy instead of that of the test set. No epsilon covers the choice.",
        at_least=2,
    )
    public_dataset: str = option(
        "kmnist",
        "Where the public rows come from: a data set; split for a part of the private one, which "
        "is taken out of it first; synthetic or synthetic:KIND for generated rows.",
        only_if=_HAS_PUBLIC_SET,
    )
    public_batch_size: int = option(
        128, "Number of public rows M.", check=IS_PUBLIC_BATCH_SIZE, only_if=HAS_PUBLIC_ROWS
    )
    pretraining_dataset: str | None = option(
        None,
        "Public set to train convolutions on, which are then frozen, so that only the rest is "
        "trained privately.",
    )
    pretraining_epochs: int = option(
        40, "Passes over the public set.", at_least=1, only_if=_HAS_PRETRAINING
    )

    image_size: int | None = option(
        None,
        "Height and width, in pixels, to which images are resized; default: their own.",
        at_least=1,
    )

    # --- whose statistics normalise, and what is learnt through them ---
    statistics: str = option(
        "public",
        "Source of the moments of public-batch normalisation; lot is the paper's Algorithm 1 as "
        "printed, which is NOT private.",
        choices=STATISTICS,
        only_if=HAS_PUBLIC_STATISTICS,
    )
    statistics_gradient: str = option(
        "full",
        "Gradient through the public statistics.",
        choices=STATISTICS_GRADIENTS,
        only_if=HAS_PUBLIC_STATISTICS,
    )
    statistics_budget_share: float | None = option(
        None,
        "Share of the budget for the running averages of norm noised_batch; default: that of "
        "the library.",
    )
    pull_back_weight: float | str = option(
        AUTO,
        "Weight of the gradients with respect to public-batch gammas and betas in the clipped "
        "vector; auto: from the public rows and the initial weights.",
        check=arguments.positive,
        words=(AUTO,),
        only_if=HAS_PUBLIC_STATISTICS,
    )
    pull_back: str = option(
        "whole",
        "Whether the gradient through the public statistics is shrunk according to its "
        "signal-to-noise ratio.",
        choices=PULL_BACKS,
        only_if=HAS_PUBLIC_STATISTICS,
    )

    # --- clipped batches and their views ---
    expected_batch_size: int = option(
        1024, "Expected batch size L.", at_least=1, only_if=IS_TRAINED
    )
    physical_batch_size: int | str | None = option(
        None,
        "Rows that go through the network at once; auto: as many as fit into memory; default: the "
        "whole batch.",
        at_least=1,
        words=(AUTO,),
        measured=False,
        only_if=IS_TRAINED,
    )
    l2_norm_clip: float = option(
        1.0,
        "Clipping norm C of each example's gradient.",
        check=functools.partial(arguments.positive, allow_inf=True),
        only_if=IS_TRAINED,
    )
    clipping: str = option(
        "flat",
        "flat: the whole gradient is clipped to C; per_layer: that of each of G layers to C / "
        "sqrt(G).",
        choices=CLIP_GROUPINGS,
        only_if=IS_TRAINED,
    )
    engine: str | None = option(
        None,
        "How clipped sums are computed; default: the fastest engine that supports the model.",
        choices=ENGINES,
        measured=False,
        only_if=IS_TRAINED,
    )
    augmentation_multiplicity: int = option(
        1,
        "Views of each image averaged into one clipped gradient (augmentation multiplicity): 1, 5 "
        "or 9 with --views=moved, any number with --views=random.",
        at_least=1,
    )
    views: str = option(
        "moved",
        "moved: the image and copies shifted by one pixel, the same at every update; random: a "
        "crop of the image padded by 4 pixels, half of the crops flipped, drawn for each view.",
        choices=VIEWS,
    )

    # --- the noise, and the guarantee that is aimed at ---
    epsilon: float | None = option(
        None,
        "Target epsilon; the noise is calibrated to it. inf: without privacy, noise or clipping. "
        "Or --noise_multiplier.",
        check=functools.partial(arguments.positive, allow_inf=True),
    )
    delta: float = option(1e-5, "Delta of the guarantee.", check=arguments.open_unit)
    noise_multiplier: float | None = option(
        None,
        "Noise multiplier z: standard deviation of the noise on the clipped sum, over the clipping "
        "norm. Or --epsilon.",
        check=arguments.nonnegative,
        instead_of="epsilon",
    )
    accountant: str = option("rdp", "Accountant.", choices=ACCOUNTANTS)
    noise_generator: str | None = option(
        None,
        "Noise generator; only openssl is cryptographic. Default: openssl, or philox with "
        "--insecure_seed.",
        choices=GENERATORS,
        measured=False,
    )
    insecure_seed: int | None = option(
        None,
        "For tests: repeatable noise and batches. No guarantee holds. Default: none.",
        at_least=0,
    )

    # --- what the statement says on the word of the data holder ---
    responsible: str | None = option(
        None, "Who is responsible for the run, for its privacy statement.", measured=False
    )
    contact: str | None = option(
        None, "How to reach them, for the privacy statement.", measured=False
    )
    search: str | None = option(
        None,
        "For the privacy statement: how the settings were found, in words; no epsilon covers it. "
        "Default: what is known of a cell of a table that is trained with its own settings; of any "
        "other run, the statement says that this was not stated.",
        measured=False,
    )
    settings_used_private_data: bool | None = option(
        None,
        "For the privacy statement: whether private data decided any setting, as a comparison of "
        "runs on them does. Default: the statement says that this was not declared.",
        measured=False,
    )
    initial_weights_used_private_data: bool | None = option(
        None,
        "For the privacy statement: whether private data trained the weights that the run begins "
        "with; with true no guarantee holds. Default: the statement says that this was not "
        "declared.",
        measured=False,
    )

    # --- halving of the learning rate where training makes no progress ---
    plateau: str = option(
        "none",
        "Whether the learning rate is halved on a plateau: private: of a noisy accuracy on "
        "held-out private examples, whose cost is charged to the budget; public: of the loss on "
        "--plateau_dataset; test: of the loss on the test set, which no epsilon covers, as the "
        "statement says.",
        choices=PLATEAUS,
    )
    plateau_patience: int = option(
        3, "Epochs without progress that make a plateau.", at_least=1, only_if=_HALVES
    )
    plateau_examples: int = option(
        5_000,
        "For --plateau=private or public: how many examples.",
        at_least=2,
        only_if=when("plateau", "private", "public"),
    )
    plateau_epsilon: float = option(
        1.0,
        "For --plateau=private: epsilon of all answers together for these examples, at the same "
        "delta.",
        check=arguments.positive,
        only_if=when("plateau", "private"),
    )
    plateau_dataset: str | None = option(
        None,
        "For --plateau=public: labelled public examples of the same classes, a "
        "folder of images or a CSV file as in docs/import.md; its classes are numbered by name.",
    )

    # --- what is evaluated, and when ---
    ema_decay: float | None = option(
        0.99, "Decay of the weight average.", check=arguments.decay, only_if=IS_TRAINED
    )
    evaluations: int = option(
        10,
        "Approximate number of test-set evaluations during the run, for its training curve.",
        at_least=1,
        measured=False,
    )

    variational: Variational = Variational()
    finetuning: FineTuning = FineTuning()

    # --- images of which several are one person's ---
    person_feature: str | None = option(
        None,
        "Owner of each image: subfolder, by the folder below that of the class, or the name of a "
        "column of the CSV file. --max_examples and --held_out then count persons.",
    )
    most_per_person: int | None = option(
        None,
        "Most images of a person. Persons are sampled and protected, each with all of their "
        "images, of which an update reads so many; --expected_batch_size and --epochs count "
        "persons. See --unit.",
        at_least=1,
    )
    unit: str | None = option(
        None,
        "What is sampled and protected; default: person with --most_per_person. row: images, and "
        "epsilon is stated for a person with up to --most_per_person of them, too.",
        choices=UNITS,
    )

    def __post_init__(self):
        super().__post_init__()
        checks.check_norm(self)
        checks.check_public_data(self)
        checks.check_views(self)
        checks.check_plateau(self)
        checks.check_method(self)
        if self.finetuning.is_imported:
            checks.check_imported(self)
        else:
            checks.check_model(self.model)
        if self.finetuning.is_solved:
            checks.check_solved(self)
        checks.check_persons(self)

    @property
    def needs_public_rows(self):
        """Whether there is public-batch normalisation, or public features that whiten others."""
        return has_public_statistics(self.settings) or self.finetuning.is_solved

    @property
    def datasets(self):
        public = self.public_dataset if _has_public_rows(self.settings) else "split"
        is_real = public != "split" and not public.startswith("synthetic")
        others = (self.pretraining_dataset, self.plateau_dataset, public if is_real else None)
        return (self.dataset, *filter(None, others))

    @property
    def is_unclipped(self):
        """Whether this is the baseline without privacy (epsilon infinite)."""
        return self.epsilon is not None and math.isinf(self.epsilon)

    @property
    def examples_per_update(self):
        """How many examples an update takes, in expectation."""
        return self.expected_batch_size
