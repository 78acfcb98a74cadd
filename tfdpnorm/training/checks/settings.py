"""What private training refuses, each with its remedy."""

import math
import os
import re

import numpy as np
import tensorflow as tf

from tfdpnorm import arguments
from tfdpnorm.data import check_public_batch
from tfdpnorm.data.arrays import map_leaves
from tfdpnorm.keras_compat.models import symbolic_inputs
from tfdpnorm.keras_compat.training import is_of_tensorflow_privacy, scales_losses

# Of -1 and 0 nothing is compiled; "fusible" and numbers above have parts compiled.
_AUTO_CLUSTERING = re.compile(r"(--tf_xla_auto_jit)=(?!(?:0|-1)\b)\S*")


def check_optimizer(optimizer):
    """Refuses optimizers that would undo or repeat what private training does.

    Raises:
        ValueError: for tensorflow-privacy's optimizers and for loss scaling.
    """
    if is_of_tensorflow_privacy(optimizer):
        raise ValueError(
            "Expected an ordinary Keras optimizer, got tensorflow-privacy's "
            f"{type(optimizer).__name__}, which would clip and noise a second time. Pass the "
            'optimizer it derives from, and make_private(..., engine="tfp_vectorized") to have '
            "tensorflow-privacy clip."
        )
    if scales_losses(optimizer):
        raise ValueError(
            "Expected an optimizer without loss scaling, got LossScaleOptimizer: its scale reacts "
            "to single examples without noise. Pass the optimizer inside it; the loss is scaled by "
            "the constant make_private(..., loss_scale=...)."
        )


def check_no_strategy(model):
    """Refuses `tf.distribute` strategies, in whose scope this is called or a model was made.

    Raises:
        ValueError: naming the strategy.
    """
    found = [tf.distribute.get_strategy()] if tf.distribute.has_strategy() else []
    with model.distribute_strategy.scope():
        found += [model.distribute_strategy] if tf.distribute.has_strategy() else []
    spread = model.built and any(
        isinstance(v, tf.distribute.DistributedValues) for v in model.weights
    )
    if found or spread:
        name = type(found[0]).__name__ if found else "variables of one"
        raise ValueError(
            f"Expected no tf.distribute strategy, got {name}: each replica would clip and noise a "
            "part of a lot by itself, which the accounting does not know. Make, compile and fit "
            "the model outside of strategy.scope(), on one device."
        )


def check_no_auto_clustering():
    """Refuses TF_XLA_FLAGS that have XLA compile parts of every graph, whatever `jit_compile` says.

    Which parts, nothing shows: it may be the noise, which XLA may not be able to compile.

    Raises:
        ValueError: naming the flag.
    """
    found = _AUTO_CLUSTERING.search(os.environ.get("TF_XLA_FLAGS", ""))
    if found:
        raise ValueError(
            f"Expected TF_XLA_FLAGS without {found[1]}, got {found[0].strip()}: which parts of a "
            "private step XLA compiles then is not known. Remove it from the environment, and pass "
            "jit_compile=True to compile() instead."
        )


# Beyond these, squares of ordinary gradients leave the range of float32.
_CLIP_RANGE = (1e-12, 1e12)
_NOISE_RANGE = (1e-30, 1e30)


def check_float32(plan):
    """Refuses clipping norms and noise that float32 cannot represent beside gradients.

    Raises:
        ValueError: with what was expected.
    """
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


def check_validate(value):
    """Refuses what is neither a bool nor "probe".

    Raises:
        ValueError: with what was expected.
    """
    if not isinstance(value, bool) and not (isinstance(value, str) and value == "probe"):
        raise arguments.refusal("validate", 'to be True, "probe" or False', value)


def check_budget_share(share, layers, mode):
    """Refuses shares of the budget that nothing could use, or that leave nothing.

    Args:
        share: `statistics_budget_share`.
        layers: The `NoisedBatchNormalization` layers that it is for.
        mode: The mode of `tfdpnorm.training.public_rows.Streams`.

    Raises:
        ValueError: with what was expected.
    """
    if not layers:
        if share is not None:
            raise ValueError(
                "Expected statistics_budget_share=None for a model without trainable "
                f"NoisedBatchNormalization layers, got {share!r}. Leave it out."
            )
        return
    if mode in ("example", "lot"):
        raise ValueError(
            f"Expected no NoisedBatchNormalization beside statistics={mode!r}, which runs public "
            f"rows among the private ones, got {layers[0].name!r}. Use one kind of normalisation."
        )
    if share is not None:
        arguments.open_unit(
            "statistics_budget_share", share, remedy="The gradient takes what the statistics leave."
        )


