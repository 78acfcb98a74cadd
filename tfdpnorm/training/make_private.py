"""The way from a Keras model to private training: check, plan, assemble."""

import dataclasses
import warnings
from typing import NamedTuple

import tensorflow as tf
from tensorflow import keras

from tfdpnorm import arguments
from tfdpnorm.data import SyntheticRows
from tfdpnorm.gradients import Clipping
from tfdpnorm.gradients.contributions.row_sums import RowSums, rounded_sums, rows_of_longer
from tfdpnorm.gradients.engines.registry import default_engine, engine_named
from tfdpnorm.independence import check_known_layers
from tfdpnorm.keras_compat.devices_and_precision import switch_off_tensor_float_32
from tfdpnorm.keras_compat.models import (
    HOW_TO_KEEP,
    computes_in_half,
    layers_unlike_configs,
    sublayers,
)
from tfdpnorm.noise.gaussian import GENERATORS, GaussianNoise
from tfdpnorm.privacy import PrivacyLedger, make_plan
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.slots import slots_of_plan
from tfdpnorm.training.checks.models import check_no_dynamic_layers, check_no_own_steps
from tfdpnorm.training.checks.settings import (
    arrays_of_public_batch,
    check_augmentation,
    check_budget_share,
    check_float32,
    check_no_strategy,
    check_public_rows,
    check_validate,
)
from tfdpnorm.training.engine_choice import EngineInUse, rehearse
from tfdpnorm.training.noised_statistics import (
    DEFAULT_BUDGET_SHARE,
    QUERIES_PER_LAYER,
    noised_layers,
)
from tfdpnorm.training.private_model import PrivateModel
from tfdpnorm.training.public_rows import Streams, synthetic_batch
from tfdpnorm.training.resume.resumption import Resumption, WithoutRunFolder
from tfdpnorm.training.resume.run_folder import RunFolder
from tfdpnorm.training.update import Update
from tfdpnorm.training.views import Views

MIXED_FLOAT16_LOSS_SCALE = 1024.0


