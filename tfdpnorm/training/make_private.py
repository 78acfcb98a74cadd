"""Makes a Keras model private: check, plan, assemble."""

from __future__ import annotations

import dataclasses
import os
import warnings
from typing import TYPE_CHECKING, NamedTuple

import tensorflow as tf
from tensorflow import keras

from tfdpnorm import arguments
from tfdpnorm.choices import AUTO, BATCH_NORMS
from tfdpnorm.errors import PrivacyError, PrivacyWarning
from tfdpnorm.gradients import Clipping
from tfdpnorm.gradients.contributions.row_sums import sums_on_cpu
from tfdpnorm.gradients.contributions.sums_on_gpu import sums_on_gpu
from tfdpnorm.gradients.engines.registry import engine_named
from tfdpnorm.independence import check_known_layers
from tfdpnorm.keras_compat.devices_and_precision import (
    switch_off_tensor_float_32,
    takes_forms_of_gpus,
)
from tfdpnorm.keras_compat.graphs import check_runs_eagerly
from tfdpnorm.keras_compat.models import (
    complete_build,
    computes_in_half,
    sublayers,
)
from tfdpnorm.keras_compat.variables import KERAS_VERSION, raw, trainable_variables
from tfdpnorm.noise.gaussian import GaussianNoise, generator_of
from tfdpnorm.privacy import Declaration, PrivacyLedger, PrivacyPlan
from tfdpnorm.privacy.added_delta import check_plan
from tfdpnorm.privacy.budget import PrivacyBudget
from tfdpnorm.privacy.caveats import Caveat, caveat
from tfdpnorm.privacy.phases import caveats_of_phases
from tfdpnorm.privacy.slots import slots_of_plan
from tfdpnorm.training.automatic_batches import automatic_rows
from tfdpnorm.training.checks.models import (
    check_no_dynamic_layers,
    check_no_own_steps,
    own_methods,
)
from tfdpnorm.training.checks.settings import (
    check_budget_share,
    check_float32,
    check_no_strategy,
    check_replicas,
    check_views,
)
from tfdpnorm.training.engine_choice import EngineInUse, default_engine, rehearse
from tfdpnorm.training.forecast import forecast
from tfdpnorm.training.noised_statistics import (
    DEFAULT_BUDGET_SHARE,
    QUERIES_PER_LAYER,
    noised_layers,
)
from tfdpnorm.training.private_model import PrivateModel
from tfdpnorm.training.provenance import warn_of_initial_weights
from tfdpnorm.training.public_rows import PublicBatch, Streams
from tfdpnorm.training.replicas import replicas_of
from tfdpnorm.training.resume.resumption import Resumption, WithoutRunFolder
from tfdpnorm.training.resume.run_folder import RunDir, RunFolder
from tfdpnorm.training.suggested_rate import signal_to_noise
from tfdpnorm.training.suggestions import suggest
from tfdpnorm.training.tasks import graph_of, is_task
from tfdpnorm.training.update import Update
from tfdpnorm.training.views import Views
from tfdpnorm.training.workers import FollowsChief

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from typing import Any

    import tensorflow as tf


