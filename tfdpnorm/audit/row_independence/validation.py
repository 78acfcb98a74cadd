"""Whether a model, its loss and its augmentation treat each example by itself."""

import warnings

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.audit.row_independence.finding import Finding, Report
from tfdpnorm.audit.row_independence.known_layers import added_losses, known_faults
from tfdpnorm.audit.row_independence.locate import first_mixing_layer
from tfdpnorm.audit.row_independence.probe import Subject, probe_rows
from tfdpnorm.audit.row_independence.synthetic import (
    ProbeRows,
    input_specs,
    integer_bound,
    rows_like,
    synthetic_rows,
)
from tfdpnorm.audit.row_independence.traced import undisturbed
from tfdpnorm.keras_compat.walk import sublayers

_PASS_ROWS = "Pass rows that fit and are not private, tfdpnorm.audit.validate(model, x=...)."


def validate(model, *, loss=None, x=None, y=None, augmentation=None, forward=None):
    """Refuses models, losses and augmentations in which examples meet.

    DP-SGD clips what each example adds to a sum; where an example also moves the gradients of
    others, or a variable that is released without noise, clipping bounds nothing. Known layers are
    refused by name; everything is then run on a few made-up rows (see `probe_rows`).

    A pass is no proof. Not seen are:
        - what rows do only beyond a trigger that no probe row meets, and on paths that are dead
          for them (a saturated unit, a gate that stays shut);
        - a dependence on the size of the batch that only shows in training, in a model that draws
          random numbers there (dropout) or an augmentation;
        - a difference below the rounding of the numbers that the model computes in, where it has
          no gradient;
        - state outside of variables: lookup tables, Python objects, files;
        - what happens before rows come in (an input pipeline that mixes or normalises them, one
          person with many rows) and from one step to the next (optimizer, callbacks);
        - functions that give other values for the same rows and random numbers. A warning says so.

    Args:
        model: A Keras model, or a `tfdpnorm.PrivateModel`. Built by a call on made-up rows if it is
            not built yet and its inputs' shapes are known.
        loss: A Keras loss, its name, or a function `(y, predictions) -> [rows, ...]`.
        x: Rows to probe with, arrays [m, ...], m >= 8 or so, for inputs with constraints: public
            or made-up ones, for what is found about them is shown. Or `tf.TensorSpec`s [None, ...]
            to make rows up from. None: as the model's inputs.
        y: Likewise for targets. None tries numbers in the outputs' shape, then class labels.
        augmentation: Keras layer, or function from [rows, ...] to [rows * K, ...]; or a list of
            them, as `tfdpnorm.make_private` takes.
        forward: `(x, training) -> predictions`, instead of a call of the model.

    Raises:
        ValueError: listing all findings.
    """
    refuse(findings(model, loss=loss, x=x, y=y, augmentation=augmentation, forward=forward))


def refuse(found):
    """Raises ValueError with all messages of a list of `Finding`, if there are any."""
    if found:
        raise ValueError("\n".join(finding.message for finding in found))


def findings(model, *, loss=None, x=None, y=None, augmentation=None, forward=None):
    """As `validate`, but returns the findings.

    Args:
        model: See `validate`.
        loss: See `validate`.
        x: See `validate`.
        y: See `validate`.
        augmentation: See `validate`.
        forward: See `validate`.

    Returns:
        List of `Finding`. What could not be checked is said in a warning.
    """
    report = Report([Finding("layers", where, text) for where, text in known_faults(model)])
    rows = model_rows(model, x)
    if rows is None:
        report.unchecked.append(f"model {model.name!r}: the shapes of its inputs are not known")
    else:
        report += probe_model(model, rows, forward=forward)
        if augmentation is None:
            augmentation = ()
        elif not isinstance(augmentation, (list, tuple)):
            augmentation = (augmentation,)
        for each in augmentation:
            report += probe_augmentation(each, rows)
    if loss is not None and report.outputs is not None:
        report += probe_loss(loss, report.outputs, y)
    elif loss is not None:
        report.unchecked.append("the loss: the shapes of the model's outputs are not known")
    warn_unchecked(report)
    # A loss that the construction added is seen twice.
    return list({finding.message: finding for finding in reversed(report.findings)}.values())[::-1]


def warn_unchecked(report):
    """Says in one warning what a `Report` could not check."""
    if report.unchecked:
        warnings.warn(
            "Whether rows mix could not be checked for "
            + "; ".join(report.unchecked)
            + f". No guarantee holds if they do. {_PASS_ROWS}",
            stacklevel=3,
        )


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


def probe_model(model, rows, *, forward=None):
    """Runs a model on rows of which some change.

    Args:
        model: A Keras model.
        rows: `ProbeRows`.
        forward: `(x, training) -> predictions`; None for a call of the model.

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

    with undisturbed(model):
        report = probe_rows(
            training,
            rows,
            subject,
            inference=lambda x: forward(x, training=False),
            variables=lambda: model.trainable_variables,
            resolution=_resolution(model),
        )
        report.findings += [Finding("losses", where, text) for where, text in added]
        if any(finding.check == "values" for finding in report.findings):
            report.findings = [_located(f, model, forward, rows) for f in report.findings]
    return report


def probe_loss(loss, predictions, y=None):
    """Runs a loss on rows of which some change.

    Args:
        loss: See `validate`; the reduction of a Keras loss is ignored.
        predictions: `ProbeRows`, or a structure of arrays [m, ...] or `tf.TensorSpec`.
        y: Likewise; None tries numbers in [0, 1) in the shape of the predictions, then labels.

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
            reports.append(probe_rows(lambda pair: unreduced(*pair), both, subject))
            if reports[-1].outputs is not None or reports[-1].findings:
                return reports[-1]
    return sum(reports, Report())


def probe_augmentation(augmentation, x):
    """Runs an augmentation on rows of which some change, with the same random numbers.

    Args:
        augmentation: Keras layer, or function from [rows, ...] to [rows * K, ...].
        x: `ProbeRows`, or a structure of arrays [m, ...] or `tf.TensorSpec`.

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
        return probe_rows(function, _rows(x), subject)


def _rows(like, **settings):
    if isinstance(like, ProbeRows):
        return like
    if all(isinstance(t, tf.TensorSpec) for t in tf.nest.flatten(like)):
        return synthetic_rows(like, **settings)
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
        name = first_mixing_layer(model, lambda x: forward(x, training=training), rows)
    except Exception:  # it was only to say where; that rows mix is found
        name = None
    if name is None:
        return finding
    message = f"{finding.message} The first layer whose rows mix is {name!r}."
    return Finding(finding.check, name, message)
