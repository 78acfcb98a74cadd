"""Checks of the settings of private training: every rejection comes with its remedy."""

import math
import os
import re

import tensorflow as tf

from tfdpnorm.data import check_public_batch
from tfdpnorm.errors import PrivacyError
from tfdpnorm.keras_compat.training import (
    chooses_by_a_function,
    is_of_tensorflow_privacy,
    scales_losses,
)
from tfdpnorm.keras_compat.variables import weights

# Of -1 and 0 nothing is compiled; "fusible" and numbers above have parts compiled.
_AUTO_CLUSTERING = re.compile(r"(--tf_xla_auto_jit)=(?!(?:0|-1)\b)\S*")


def check_optimizer(optimizer):
    """Rejects optimizers that would undo or repeat what private training does.

    Raises ValueError for tensorflow-privacy's optimizers, for loss scaling, and for optimizers that
    are not known before training.
    """
    if is_of_tensorflow_privacy(optimizer):
        raise ValueError(
            f"{type(optimizer).__name__} of tensorflow-privacy would clip and add noise a second "
            "time. Pass the optimizer it derives from."
        )
    if scales_losses(optimizer):
        raise PrivacyError(
            "The scale of a LossScaleOptimizer reacts to single examples without noise. Pass the "
            "optimizer inside it: losses are scaled by a constant, Clipping(loss_scale=...)."
        )
    if getattr(optimizer, "loss_scale_factor", None) is not None:  # Keras 3
        raise ValueError(
            f"loss_scale_factor={optimizer.loss_scale_factor} of the optimizer would divide "
            "gradients that were not multiplied by it. Leave it out, and pass "
            "make_private(..., clipping=Clipping(loss_scale=...))."
        )
    if chooses_by_a_function(optimizer):
        raise PrivacyError(
            "The MultiOptimizer asks a function for its optimizers, which may have seen gradients "
            "without noise. Give it an OptimizerMap."
        )


def check_no_strategy(model):
    """Raises ValueError in the scope of a `tf.distribute` strategy, or for a model made in one."""
    found = [tf.distribute.get_strategy()] if tf.distribute.has_strategy() else []
    with model.distribute_strategy.scope():
        found += [model.distribute_strategy] if tf.distribute.has_strategy() else []
    spread = model.built and any(
        isinstance(v, tf.distribute.DistributedValues) for v in weights(model)
    )
    if found or spread:
        name = type(found[0]).__name__ if found else "variables of one"
        raise PrivacyError(
            f"The model is in the scope of a tf.distribute strategy ({name}), where each replica "
            "would clip and add noise separately. Make, compile and fit it outside of "
            "strategy.scope(), and pass make_private(..., strategy=strategy)."
        )


def check_replicas(replicas, *, foreign_engine=None, jit_compile=False, run_eagerly=False):
    """Raises ValueError for what is not supported on several devices.

    `foreign_engine` is the name of an engine of tensorflow-privacy that is in use, or None.
    """
    if replicas.count == 1:
        return
    for found, expected, remedy in (
        (
            foreign_engine and f"engine={foreign_engine!r}",
            "an engine of this library",
            'Use engine="book_keeping" or "per_example", or pass no strategy.',
        ),
        (
            jit_compile and "jit_compile=True",
            "jit_compile=False",
            "XLA compiles a step for one device: leave it out, or pass no strategy.",
        ),
        (
            run_eagerly and "run_eagerly=True",
            "a step that is traced",
            "An eager step runs on one device, and has no guarantee: leave it out.",
        ),
    ):
        if found:
            raise ValueError(
                f"Expected {expected} with a strategy of {replicas.count} devices, got {found}. "
                f"{remedy}"
            )


def check_no_auto_clustering():
    """Rejects TF_XLA_FLAGS that have XLA compile parts of every graph, whatever `jit_compile` says.

    Which parts, nothing shows: it may be the noise, which XLA may not be able to compile.
    """
    found = _AUTO_CLUSTERING.search(os.environ.get("TF_XLA_FLAGS", ""))
    if found:
        raise ValueError(
            f"Expected TF_XLA_FLAGS without {found[1]}, got {found[0].strip()}: with it, XLA may "
            "compile unknown parts of a private step. Remove it from the environment, and pass "
            "jit_compile=True to compile() instead."
        )