def make_private(
    model: keras.Model | str | os.PathLike,
    plan: PrivacyPlan | None = None,
    *,
    budget: PrivacyBudget | None = None,
    num_examples: int | None = None,
    epochs: float | None = None,
    most_per_person: int | None = None,
    unit: str | None = None,
    clipping: Clipping | None = None,
    public_batch: Any = None,
    views: Views | None = None,
    engine: str | None = None,
    physical_batch_size: int | str | None = None,
    noise_generator: str | None = None,
    insecure_seed: int | None = None,
    run_dir: RunDir | str | os.PathLike | None = None,
    validate: bool = True,
    convert: str | Mapping[str, Any] | None = None,
    strategy: tf.distribute.Strategy | None = None,
    declaration: Declaration | None = None,
) -> PrivateModel:
    """Makes a Keras model trainable under differential privacy.

    The model is wrapped, not copied: training changes its weights. With `convert`, a converted copy
    is wrapped instead.

    Without a plan, all settings that are not given are suggested, see `tfdpnorm.suggest`; the
    attribute `suggestion` of the result holds them, with reasons. With a plan, you choose them.

    Args:
        model: A Sequential, functional or subclassed Keras model, or the path of one. Or a task of
            KerasHub, whose graph is trained, on rows that it preprocesses.
        plan: `tfdpnorm.privacy.PrivacyPlan`, see `tfdpnorm.make_plan`: the number of examples, the
            expected batch size, the updates, the clipping norm, and the noise for a budget. None to
            have one suggested from the next five.
        budget: `tfdpnorm.PrivacyBudget`, without a plan.
        num_examples: N, the number of training examples, without a plan; of persons, where they
            are the unit.
        epochs: How often an example is drawn on average, without a plan; None for a usual number.
        most_per_person: The most rows of a person, without a plan: see `make_plan`.
        unit: "person" or "row", what is protected, without a plan: see `make_plan`.
        clipping: `tfdpnorm.Clipping`, how the gradient of each example is clipped to the plan's
            norm; by default as one vector.
        public_batch: [M, ...] rows that are not private, for `PublicBatchNormalization` layers; or
            "synthetic"; or `tfdpnorm.PublicBatch`, which has further options.
        views: `tfdpnorm.Views`, for multi-view augmentation.
        engine: How clipped sums are computed, one of `tfdpnorm.training.ENGINES`; all give the same
            sum. None takes "book_keeping", the fastest; or "per_example" where book-keeping is not
            possible: with statistics "example", with "lot" and its full gradient, and, with a
            warning that names the cost, where book-keeping has no rule or per-example independence
            is not verified for it. This choice needs the shapes of the model's inputs: call a
            subclassed model on a batch first, or `build(shape)`.
        physical_batch_size: Rows that go through the model at once; smaller than a batch saves
            memory and changes nothing else. None for a whole batch at once; "auto" for as many as
            fit into memory, found by trials on synthetic rows and printed in one line.
        noise_generator: "openssl", a cryptographic generator; or "philox", which is not, and which
            XLA and repeatable noise need. None for "openssl", or "philox" with `insecure_seed`.
            Released values lie on a grid and have the distribution that the accountant assumes
            (docs/exact_noise.md).
        insecure_seed: For tests: makes noise and sampled batches repeatable. No guarantee holds.
        run_dir: Folder for the ledger and for checkpoints; or `tfdpnorm.RunDir`, to resume the run
            that it holds. None keeps both in memory.
        validate: How per-example independence is ensured. True: before the first update it is
            verified from the graph of the step, for engine "book_keeping", or holds by
            construction, for "per_example". Models that cannot be verified are rejected. False: no
            check is made, and no guarantee holds.
        convert: For a model with ordinary batch normalisation: "public_batch", "group", "layer" or
            "frozen", or a dict of arguments of `tfdpnorm.convert_model`. The copy that is trained
            is the `model` of the result, and its `conversion` reports the changes.
        strategy: `tf.distribute.MirroredStrategy`, to have several devices add up the clipped sums
            of an update; or `MultiWorkerMirroredStrategy`, for several processes
            (docs/several_devices.md). Make, compile and fit the model outside of its scope. None
            for one device.
        declaration: `tfdpnorm.privacy.Declaration`, your own entries in the statement: who is
            responsible, how to reach them, and how the settings were found.

    Returns:
        A `PrivateModel`; `compile` and `fit` it.

    Raises:
        ValueError: for arguments that do not fit together, for a model that is private already,
            for one with its own `train_step` or similar methods, for one in the scope of a
            `tf.distribute.Strategy`, and for models in which one example changes the gradient of
            another.
        PrivacyError: if per-example independence cannot be verified, the run of `run_dir` is
            another one, or epsilon is so large that what is added to delta is not small beside it.

    Warns:
        PrivacyWarning: if training continues, but no guarantee holds or little will be learnt.

    Example::

        private = tfdpnorm.make_private(
            model, budget=budget, num_examples=len(x), public_batch="synthetic"
        )
        private.compile("adam", "sparse_categorical_crossentropy")
        private.fit(x, y, epochs=1, verbose=0)
        print(private.privacy_statement())

        # With settings of your own:
        private = tfdpnorm.make_private(model, plan, public_batch=public_rows)
    """
    wanted = {"budget": budget, "num_examples": num_examples}
    wanted |= {"epochs": epochs, "most_per_person": most_per_person, "unit": unit}
    _check_one_of(plan, **wanted)
    _check_settings(insecure_seed, physical_batch_size, validate, declaration)
    noise_generator = generator_of(noise_generator, insecure_seed)
    public, run_dir, given = PublicBatch.of(public_batch), RunDir.of(run_dir), model
    if isinstance(model, (str, os.PathLike)) and convert is None:
        model = _loaded(model)
    task = model if isinstance(model, keras.Model) and is_task(model, own_methods(model)) else None
    if task is not None:
        model = graph_of(task)
    model, conversion = _converted(model, convert, public)
    _check_is_trainable_here(model, validate, conversion)
    chosen = {"clipping": clipping, "views": views, "public_batch": public}
    suggestion, plan, chosen, size = _planned(model, plan, wanted, chosen, physical_batch_size)
    expected = forecast(model, plan) if suggestion is None else suggestion.forecast
    if expected is not None:
        expected.warn()
    replicas = replicas_of(strategy)
    parts, plan, rounding = _parts_of(model, plan, engine, insecure_seed, replicas, **chosen)
    settings = _settings(parts, rounding, noise_generator, insecure_seed)
    check_plan(PrivacyLedger(plan, settings))
    rows = _rows_at_once(model, parts, plan, size, validate, replicas, run_dir)
    resumption, ledger = _opened(run_dir, plan, settings, replicas)
    private = PrivateModel(
        model,
        ledger=ledger,
        update=Update(model, parts, plan, rounding or 0.0, replicas),
        noise=GaussianNoise(insecure_seed, noise_generator, ledger.updates),
        physical_batch_size=rows,
        validate=validate,
        resumption=resumption,
        task=task,
    )
    private.conversion, private.suggestion = conversion, suggestion
    if declaration is not None:
        ledger.record(declaration)
    if given is not model and isinstance(given, keras.Model) and not ledger.updates:
        private.session.provenance.begin(given)  # a copy or a task's graph has no optimizer
    for known in filter(
        None, (*caveats_of_phases(plan.earlier), parts.public_rows, _part_of(model))
    ):
        ledger.record(known)
    if parts.engine.said is not None:
        warnings.warn(parts.engine.said, stacklevel=2)
    warn_of_initial_weights(ledger, is_new=not ledger.updates)
    return private