def make_private(
    model,
    *,
    num_examples,
    expected_batch_size,
    steps,
    l2_norm_clip,
    budget=None,
    noise_multiplier=None,
    delta=None,
    public_batch=None,
    convert=None,
    statistics_budget_share=None,
    accountant="rdp",
    engine=None,
    physical_batch_size=None,
    loss_scale=None,
    pull_back_weight=1.0,
    pull_back="whole",
    clipping="flat",
    clip_function="abadi",
    augmentation_multiplicity=1,
    augmentation=None,
    validate=True,
    run_dir=None,
    resume=False,
    checkpoint_every=None,
    noise_generator="philox",
    insecure_seed=None,
):
    """Makes a Keras model trainable under differential privacy.

    The model is wrapped, not copied: training changes its weights. With `convert`, a converted copy
    is.

    Args:
        model: A Sequential, functional or subclassed Keras model; with `convert`, or the path of
            one.
        num_examples: N, the number of private training examples.
        expected_batch_size: L, the expected lot size; each example is in a lot with probability
            q = L / N, independently, and sums are divided by L.
        steps: T, the number of updates planned.
        l2_norm_clip: C, the clipping norm of each example's gradient.
        budget: `PrivacyBudget`: the noise multiplier is calibrated to reach it after T updates.
        noise_multiplier: z, instead of a budget: standard deviation of the noise on the sum of
            clipped gradients, over C. 0 trains without noise, and without a guarantee.
        delta: With `noise_multiplier`.
        public_batch: [M, ...] rows that are not private, for `PublicBatchNormalization` layers.
            They must be chosen without looking at the private data, and not be part of it. Or
            "synthetic", "synthetic:fractal" and the like, or `tfdpnorm.data.SyntheticRows`: rows
            that are made up for the model's inputs (see `tfdpnorm.data.synthetic_rows`), images in
            [0, 1], token ids, or numbers of mean 0 and variance 1.
        convert: For a model with ordinary batch normalisation: "public_batch", "group", "layer" or
            "frozen", or a dict of arguments of `tfdpnorm.convert_model`. The copy that is trained
            is the `model` of what is returned, and what was done is its `conversion`.
        statistics_budget_share: s, for a model with `NoisedBatchNormalization` layers: their share
            of each update's privacy loss, 0 < s < 1; None for 0.2. The noise on the gradients grows
            by 1 / sqrt(1 - s), and the guarantee is the same for any s.
        accountant: "rdp" or "pld".
        engine: How clipped sums are computed, one of `tfdpnorm.training.ENGINES`; all give the same
            sum. None takes "book_keeping", the fastest; or "per_example" where that cannot be:
            with statistics "example", with "lot" and its full gradient, and, with a warning of what
            it costs, where book-keeping has no rule or per-example independence is not proved for
            it. The shapes of the model's inputs have to be known then: call a subclassed model on
            a batch before, or `build(shape)`.
        physical_batch_size: Rows that go through the model at once; smaller than a lot saves
            memory and changes nothing else. None for a whole lot at once.
        loss_scale: Constant factor on the loss during back-propagation, undone before clipping.
            None: 1, or 1024 for a model that computes in float16.
        pull_back_weight: Factor > 0 on the gradients by gamma and beta of public-batch layers
            before clipping, undone after the noise. They are small beside the kernels' and the
            pull-back multiplies their noise: a factor above 1 gives them less noise for a share of
            the clipping norm. The guarantee is the same for any factor.
        pull_back: "whole", or "shrunk": the noised gradients by gamma and beta are shrunk before
            they are pulled back through the public statistics, each layer's by its own ratio of
            signal to noise (see `tfdpnorm.training.post_processing.shrunk`). It helps where
            lots are small or the noise is large. The guarantee is the same.
        clipping: "flat": the gradient by all weights is clipped as one vector, to C. "per_layer":
            that by each of G layers' weights by itself, to C / sqrt(G). The guarantee is the same.
        clip_function: "abadi", min(1, C / norm), or "automatic", C / (norm + 0.01); see
            `tfdpnorm.gradients.clip_factors`.
        augmentation_multiplicity: K, for multi-view augmentation: the gradient of an example is
            that of the mean loss of K augmented views of it. Takes K times the time and memory; the
            guarantee is the same.
        augmentation: Keras layer, or function from inputs [rows, ...] to as many, that makes a
            view of each row *by itself*: if one row changes the view of another, no guarantee
            holds. Or a list of K of them, one for each view. Random numbers have to be drawn
            whatever the rows hold; they may depend on a row's position, and need not be secret.
        validate: How per-example independence is made sure of. True: before the first update it is
            verified from the graph of the step, for engine "book_keeping", or holds by
            construction, for "per_example". Models that cannot be verified are rejected. "probe":
            before the first update the model, its loss and its augmentation are run on a few
            synthetic examples, to see whether one changes what is computed for another; that
            randomized check has to run to its end and to find nothing, and the statement says where
            the verification stopped. False: neither, and no guarantee holds.
        run_dir: Folder for the ledger, written before each update, and for checkpoints, so that
            the run survives a crash (see `RunFolder`). None keeps both in memory.
        resume: Resume the run that `run_dir` holds, or start one if it holds none. It goes on from
            its last checkpoint, with new noise and new batches; the updates after that checkpoint
            are lost, and stay spent. What the guarantee rests on must be as it was: the plan, the
            statistics, the noise, the bound on rounding. Optimizer, learning rate, engine and
            physical batch size may be others.
        checkpoint_every: Updates between checkpoints; None for a fiftieth of the plan, so that a
            crash costs at most 2 % of the updates (at least one, and an execution of several).
        noise_generator: "philox", or "shake256", a cryptographic generator: slower, some 20 ms for
            each million weights, and not to be compiled by XLA. With both, what is released lies on
            a grid and has the distribution that the accountant assumes (docs/exact_noise.md).
            "fast" saves some 3 ms for each million weights; somebody who knows two candidate sums
            can tell from the bits of a single update which of them it was, whatever epsilon says.
        insecure_seed: For tests: makes noise and sampled lots repeatable. No guarantee holds.

    Returns:
        A `PrivateModel`; `compile` and `fit` it.

    Raises:
        ValueError: with what was expected, for anything that does not fit together, for a private
            model, for one with a `train_step` or the like of its own, for one in the scope of a
            `tf.distribute.Strategy`, and for models in which one example changes the gradient of
            another.
    """
    conversion, given = None, model
    if not isinstance(public_batch, (type(None), str, SyntheticRows)):
        public_batch = arrays_of_public_batch(public_batch, model)
    if convert is not None:
        model, conversion = _converted(model, convert, public_batch)
    _check_is_trainable_here(model)
    checked = _check(
        model,
        public_batch,
        conversion=conversion,
        engine=engine,
        clipping=clipping,
        clip_function=clip_function,
        l2_norm_clip=l2_norm_clip,
        loss_scale=loss_scale,
        augmentation_multiplicity=augmentation_multiplicity,
        augmentation=augmentation,
        pull_back_weight=pull_back_weight,
        pull_back=pull_back,
        statistics_budget_share=statistics_budget_share,
        validate=validate,
    )
    physical_batch_size = _integer_or_none("physical_batch_size", physical_batch_size, at_least=1)
    checkpoint_every = _integer_or_none("checkpoint_every", checkpoint_every, at_least=1)
    insecure_seed = _integer_or_none("insecure_seed", insecure_seed, at_least=0)
    arguments.choice("noise_generator", noise_generator, GENERATORS)
    check_validate(validate)
    if run_dir is None and (resume or checkpoint_every is not None):
        raise ValueError("Expected run_dir with resume and checkpoint_every, got None.")
    plan = make_plan(
        num_examples=num_examples,
        expected_batch_size=expected_batch_size,
        steps=steps,
        l2_norm_clip=l2_norm_clip,
        budget=budget,
        noise_multiplier=noise_multiplier,
        delta=delta,
        accountant=accountant,
        no_guarantee_because=_no_guarantee_because(checked.streams, insecure_seed),
        statistics_queries=QUERIES_PER_LAYER * checked.noised_layers,
        statistics_budget_share=checked.statistics_budget_share,
    )
    check_float32(plan)
    if switch_off_tensor_float_32():
        warnings.warn(
            "TensorFloat-32 is switched off in this process: it would round the norms that "
            "gradients are clipped by. For speed, use the policy mixed_float16 or mixed_bfloat16.",
            stacklevel=2,
        )
    # Of one physical batch for all: smaller ones round no more, so their size may change.
    most_rows = slots_of_plan(plan).rows
    block, rounding = rounded_sums(most_rows)
    of_longer = rows_of_longer(most_rows, block)
    checked = checked._replace(
        clipping=dataclasses.replace(checked.clipping, sums=RowSums(block, of_longer)),
    )
    # What the guarantee rests on besides the plan; a resumed run must share it.
    settings = {
        "statistics": checked.streams.statistics,
        "noise_generator": noise_generator,
        "noise_grid": None if noise_generator == "fast" else "stddev / 32",
        "sum_rounding": None if checked.engine.now.of_tensorflow_privacy else rounding,
        "insecure_seed": insecure_seed,
    }
    form = {"physical_batch_size": physical_batch_size, "validate": validate}
    rehearse(model, checked, plan, **form)
    private = _assemble(
        model,
        checked,
        plan,
        settings,
        **form,
        run_dir=run_dir,
        resume=resume,
        checkpoint_every=checkpoint_every,
    )
    private.conversion = conversion
    if convert is not None and isinstance(given, keras.Model) and not private.ledger.updates:
        private.provenance.begin(given)
    if checked.synthetic_rows is not None:
        private.ledger.record(caveat("synthetic_public_rows", kinds=checked.synthetic_rows))
    if checked.engine.said is not None:
        warnings.warn(checked.engine.said, stacklevel=2)
    unlike = layers_unlike_configs(model)
    if unlike:
        warnings.warn(
            f"private.save() will refuse this model: {unlike[0].name!r} holds exchanged layers, of "
            f"which its get_config() does not know. {HOW_TO_KEEP}.",
            stacklevel=2,
        )
    return private


