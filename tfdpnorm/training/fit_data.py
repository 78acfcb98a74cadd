"""The data of `PrivateModel.fit`, checked and sampled before the first update; and its epochs."""

import math
import warnings

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.data import PoissonBatches
from tfdpnorm.data.sources import is_source
from tfdpnorm.errors import PrivacyWarning
from tfdpnorm.independence import check_known_layers
from tfdpnorm.keras_compat.graphs import without_op_callbacks
from tfdpnorm.keras_compat.models import symbolic_outputs
from tfdpnorm.keras_compat.training import make_metric_variables, make_optimizer_variables
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.training.checks.data import (
    NO_TARGETS,
    as_poisson_batches,
    check_batch_size,
    check_ids,
    check_inputs,
    check_person,
    check_sample_weight,
    refuse_fit_arguments,
    rows_of_sequence,
    tuples_of_arrays,
)
from tfdpnorm.training.checks.scales import (
    warn_of_large_inputs,
    warn_of_large_targets,
    warn_of_other_scale,
    warn_of_unscaled_images,
)
from tfdpnorm.training.checks.settings import check_private_data
from tfdpnorm.training.checks.targets import check_targets, weights_by_class


def checked_batches(private, streams, views, x, y, arguments):
    """Returns `fit`'s data as `PoissonBatches`, checked; None for data that we cannot sample.

    The model of `private` is built, and its public statistics are refreshed. `arguments` are the
    further ones of `fit`; those that are settled here, such as sample weights, are taken out.
    Raises ValueError for data, arguments or layers that private training rejects.
    """
    plan, weights = private.plan, arguments.get("sample_weight")
    check_sample_weight(weights)
    person = arguments.pop("person", None)
    rows = plan.num_examples if person is None else len(person)
    of_sequence = isinstance(x, keras.utils.Sequence) and y is None and weights is None
    if of_sequence:
        x, y, weights = rows_of_sequence(x, rows) or (x, None, None)
    x, y = (tuples_of_arrays(part, rows) for part in (x, y))
    class_weight = arguments.get("class_weight")
    if class_weight and (y is not None or isinstance(x, PoissonBatches) or is_source(x)):
        weights = weights_by_class(class_weight, y, weights)
    check_person(x, person, plan)
    batches = as_poisson_batches(x, y, weights, plan, person)
    if batches is None:
        return None
    check_batch_size(arguments.pop("batch_size", None), plan)
    public = None if streams.public_batch is None else streams.public_rows_like(batches.x)
    check_inputs(
        private.model,
        batches.x,
        has_public_rows=public is not None,
        is_augmented=bool(views.augmentations),
    )
    check_ids(private.model, batches.x)
    warn_of_unscaled_images(private.model, batches.x)
    check_private_data(batches, private.plan, public, are_generated=streams.rows_are_generated)
    warn_of_large_targets(batches.y)
    for name in ("sample_weight", "class_weight"):  # they are in the batches
        arguments.pop(name, None)
    refuse_fit_arguments(arguments)
    if not private.model.built:
        private.model(tf.nest.map_structure(_blank, batches.x), training=False)
    check_known_layers(private.model, will_be_proved=private.independence_checks.demand_a_proof)
    streams.check_unchanged()
    if class_weight:
        private.ledger.record(caveat("class_weights"))
    if of_sequence or batches.examples.reads_own_code:
        private.ledger.record(caveat("source_of_own_code"))
    private.refresh_public_statistics()
    if public is None:
        warn_of_large_inputs(private.model, batches.x)
    else:
        some = batches.examples.inputs.some()
        tf.nest.map_structure(warn_of_other_scale, public, some)
    return batches


def _blank(array):
    """A row [1, ...] that is no one's."""
    shape = (1, *array.shape[1:])
    return np.full(shape, "") if array.dtype == object else np.zeros(shape, array.dtype)


def _targets(y, names):
    """List of the targets in the order of the outputs, as far as there are any."""
    return tf.nest.flatten([y[n] for n in names if n in y] if isinstance(y, dict) else y)


def _without_wrong_labels(lot, expected, names):
    """A `Lot` [K, P, ...] whose examples with labels that the loss does not take count as nothing.

    They get the weight NaN, so that their gradients are not finite. An error would reveal them,
    after updates that were released. `expected` is what `check_targets` returns, and `names` are
    those of the outputs, for targets in a dict.
    """
    wrong = tf.zeros_like(lot.mask, tf.bool)
    for labels, allowed in zip(_targets(lot.y, names), expected, strict=True):
        if allowed is not None and labels.dtype != tf.bool:
            of_each = allowed.are_wrong(labels)
            wrong |= tf.reduce_any(of_each, range(2, of_each.shape.rank))

    def where(values, instead):
        shape = tf.concat([tf.shape(wrong), [1] * (values.shape.rank - 2)], 0)
        return tf.where(tf.reshape(wrong, shape), tf.cast(instead, values.dtype), values)

    y = tf.nest.map_structure(lambda values: where(values, 0), lot.y)
    return lot._replace(y=y, sample_weight=where(lot.sample_weight, np.nan))


