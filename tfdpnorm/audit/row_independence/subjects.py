"""Models, losses and augmentations, probed for per-example independence."""

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.audit.row_independence.finding import Finding, Report
from tfdpnorm.audit.row_independence.known_layers import added_losses
from tfdpnorm.audit.row_independence.locate import first_dependent_layer
from tfdpnorm.audit.row_independence.probe import Subject, probe_rows
from tfdpnorm.audit.row_independence.rows import (
    ProbeRows,
    input_specs,
    integer_bound,
    made_up_rows,
    rows_like,
)
from tfdpnorm.audit.row_independence.undisturbed import undisturbed
from tfdpnorm.keras_compat.models import sublayers


def model_rows(model, x=None):
    """Returns `ProbeRows` for a model's inputs.

    Args:
        model: A Keras model, or a wrapper of one in its attribute `model`.
        x: Structure of arrays or `tf.TensorSpec`; None for what the model knows of itself.

    Returns:
        `ProbeRows`; None if the shapes are not known.
    """
    if isinstance(x, ProbeRows):
        return x
    if x is None:
        inner = getattr(model, "model", None)
        x = input_specs(inner if isinstance(inner, keras.Model) else model)
    return None if x is None else _rows(x, bound=integer_bound(model))


def probe_model(model, rows, *, forward=None, batch_size=None):
    """Probes a model: runs it on rows of which some change (see `probe_rows`).

    Args:
        model: A Keras model.
        rows: `ProbeRows`.
        forward: `(x, training) -> predictions`; None for a call of the model.
        batch_size: How many rows training runs at once; None if that is not known.

    Returns:
        `Report`.
    """
    forward = forward or (lambda x, training: model(x, training=training))
    if any(not layer.built for layer in sublayers(model) or [model]):
        before = [(variable, variable.read_value()) for variable in model.variables]
        try:
            forward(tf.nest.map_structure(tf.convert_to_tensor, rows.base), training=False)
        except Exception as error:  # whatever code of the user's raises
            return Report(
                unchecked=[f"model {model.name!r}: {type(error).__name__} on rows made up for it"]
            )
        finally:
            for variable, value in before:
                variable.assign(value)
    subject = Subject(
        f"model {model.name!r}",
        "outputs",
        "Have every layer compute from each row alone: no moments, sorting, softmax, shifts or "
        "sizes over axis 0, and no state that it updates.",
    )
    added = []

    def training(x):
        predictions = forward(x, training=True)
        added[:] = added_losses(model)
        return predictions

    def probed(rows):
        return probe_rows(
            training,
            rows,
            subject,
            inference=lambda x: forward(x, training=False),
            variables=lambda: model.trainable_variables,
            resolution=_resolution(model),
            batch_size=batch_size,
        )

    with undisturbed(model):
        report = probed(rows)
        if report.outputs is None and not report.findings and integer_bound(model, None):
            # Ids that an Input without a dtype takes as floats.
            ids = made_up_rows(rows.base, bound=integer_bound(model), whole=True)
            report = min(report, probed(ids), key=lambda found: found.outputs is None)
        report.findings += [Finding("losses", where, text) for where, text in added]
        if any(finding.check == "values" for finding in report.findings):
            report.findings = [_located(f, model, forward, rows) for f in report.findings]
    return report


def probe_loss(loss, predictions, y=None, *, batch_size=None):
    """Probes a loss: runs it on rows of which some change (see `probe_rows`).

    Args:
        loss: See `validate`; a Keras loss is run without its reduction.
        predictions: `ProbeRows`, or a structure of arrays [m, ...] or `tf.TensorSpec`.
        y: As `predictions`; None tries numbers in [0, 1) in the shape of the predictions, then
            labels.
        batch_size: How many examples training runs at once; None if that is not known.

    Returns:
        `Report`.
    """
    unreduced = _unreduced(loss)
    subject = Subject(
        "the loss",
        "values",
        "Compute the loss of each row from its own target and prediction, and give one value per "
        "row: no sums, maxima, counts or pairs over the batch.",
    )
    specs = predictions.base if isinstance(predictions, ProbeRows) else predictions
    # Another seed than the targets', which they would equal.
    predictions = _rows(predictions, unit=True, seed=1)
    n = predictions.count
    classes = [max(2, _last(t)) for t in tf.nest.flatten(specs)]
    if y is not None:
        targets = [_rows(y, bound=min(classes), unit=True, rows=n)]
    else:
        labels = tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape[:-1], tf.int64), specs)
        numbers = tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape, tf.float32), specs)
        targets = [_rows(numbers, unit=True, rows=n)]
        if all(len(t.shape) > 1 for t in tf.nest.flatten(specs)):
            targets.append(_rows(labels, bound=min(classes), rows=n))
    reports = []
    with undisturbed(loss):
        for target in targets:
            both = target.joined_with(predictions)
            found = probe_rows(lambda pair: unreduced(*pair), both, subject, batch_size=batch_size)
            reports.append(found)
            if reports[-1].outputs is not None or reports[-1].findings:
                return reports[-1]
    return sum(reports, Report())


def probe_augmentation(augmentation, x, *, batch_size=None):
    """Probes an augmentation: runs it on rows of which some change, with the same random numbers.

    Args:
        augmentation: Keras layer, or function from [rows, ...] to [rows * K, ...].
        x: `ProbeRows`, or a structure of arrays [m, ...] or `tf.TensorSpec`.
        batch_size: How many examples training runs at once; None if that is not known.

    Returns:
        `Report`.
    """
    subject = Subject(
        "the augmentation",
        "views",
        "Make each view from one row alone: no mixing, shuffling or rolling of rows, and no "
        "statistics of the batch.",
    )
    layer = isinstance(augmentation, keras.layers.Layer)
    function = (lambda t: augmentation(t, training=True)) if layer else augmentation
    with undisturbed(augmentation):
        return probe_rows(function, _rows(x), subject, batch_size=batch_size)


def _rows(like, **settings):
    if isinstance(like, ProbeRows):
        return like
    if all(isinstance(t, tf.TensorSpec) for t in tf.nest.flatten(like)):
        return made_up_rows(like, **settings)
    return rows_like(like)


def _last(like):
    return 1 if len(like.shape) < 2 or like.shape[-1] is None else int(like.shape[-1])


def _resolution(model):
    """Machine epsilon of the coarsest float type that a layer computes in."""
    kinds = {tf.as_dtype(layer.compute_dtype) for layer in (model, *sublayers(model))}
    # NumPy does not know bfloat16.
    known = [
        2.0**-7 if k == tf.bfloat16 else np.finfo(k.as_numpy_dtype).eps
        for k in kinds
        if k.is_floating
    ]
    return float(max(known, default=0.0))


def _unreduced(loss):
    """`(y, predictions) -> values` of a loss, without its reduction over the batch."""
    if isinstance(loss, str):
        loss = keras.losses.get(loss)
    if not isinstance(loss, keras.losses.Loss):
        return loss

    def values(y, predictions):
        return tf.nest.map_structure(loss.call, y, predictions)

    return values


def _located(finding, model, forward, rows):
    if finding.check != "values":
        return finding
    training = "in training" in finding.message
    try:
        name = first_dependent_layer(model, lambda x: forward(x, training=training), rows)
    except Exception:  # the fault is found already; this would only have said where
        name = None
    if name is None:
        return finding
    message = f"{finding.message} The first layer without per-example independence is {name!r}."
    return Finding(finding.check, name, message)