def _converted(model, convert, public_batch):
    """The pair of the converted copy and the report."""
    # Not above: conversion is a room of its own, which most trainings do not enter.
    from tfdpnorm.convert.convert import OPTIONS, convert_model

    given = {"batch_norm": convert} if isinstance(convert, str) else convert
    given = arguments.instance(
        "convert",
        given,
        dict,
        remedy='Pass "public_batch", or {"batch_norm": "group", "scale_norm": True}.',
    )
    unknown = sorted(set(given) - set(OPTIONS))
    if unknown:
        raise ValueError(
            f"Expected convert to have arguments of convert_model, {OPTIONS}, got {unknown}."
        )
    if isinstance(public_batch, (str, SyntheticRows)):
        public_batch = None  # They are made for the converted model, and tell nothing of this one.
    if public_batch is not None:
        tf.nest.map_structure(check_public_rows, public_batch)
    return convert_model(model, **{"public_rows": public_batch, **given})


def _check_is_trainable_here(model):
    if not isinstance(model, keras.Model):
        raise ValueError(f"Expected a tf.keras.Model, got {type(model).__name__}.")
    if any(isinstance(x, PrivateModel) for x in (model, *sublayers(model))):
        raise ValueError(
            "Expected a Keras model, got one from make_private(), or one that holds such a model. "
            "Pass private.model, and add the epsilon of both: each ledger counts its own updates."
        )
    check_no_own_steps(model)
    check_no_dynamic_layers(model)
    check_no_strategy(model)