def check_augmentation(multiplicity, augmentation, mode):
    """Refuses multi-view augmentations that are not possible.

    Args:
        multiplicity: K, the number of views of an example.
        augmentation: What makes the views, or a list with one for each.
        mode: The mode of `tfdpnorm.training.public_rows.Streams`.

    Raises:
        ValueError: with what was expected.
    """
    arguments.integer("augmentation_multiplicity", multiplicity, at_least=1, wrong_type=ValueError)
    if isinstance(augmentation, (list, tuple)):
        if len(augmentation) != multiplicity or not all(map(callable, augmentation)):
            raise ValueError(
                f"Expected as many augmentations as augmentation_multiplicity={multiplicity}, "
                f"Keras layers or functions of rows, got {augmentation!r}."
            )
    elif augmentation is not None and not callable(augmentation):
        raise ValueError(
            "Expected augmentation to be a Keras layer or a function of rows, or a list of "
            f"them, got {type(augmentation).__name__}."
        )
    if (multiplicity > 1 or augmentation is not None) and mode in ("example", "lot"):
        raise ValueError(
            f'Expected no augmentation with statistics="{mode}", which joins each example with the '
            'public rows, got one. Use statistics="public" or "blend".'
        )


def arrays_of_public_batch(public_batch, model):
    """Returns a public batch as arrays [M, ...] in dicts and tuples.

    A list holds the rows of one array; or arrays, for a model of as many inputs.

    Args:
        public_batch: As `make_private` gets it, but no synthetic rows.
        model: The Keras model.

    Raises:
        ValueError: if the rows of an array are of unequal shapes.
    """

    def array(value, name):
        try:
            return np.asarray(value)
        except ValueError:
            raise ValueError(
                f"Expected {name} with rows of one shape, got a {type(value).__name__} of others. "
                "Several inputs go in a tuple or a dict of arrays."
            ) from None

    inputs = tf.nest.flatten(symbolic_inputs(model))
    if isinstance(public_batch, list) and len(inputs) == len(public_batch) > 1:
        public_batch = tuple(public_batch)
    return map_leaves(array, public_batch, "public_batch")


def check_public_rows(public_batch):
    """Refuses a public batch that has no moments, whatever the private data.

    Args:
        public_batch: Array [M, ...].

    Raises:
        ValueError: if it has fewer than 2 rows or holds values that are not finite.
    """
    rows = len(public_batch) if public_batch.ndim else 0
    if rows < 2:
        raise ValueError(
            f"Expected a public_batch of at least 2 rows, got {rows}: one row alone has variance 0 "
            "in every channel of a dense layer. Pass some 128 rows or more."
        )
    if public_batch.dtype.kind not in "biuf":
        raise ValueError(
            "Expected a public_batch of booleans, integers or floats, got dtype "
            f"{public_batch.dtype}."
        )
    if public_batch.dtype.kind == "f" and not np.isfinite(public_batch).all():
        count = int((~np.isfinite(public_batch)).sum())
        raise ValueError(
            f"Expected finite values in public_batch, got {count} that are NaN or infinite. Remove "
            "the rows that hold them."
        )


def check_private_data(batches, plan, public_batch):
    """Checks Poisson batches against the plan and against the public batch.

    Raises:
        ValueError: if N or the expected lot size differ from the plan's, or the public batch does
            not fit the data or shares rows with it.
    """
    for name in ("num_examples", "expected_batch_size"):
        if getattr(batches, name) != getattr(plan, name):
            raise ValueError(
                f"Expected data with {name}={getattr(plan, name)}, as planned in make_private(), "
                f"got {getattr(batches, name)}. The privacy accounting holds for the planned "
                "number only: make the two agree."
            )
    if public_batch is not None:
        try:
            tf.nest.assert_same_structure(public_batch, batches.x, check_types=False)
        except (ValueError, TypeError):
            raise ValueError(
                "Expected a public_batch of as many arrays as x, in the same structure, got "
                f"{type(public_batch).__name__} beside {type(batches.x).__name__}."
            ) from None
        # Lists to them are rows, not inputs.
        check_public_batch(*(tuple(tf.nest.flatten(x)) for x in (public_batch, batches.x)))


def check_same_variables(compiled, present):
    """Refuses to train other variables than the model had when it was compiled.

    Args:
        compiled: The `variable_names` of then; None if the model was not built.
        present: Those of now; None likewise.

    Raises:
        ValueError: naming those that were frozen or thawed.
    """
    if compiled is None or present is None:
        return
    then, now = dict(compiled), dict(present)
    changed = [name for key, name in (then | now).items() if (key in then) != (key in now)]
    if changed:
        raise ValueError(
            "Expected the trainable variables that the model was compiled with, got others: "
            f"{', '.join(map(repr, changed[:5]))} were frozen or thawed since. Call compile() of "
            "the private model again."
        )


def check_something_trains(trained):
    """Refuses models of which all is frozen: an update would release nothing but noise.

    Args:
        trained: The `variable_names` of the model; None if it is not built.

    Raises:
        ValueError: with the remedy.
    """
    if trained is not None and not trained:
        raise ValueError(
            "Expected a model with trainable variables, got one without any. Set trainable=True of "
            "the layers that are to be trained, and call compile() of the private model again."
        )


def variable_names(model):
    """Returns pairs (id, name) of a model's trainable variables, a tuple."""
    return tuple((id(v), v.name) for v in model.trainable_variables)