# Beyond these, squares of ordinary gradients leave the range of float32.
_CLIP_RANGE = (1e-12, 1e12)
_NOISE_RANGE = (1e-30, 1e30)


def check_float32(plan):
    """Raises ValueError for clipping norms and noise that float32 cannot hold with gradients."""
    least, most = _CLIP_RANGE
    if not least <= plan.l2_norm_clip <= most and math.isfinite(plan.l2_norm_clip):
        raise ValueError(
            f"Expected l2_norm_clip in [{least:g}, {most:g}], got {plan.l2_norm_clip!r}: squares "
            "of such norms leave the range of float32. Scale the loss instead."
        )
    least, most = _NOISE_RANGE
    if plan.noise_multiplier and not least <= plan.noise_multiplier * plan.l2_norm_clip <= most:
        raise ValueError(
            "Expected noise with a standard deviation noise_multiplier * l2_norm_clip in "
            f"[{least:g}, {most:g}], got {plan.noise_multiplier!r} * {plan.l2_norm_clip!r}: "
            "float32 does not hold it."
        )


def check_budget_share(share, layers, mode):
    """Raises ValueError for a share of the budget that nothing could use, or that leaves nothing.

    `share` is 0 for none; `layers` are the `NoisedBatchNormalization` layers that it is for; `mode`
    is that of `Streams`.
    """
    if not layers:
        if share:
            raise ValueError(
                "Expected a plan without statistics_budget_share for a model without trainable "
                f"NoisedBatchNormalization layers, got {share!r}. Leave it out."
            )
        return
    if mode in ("example", "lot"):
        raise ValueError(
            f"NoisedBatchNormalization is not supported together with statistics={mode!r}, which "
            f"runs public rows together with the private ones (layer {layers[0].name!r}). Use one "
            "kind of normalisation."
        )


def check_views(views, mode):
    """Raises ValueError for several rows of an example where each runs together with public rows.

    `mode` is that of `tfdpnorm.training.public_rows.Streams`.
    """
    is_joined = mode in ("example", "lot")
    for found, what, each in (
        (views.rows_per_person is not None, "most_per_person", "row"),
        (views.rows_per_example > 1 or views.augmentations, "Augmentation", "example"),
    ):
        if found and is_joined:
            raise ValueError(
                f'{what} is not supported with statistics="{mode}", which joins each {each} with '
                'the public rows. Use statistics="public" or "blend".'
            )


def check_private_data(batches, plan, public_batch, *, are_generated=False):
    """Checks Poisson batches against the plan and against the public batch.

    Raises ValueError if N or the expected batch size differ from the plan's, or the public batch, a
    structure of arrays or None, does not fit the data or shares rows with it (unless its rows
    `are_generated`, see `check_public_batch`).
    """
    for name in ("most_per_person", "num_examples", "expected_batch_size"):
        planned = plan.drawn_per_person if name == "most_per_person" else getattr(plan, name)
        if getattr(batches, name) != planned:
            got, remedy = f"{getattr(batches, name)}", "make the two agree"
            if name == "num_examples" and batches.persons is not None:
                got += f" persons ({batches.persons.rows} rows)"
                remedy = "give the plan the number of persons"
            elif name == "num_examples":
                got += " rows"
                remedy += "; if the plan counts persons, it needs most_per_person, and fit() person"
            raise PrivacyError(
                f"Expected data with {name}={planned}, as in the plan, got {got}. The "
                f"privacy accounting is valid for the planned number only: {remedy}."
            )
    if public_batch is not None:
        try:
            tf.nest.assert_same_structure(public_batch, batches.x, check_types=False)
        except (ValueError, TypeError):
            raise ValueError(
                "Expected a public_batch of as many arrays as x, in the same structure, got "
                f"{type(public_batch).__name__} for {type(batches.x).__name__}. Pass both as dicts "
                "by the names of the inputs, or both as tuples."
            ) from None
        # Lists to it are rows, not inputs.
        public = tuple(tf.nest.flatten(public_batch))
        check_public_batch(public, batches.examples.inputs, are_generated=are_generated)