class _Checked(NamedTuple):
    """What the settings of a private training come to for a model.

    Attributes:
        streams: `Streams`: where the statistics of its layers come from.
        engine: `EngineInUse`.
        clipping: `Clipping`, of no variables yet.
        views: `Views`.
        noised_layers: The number of layers whose running averages are released with noise.
        statistics_budget_share: Their share of the budget; 0 without any.
        synthetic_rows: The kinds of synthetic public rows in words, or None.
    """

    streams: Streams
    engine: EngineInUse
    clipping: Clipping
    views: Views
    noised_layers: int
    statistics_budget_share: float
    synthetic_rows: str | None


def _check(
    model,
    public_batch,
    *,
    conversion,
    engine,
    clipping,
    clip_function,
    l2_norm_clip,
    loss_scale,
    augmentation_multiplicity,
    augmentation,
    pull_back_weight,
    pull_back,
    statistics_budget_share,
    validate,
):
    """Returns the `_Checked` of a model; refuses what does not fit together."""
    asked_for = None if engine is None else engine_named(engine)
    check_known_layers(model, will_be_proved=validate is True, conversion=conversion)
    synthetic_rows = None
    if isinstance(public_batch, (str, SyntheticRows)):
        public_batch, synthetic_rows = synthetic_batch(model, public_batch)
        public_batch = arrays_of_public_batch(public_batch, model)
    if public_batch is not None:
        tf.nest.map_structure(check_public_rows, public_batch)
        public_batch = tf.nest.map_structure(tf.convert_to_tensor, public_batch)
    streams = Streams(model, public_batch, pull_back_weight, pull_back)
    asked = {"rows_mix": streams.rows_mix, "public_rows_per_example": streams.mode == "example"}
    engine = asked_for or default_engine(**asked)
    if loss_scale is None:
        loss_scale = MIXED_FLOAT16_LOSS_SCALE if computes_in_half(model) else 1.0
    clipping = Clipping(l2_norm_clip, clipping, clip_function, loss_scale)
    engine.check(**asked, clipping=clipping)
    check_augmentation(augmentation_multiplicity, augmentation, streams.mode)
    noised = noised_layers(model)
    check_budget_share(statistics_budget_share, noised, streams.mode)
    if noised and statistics_budget_share is None:
        statistics_budget_share = DEFAULT_BUDGET_SHARE
    views = Views(augmentation_multiplicity, augmentation)
    return _Checked(
        streams,
        EngineInUse(model, views, engine, may_change=asked_for is None),
        clipping,
        views,
        len(noised),
        statistics_budget_share or 0.0,
        synthetic_rows if streams.layers else None,
    )


def _assemble(
    model,
    checked,
    plan,
    settings,
    *,
    physical_batch_size,
    validate,
    run_dir=None,
    resume=False,
    checkpoint_every=None,
):
    """Returns the `PrivateModel` of what was checked and planned; opens its run folder."""
    insecure_seed = settings["insecure_seed"]
    if run_dir is None:
        kept, ledger = WithoutRunFolder(), PrivacyLedger(plan, settings)
    else:
        folder = RunFolder(run_dir, plan, settings, resume=resume)
        kept, ledger = Resumption(folder, checkpoint_every), folder.ledger
    return PrivateModel(
        model,
        ledger=ledger,
        streams=checked.streams,
        update=Update(
            model,
            checked.streams,
            checked.views,
            plan,
            engine=checked.engine,
            clipping=checked.clipping,
            sum_rounding=settings["sum_rounding"] or 0.0,
        ),
        noise=GaussianNoise(insecure_seed, settings["noise_generator"], ledger.updates),
        physical_batch_size=physical_batch_size,
        validate=validate,
        kept=kept,
    )


def _no_guarantee_because(streams, insecure_seed):
    reasons = []
    if streams.mode == "lot":
        reasons.append(
            'statistics="lot" lets every example of a lot move the gradients of all the others, so '
            "that clipping does not bound what one example changes"
        )
    if insecure_seed is not None:
        reasons.append("the noise and the lots come from a seed that is not secret")
    return tuple(reasons)


def _integer_or_none(name, value, *, at_least):
    if value is None:
        return None
    return arguments.integer(
        name, value, at_least=at_least, remedy="Or pass None.", wrong_type=ValueError
    )