def _check_one_of(plan, **instead):
    """Rejects a plan together with arguments that make one, and neither of them."""
    given = [name for name, value in instead.items() if value is not None]
    if plan is None:
        if instead["budget"] is None or instead["num_examples"] is None:
            raise ValueError(
                f"Expected budget and num_examples, or a plan, got {given or 'none of them'}. "
                "Write make_private(model, budget=tfdpnorm.PrivacyBudget(3.0, 1e-5), "
                "num_examples=len(x))."
            )
        return
    if isinstance(plan, PrivacyBudget):
        raise TypeError(
            "Expected plan to be a PrivacyPlan, got a PrivacyBudget. Pass it by its name: "
            "make_private(model, budget=budget, num_examples=len(x))."
        )
    if given:
        raise ValueError(
            f"Expected either a plan or {' and '.join(given)}, got both. The plan holds these "
            "settings: remove them, or the plan."
        )
    arguments.instance(
        "plan", plan, PrivacyPlan, remedy="Make one: tfdpnorm.make_plan(num_examples=...)."
    )


def _check_settings(insecure_seed, physical_batch_size, validate, declaration):
    """Rejects values that no model could be trained with."""
    check_runs_eagerly()
    is_auto = isinstance(physical_batch_size, str) and physical_batch_size == AUTO
    number = None if is_auto else physical_batch_size
    for name, value, least, remedy in (
        ("physical_batch_size", number, 1, 'Or pass None or "auto".'),
        ("insecure_seed", insecure_seed, 0, "Or pass None."),
    ):
        if value is not None:
            arguments.integer(name, value, at_least=least, remedy=remedy, wrong_type=ValueError)
    if not isinstance(validate, bool):
        raise arguments.refusal("validate", "to be True or False", validate)
    if declaration is not None:
        remedy = 'Write Declaration("Jane Doe", "jane@example.org").'
        arguments.instance("declaration", declaration, Declaration, remedy=remedy)