def is_sampled_by_this_library(batches):
    """Whether nothing but `PoissonBatches` decides which examples are in a batch.

    A derived class, or a method that is replaced, may sample otherwise.
    """
    replaced = {name for name in vars(batches) if hasattr(PoissonBatches, name)}
    return type(batches) is PoissonBatches and not replaced


def prepared_lots(private, batches, noise, loss):
    """Returns the dataset of batches, after all that must be known of it before the first update.

    Makes the variables of optimizer and metrics: a training step that makes any in its trace is
    traced twice. `private` is compiled; `noise` is its `GaussianNoise` and `loss` its
    `PerExampleLoss`. Raises ValueError without targets.
    """
    outputs, expected, names = symbolic_outputs(private.model), [], private.output_names
    if isinstance(outputs, dict):
        names = sorted(outputs)
    if outputs is not None and batches.y is not None:
        flat = tf.nest.flatten(outputs)
        losses = loss.of_outputs(len(flat), names)
        expected = check_targets(losses, flat, _targets(batches.y, names))
    with without_op_callbacks():  # which would write rows down
        lots = batches.as_dataset(
            private.slots,
            insecure_seed=noise.insecure_seed,
            first_update=int(noise.update_count.numpy()),
            shared=private.replicas.workers.lots,
        )
    if batches.examples.is_read_on_demand and any(e is not None for e in expected):
        lots = lots.map(lambda lot: _without_wrong_labels(lot, expected, names))
    y = lots.element_spec.y
    if not all(isinstance(spec, tf.TensorSpec) for spec in tf.nest.flatten(y)):
        raise ValueError(NO_TARGETS)
    # Other models may still make weights, and their outputs are not known.
    if outputs is not None:
        make_optimizer_variables(private.optimizer, private.model.trainable_variables)
        axes = 2 if private.plan.drawn_per_person is None else 3  # metrics are of rows
        y = tf.nest.map_structure(lambda s: tf.TensorSpec([None, *s.shape[axes:]], s.dtype), y)
        make_metric_variables(private, outputs, y)
    return lots


def epochs_to_train(ledger, start_within_epoch, arguments, *, sampled_here):
    """Returns the step of its first epoch that training begins with, and the arguments of Keras.

    Warns if training ends before the epochs asked for.

    Args:
        start_within_epoch: Method of `tfdpnorm.training.resume.resumption.Resumption`.
        arguments: Dict of those of `fit`. For what is None of `epochs` and `steps_per_epoch`, or
            missing of `initial_epoch`, the result has that of the updates to come.
        sampled_here: Whether the batches are drawn by this library, so that an epoch has a length.
    """
    epochs, steps_per_epoch = arguments["epochs"], arguments["steps_per_epoch"]
    initial_epoch = arguments.get("initial_epoch")
    first_step, left = 0, ledger.state.remaining_updates
    if sampled_here:
        if steps_per_epoch is None:
            steps_per_epoch = max(1, round(1 / ledger.plan.sampling_rate))
        # As it was in the run that is resumed, whose callbacks went by epochs.
        of_plan = min(steps_per_epoch, ledger.plan.steps)
        start = start_within_epoch(of_plan)
        if start is not None and initial_epoch is None:
            steps_per_epoch = of_plan
            initial_epoch, first_step = start
        else:
            steps_per_epoch = min(steps_per_epoch, left)
    initial_epoch = initial_epoch or 0
    possible = initial_epoch + math.ceil((first_step + left) / (steps_per_epoch or 1))
    if epochs is None:
        epochs = possible
    elif steps_per_epoch and epochs > possible:
        warnings.warn(
            f"Only {possible - initial_epoch} of epochs={epochs} can be trained: {left} updates "
            f"are left of {ledger.plan.steps} planned, and an epoch takes "
            f"{steps_per_epoch}. Training stops there.",
            PrivacyWarning,
            stacklevel=3,
        )
    elif epochs < initial_epoch + bool(first_step):
        warnings.warn(
            f"Nothing is trained: epochs={epochs} counts from the start of the run, which has "
            f"trained {initial_epoch} epochs. Give a larger number, or none for all {left} "
            "updates that are left.",
            PrivacyWarning,
            stacklevel=3,
        )
    found = {"initial_epoch": initial_epoch, "epochs": epochs, "steps_per_epoch": steps_per_epoch}
    return first_step, {**arguments, **found}
