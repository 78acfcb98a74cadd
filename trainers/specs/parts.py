"""The parts of specs, and what every kind of run is asked for."""

import dataclasses

from tfdpnorm import arguments
from tfdpnorm.choices import BATCH_NORMS
from trainers.specs.options import Condition, Spec, option, when

# Methods of Ermis & Cemgil (2017), Table 1.
VARIATIONAL_METHODS = ("dpvd", "svi", "dpsgd", "dropout", "gaussian_dropout", "none")
# Of these, those with noise that multiplies the inputs of each layer, by the kind of the noise.
DROPOUTS = {"dropout": "binary", "gaussian_dropout": "gaussian"}
# Of their method "dpvd": with a guarantee, or Algorithm 1 to the letter, without any.
READINGS = ("sound", "as_printed")
# Their accountants. Not all that they claim holds (`trainers.ermis.comparison`).
CLAIMING_ACCOUNTANTS = ("ac", "zcdp")
SOLVED = "least_squares"  # a head that one release gives, and no training
IS_TRAINED = Condition(
    "a head that is trained (not --head=least_squares)",
    lambda settings: settings.get("head") != SOLVED,
)


def check_trainable(name, value):
    """Raises ValueError for strings that `tfdpnorm.convert.freeze` does not take."""
    number = value.removeprefix("last:")
    if value not in ("all", "head") and (
        number == value or not number.isdecimal() or number == "0"
    ):
        raise arguments.refusal(name, 'to be "head", "last:N" or "all"', value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variational(Spec):
    """A method of Ermis & Cemgil (2017), of which "dpsgd" is plain DP-SGD."""

    method: str = option(
        "dpsgd",
        "dpvd: variational dropout; svi: the same without dropout, a point estimate under a normal "
        "prior; dpsgd: Abadi et al. (2016); dropout and gaussian_dropout: the same with noise that "
        "multiplies the inputs of each layer; none: without privacy.",
        choices=VARIATIONAL_METHODS,
        flag=False,
    )
    reading: str = option(
        "sound",
        "Of dpvd: sound, with the guarantee of DP-SGD, or as_printed, Algorithm 1 to the letter, "
        "with NO GUARANTEE.",
        choices=READINGS,
        flag=False,
    )
    calibrated_by: str | None = option(
        None,
        "The paper's accountant (ac or zcdp) whose claim the noise is calibrated to, instead of "
        "an accountant that is valid.",
        choices=CLAIMING_ACCOUNTANTS,
        flag=False,
    )
    prior_stddev: float | None = option(
        None,
        "Of svi: standard deviation of the normal prior; default: a flat one.",
        check=arguments.positive,
        only_if=when("method", "svi"),
    )
    kl_weight: float = option(
        0.0,
        "Of dpvd: factor on the divergence from the log-uniform prior, which is divided by N.",
        check=arguments.nonnegative,
        only_if=when("method", "dpvd"),
    )
    max_alpha: float | None = option(
        None,
        "Of dpvd: bound on alpha = zeta^2 / phi^2 of each weight, 1 for that of Kingma et al. "
        "(2015); default: no bound.",
        check=arguments.positive,
        only_if=when("method", "dpvd"),
    )
    dropout_rate: float = option(
        0.2,
        "Of dropout and gaussian_dropout: p. The noise has the variance alpha = p / (1 - p).",
        check=arguments.open_unit,
        only_if=when("method", *DROPOUTS),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuning(Spec):
    """What is trained of a model, which is imported unless `trainable` is None, and its head."""

    trainable: str | None = option(
        None,
        "Trained layers: head, the new last layer and its normalisation, on features that are "
        "computed once; last:N, the last N layers that have weights, the head's included; all.",
        check=check_trainable,
    )
    batch_norm: str = option(
        "frozen",
        "Replacement of the batch normalisation in trained layers.",
        choices=BATCH_NORMS,
        only_if=Condition(
            "--trainable=last:N or --trainable=all",
            lambda settings: settings.get("trainable") not in (None, "head"),
        ),
    )
    pixel_mean: float = option(
        0.0, "Subtracted from pixel values of 0 to 255.", check=arguments.finite
    )
    pixel_scale: float = option(
        255.0, "Divisor of the pixel values after the mean is subtracted.", check=arguments.positive
    )
    feature_views: int = option(
        1,
        "Views whose features are averaged: 1, or 2 with the mirror image.",
        choices=(1, 2),
        only_if=when("trainable", "head"),
    )
    feature_scaling: str = option(
        "none",
        "public: features are centred by the mean of public images' features and divided by the "
        "root mean square of the centred features, constants computed from --public_dataset.",
        choices=("none", "public"),
        only_if=when("trainable", "head"),
    )
    head: str = option(
        "new",
        "new: a last layer initialised with zeros; imported: initialised with that of the "
        "imported model, which has as many classes; least_squares: solved for by one noisy "
        "release of products of features, without training.",
        choices=("new", "imported", SOLVED),
    )
    directions: int | None = option(
        None,
        "Principal directions of the features of --public_batch_size public images onto which "
        "features are projected, each divided by its standard deviation there; default: as many "
        "as are worth their noise, up to 500.",
        at_least=1,
        only_if=when("head", SOLVED),
    )

    @property
    def is_imported(self):
        """Whether an imported model is trained further."""
        return self.trainable is not None

    @property
    def is_solved(self):
        """Whether the last layer is solved for by one release, and nothing is trained."""
        return self.head == SOLVED


class RunSpec(Spec):
    """What every kind of run is asked for; which is an option only of the kinds that have it."""

    variational, finetuning = Variational(), FineTuning()
    pretraining_dataset = image_size = held_out = None
    most_per_person = unit = statistics_budget_share = None
    validation_examples, augmentation_multiplicity, plateau = 0, 1, "none"

    @property
    def drawn_per_person(self):
        """Most images of a drawn person in an update; None where images are drawn."""
        return None if self.unit == "row" else self.most_per_person

    @property
    def stated_per_person(self):
        """For a person of how many images an epsilon is stated, too; None for no such one."""
        return self.most_per_person if self.unit == "row" else None

    @property
    def is_pretrained(self):
        """Whether a part of the network is trained on a public set first, and then frozen."""
        return self.pretraining_dataset is not None