def _instance(name, value, kind, example):
    """`value`, which must be of `kind`; one with the defaults for None."""
    if value is None:
        return kind()
    return arguments.instance(name, value, kind, remedy=f"Write {example}.")


def _loaded(path):
    from tfdpnorm.convert.convert import load_model  # which most trainings do not need

    return load_model(path)


def _converted(model, convert, public):
    """The pair of the converted copy and the report; of the model itself and None without."""
    if convert is None:
        return model, None
    # Not above: conversion is a room of its own, which most trainings do not enter.
    from tfdpnorm.convert.convert import OPTIONS, convert_model

    if isinstance(convert, str):
        convert = {"batch_norm": arguments.choice("convert", convert, BATCH_NORMS)}
    given = arguments.instance(
        "convert",
        convert,
        dict,
        remedy='Pass "public_batch", or {"batch_norm": "group", "scale_norm": True}.',
    )
    unknown = sorted(set(given) - set(OPTIONS))
    if unknown:
        raise ValueError(
            f"Expected convert to have arguments of convert_model, {OPTIONS}, got {unknown}."
        )
    rows = None
    if public is not None and not public.is_synthetic:
        # Synthetic ones are made for the converted model, and tell nothing of this one.
        rows = public.for_model(model)[0].rows
    return convert_model(model, **{"public_rows": rows, **given})


def _planned(model, plan, wanted, chosen, size):
    """The suggestion for what is `wanted`, None with a plan; the plan; other settings; the rows."""
    if plan is not None:
        return None, plan, chosen, size
    suggestion = suggest(model, **wanted).beside(**chosen, physical_batch_size=size)
    chosen = suggestion.arguments
    return suggestion, chosen.pop("plan"), chosen, chosen.pop("physical_batch_size")


def _settings(parts, rounding, noise_generator, insecure_seed):
    """What the guarantee rests on besides the plan; a resumed run must share it."""
    return {
        "statistics": parts.streams.statistics,
        "noise_generator": noise_generator,
        "noise_grid": "stddev / 32",
        "sum_rounding": rounding,
        "insecure_seed": insecure_seed,
    }


def _check_is_trainable_here(model, validate, conversion):
    if not isinstance(model, keras.Model):
        package = type(model).__module__.partition(".")[0]
        raise ValueError(
            f"Expected a keras.Model of Keras {KERAS_VERSION}, got "
            f"{type(model).__name__} of the package {package}."
        )
    if any(isinstance(x, PrivateModel) for x in (model, *sublayers(model))):
        raise PrivacyError(
            "The model comes from make_private(), or holds such a model. Pass private.model, and "
            "add the epsilons of both: each ledger records only its own updates."
        )
    check_no_own_steps(model)
    check_no_dynamic_layers(model)
    check_no_strategy(model)
    complete_build(model)
    check_known_layers(model, will_be_proved=validate, conversion=conversion)


class _Parts(NamedTuple):
    """The parts of a private training of a model.

    Attributes:
        clipping: `Clipping`, of no variables yet.
        public_rows: `Caveat` on the public rows, or None without any.
    """

    streams: Streams
    engine: EngineInUse
    clipping: Clipping
    views: Views
    public_rows: Caveat | None


