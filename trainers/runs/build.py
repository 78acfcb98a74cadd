"""From a spec and its data to the model that is trained, and the views of images that it sees."""

import functools
import math

import tensorflow as tf
from tensorflow import keras

from tfdpnorm import Clipping, PublicBatch, Views, models
from tfdpnorm.keras_compat.devices_and_precision import made_under
from tfdpnorm.layers import RandomCropAndFlip, with_variational_dropout
from tfdpnorm.privacy import PrivacyBudget, make_plan
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.entries import Declaration
from tfdpnorm.training import make_private
from trainers.ermis.readings import NEAREST
from trainers.specs.parts import DROPOUTS
from trainers.specs.private import DECLARED


def build_network(spec, data, **options):
    """Builds the network of the spec of a run, or of an `AuditSpec`; nothing is trained yet.

    `options` are further ones of the model, or of public-batch normalisation.
    """
    if spec.finetuning.is_imported:
        from trainers.runs.finetune import build_finetuned

        return build_finetuned(spec, data, **options)
    kind, dropout = DROPOUTS.get(spec.variational.method), {}
    if kind is not None:  # noise that multiplies the inputs of layers
        dropout = dict(dropout=kind, dropout_rate=spec.variational.dropout_rate)
    keras.utils.set_random_seed(spec.seed)  # initial weights; never the privacy noise, or batches
    with made_under(spec.precision):
        network = models.build(
            spec.model,
            norm=spec.norm,
            num_classes=data.num_classes,
            input_shape=data.train_x.shape[1:],
            **{**dict(spec.model_options), **data.model_options, **dropout, **options},
        )
    if spec.variational.method == "dpvd":
        return with_variational_dropout(
            network,
            noise="public",
            num_examples=data.num_examples,
            **_fields(spec.variational, "kl_weight", "max_alpha"),
        )
    return network


def build_private(spec, data, *, steps, augmentation=None, accountant=None, **more):
    """Builds the network of a spec and makes it private; nothing is trained yet.

    `more` are arguments of `make_private` that the spec does not have, such as `run_dir`.
    """
    plan = plan_of(spec, data.num_examples, steps=steps, accountant=accountant)
    private = make_private_as(
        spec,
        build_network(spec, data, **public_statistics(spec)),
        plan,
        public_rows=data.public_x if spec.needs_public_rows else None,
        augmentation=augmentation,
        **more,
    )
    for reason in data.no_guarantee_because:
        private.ledger.record(caveat("no_guarantee", sentence=reason))
    for known in data.foreign:
        private.ledger.record(known)
    return private


def declaration_of(spec):
    """Returns what a `PrivateSpec` declares for the privacy statement, a `Declaration`."""
    return Declaration(**{name: getattr(spec, name) for name in DECLARED})


def plan_of(spec, num_examples, *, steps=None, accountant=None):
    """Returns the `PrivacyPlan` of a spec; `steps` and `accountant` None are the spec's."""
    if spec.finetuning.is_solved:
        return make_plan(
            num_examples=num_examples,
            expected_batch_size=num_examples,
            steps=1,
            l2_norm_clip=1.0,
            accountant=spec.accountant,
            most_per_person=spec.most_per_person,
            **amount_of_privacy(spec, num_examples, 1),
        )
    steps = spec.updates(num_examples) if steps is None else steps
    return make_plan(
        num_examples=num_examples,
        expected_batch_size=spec.expected_batch_size,
        steps=steps,
        accountant=spec.accountant if accountant is None else accountant,
        statistics_budget_share=spec.statistics_budget_share or 0.0,
        most_per_person=spec.most_per_person,
        unit=spec.unit,
        **{"l2_norm_clip": spec.l2_norm_clip, **amount_of_privacy(spec, num_examples, steps)},
    )


def make_private_as(spec, network, plan, *, public_rows=None, augmentation=None, **more):
    """Makes a network private with the clipping, public rows, views and engine of a spec.

    `more` are further arguments of `make_private`.
    """
    public_batch = None
    if public_rows is not None:
        public_batch = PublicBatch(public_rows, **_fields(spec, "pull_back", "pull_back_weight"))
    return make_private(
        network,
        plan,
        clipping=Clipping(**_fields(spec, grouping="clipping", function="clip_function")),
        public_batch=public_batch,
        views=Views(augmentation, spec.augmentation_multiplicity),
        **_fields(spec, "engine", "physical_batch_size", "noise_generator", "insecure_seed"),
        **more,
    )


def public_statistics(spec):
    """Returns the options of public-batch normalisation in a spec, a dict; empty without any."""
    return _fields(spec, "statistics", "statistics_gradient") if spec.needs_public_rows else {}


def _fields(spec, *names, **renamed):
    """The fields of a spec as arguments, a dict, without those that this kind of spec lacks."""
    arguments = {**{name: name for name in names}, **renamed}
    return {new: getattr(spec, old) for new, old in arguments.items() if hasattr(spec, old)}


def amount_of_privacy(spec, num_examples, steps):
    """Returns the budget or the noise of a spec, as arguments of `make_plan`."""
    claimed_by = spec.variational.calibrated_by
    if claimed_by is not None:
        # The noise of the paper's row, in the reading that comes nearest to it; the ledger then
        # counts what that costs, by an accountant that holds.
        rate = spec.expected_batch_size / num_examples
        sigma = NEAREST.sigma(claimed_by, spec.epsilon, rate, steps, spec.delta)
        return dict(noise_multiplier=2 * sigma, delta=spec.delta)
    if spec.epsilon is None:
        return dict(noise_multiplier=spec.noise_multiplier, delta=spec.delta)
    if math.isinf(spec.epsilon):
        # The baseline without privacy goes the same way, with nothing clipped and no noise.
        return dict(noise_multiplier=0.0, delta=spec.delta, l2_norm_clip=math.inf)
    return dict(budget=PrivacyBudget(epsilon=spec.epsilon, delta=spec.delta))


# --- the views of an image: multi-view augmentation ---

# Rows down and columns right: the image, its four nearest places, and the four behind them. Other
# counts would favour a direction.
_MOVES = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))


def augmentations(count, shape, views="moved"):
    """Returns what makes the views of images for `make_private`; None for the image alone.

    "moved": a list of functions. The first view is the image itself; in the others it is moved by a
    pixel, along one axis or both, and mirrored at the border. They are the same at every update.

    "random": a layer, `RandomCropAndFlip`, for every view, also for a single one. What it draws
    depends on no image, and need not be secret.

    `count` is of "moved" one of `trainers.specs.checks.MULTIPLICITIES`; `shape` that of a row.
    """
    if count == 1 and views == "moved":
        return None
    if len(shape) != 3 or min(shape[:2]) < 2:
        raise ValueError(
            "Expected images of 2 or more pixels in height and width with "
            f"augmentation_multiplicity={count}, got rows of shape {tuple(shape)}. For texts, and "
            "for networks with frozen layers, set augmentation_multiplicity=1."
        )
    if views == "random":
        return RandomCropAndFlip()
    return [functools.partial(_moved, down=down, right=right) for down, right in _MOVES[:count]]


def _moved(images, down, right):
    height, width = images.shape[1:3]
    padded = tf.pad(images, [[0, 0], [1, 1], [1, 1], [0, 0]], "SYMMETRIC")
    return padded[:, 1 - down : 1 - down + height, 1 - right : 1 - right + width]