def _parts_of(model, plan, engine, insecure_seed, replicas, *, clipping, public_batch, views):
    """The `_Parts` for a model, its plan, and what rounding can add to the sensitivity, or None.

    Rejects what does not fit together.
    """
    clipping = _instance("clipping", clipping, Clipping, 'Clipping(grouping="per_layer")')
    views = _instance("views", views, Views, "Views(layer, multiplicity=4)")
    views = views.of_persons(plan.drawn_per_person)
    asked_for = None if engine is None else engine_named(engine)
    public, kinds = PublicBatch.of(public_batch), None
    if public is not None:
        public, kinds = public.for_model(model)
    streams = Streams(
        model, public, signal_to_noise(model, plan), rows_are_generated=kinds is not None
    )
    streams.settle()
    asked = {"rows_mix": streams.rows_mix, "public_rows_per_example": streams.mode == "example"}
    engine = asked_for or default_engine(**asked)
    clipping = clipping.of_plan(plan, in_half=computes_in_half(model))
    engine.check(**asked, clipping=clipping)
    check_views(views, streams.mode)
    noised = noised_layers(model)
    check_budget_share(plan.statistics_budget_share, noised, streams.mode)
    is_foreign = engine.of_tensorflow_privacy
    check_replicas(replicas, foreign_engine=engine.name if is_foreign else None)
    reasons = []
    if streams.mode == "lot":
        reasons.append(
            'statistics="lot" lets every example of a batch change the gradients of all others, so '
            "that clipping does not bound the effect of one example"
        )
    if insecure_seed is not None:
        reasons.append("the noise and the batches come from a seed that is not secret")
    plan = plan.of_model(
        statistics_queries=QUERIES_PER_LAYER * len(noised),
        default_share=DEFAULT_BUDGET_SHARE,
        no_guarantee_because=tuple(reasons),
    )
    check_float32(plan)
    if switch_off_tensor_float_32():
        warnings.warn(
            "TensorFloat-32 is switched off in this process: it would round the norms that "
            "clipping uses. For speed, use the policy mixed_float16 or mixed_bfloat16.",
            PrivacyWarning,
            stacklevel=3,
        )
    # Of one physical batch for all: smaller ones round no more, so their size may change.
    most_rows = slots_of_plan(plan).rows
    sums, rounding = sums_on_gpu(most_rows) if takes_forms_of_gpus() else sums_on_cpu(most_rows)
    parts = _Parts(
        streams,
        EngineInUse(model, views, engine, may_change=asked_for is None),
        dataclasses.replace(clipping, sums=sums),
        views,
        _said_of_public_rows(public, kinds) if streams.layers else None,
    )
    return parts, plan, None if is_foreign else rounding


def _said_of_public_rows(public, kinds):
    """The `Caveat` on a `PublicBatch`: how its rows were generated, or how many were given."""
    if kinds is not None:
        return caveat("synthetic_public_rows", kinds=kinds)
    count = len(tf.nest.flatten(public.rows)[0])
    return caveat("given_public_rows", count=count)


def _part_of(model):
    """The `Caveat` that names how many of the weights are trained; None if that is most of them."""
    trained = sum(v.shape.num_elements() for v in trainable_variables(model))
    held = [v for v in raw(list(model.weights)) if v.dtype != tf.uint32]  # which seeds are
    weights = sum(v.shape.num_elements() for v in held)
    if 2 * trained < weights:
        return caveat("trained_in_part", trained=trained, weights=weights)
    return None


def _rows_at_once(model, parts, plan, size, validate, replicas, run_dir):
    """The rows of a physical batch of a step that was rehearsed; None for a whole batch."""
    rows = None if size == AUTO else size
    rehearse(model, parts, plan, physical_batch_size=rows, validate=validate, replicas=replicas)
    if size != AUTO:
        return size
    return automatic_rows(model, parts, plan, replicas=replicas, run_dir=run_dir)


def _opened(run_dir, plan, settings, replicas):
    """The pair of the run's storage and its ledger, in a `RunDir` or in memory."""
    if not replicas.workers.is_chief:
        return FollowsChief(), PrivacyLedger(plan, settings)
    if run_dir is None:
        return WithoutRunFolder(), PrivacyLedger(plan, settings)
    folder = RunFolder(run_dir.path, plan, settings, resume=run_dir.resume)
    return Resumption(folder, run_dir.checkpoint_every), folder.ledger
