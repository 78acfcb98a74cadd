"""Whether a model, its loss and its augmentation have per-example independence."""

import warnings

from tfdpnorm.audit.row_independence.finding import Finding, Report
from tfdpnorm.audit.row_independence.known_layers import known_faults
from tfdpnorm.audit.row_independence.subjects import (
    model_rows,
    probe_augmentation,
    probe_loss,
    probe_model,
)

_NOTHING = "Without it no guarantee holds."
_PASS_ROWS = (
    "tfdpnorm.audit.validate(model, x=...) probes it on rows of yours that fit and are not private."
)


def validate(model, *, loss=None, x=None, y=None, augmentation=None, forward=None, batch_size=None):
    """Refuses models, losses and augmentations without per-example independence.

    DP-SGD clips what each example adds to a sum. If an example also changes the gradient of
    another, or a variable that is released without noise, clipping bounds nothing. This refuses
    known layers by name, and then runs everything on a few made-up rows (see `probe_rows`).

    To pass is no proof: that is what `tfdpnorm.audit.prove_training` gives. The probe does not see:
        - what rows do only beyond a trigger that no probe row meets, and on paths that are dead
          for them (a saturated unit, a gate that stays shut). It meets rows cut short, empty, huge,
          not finite and alike, one kind at a time, as `probe_rows` says;
        - what sets in at another number of rows than it runs: 4 and `batch_size`, or 32 without
          it, and of models that are expensive to run 10 or more in its place;
        - what happens by chance less often than about once in thirty calls, by chance in the
          backward pass alone, or where the iterations of a loop draw in an order that changes;
        - what happens from a certain call on, unless a variable of one number counts the calls: it
          is set to 99, 999 and a million;
        - a dependence on the size of the batch that only shows in training, in a model that draws
          random numbers there (dropout) or an augmentation;
        - a difference below the rounding of the numbers that the model computes in, where it has
          no gradient;
        - state outside of variables: Python objects, files. It warns of Python functions in the
          graph, and refuses operations that fill tables and queues;
        - in which order a layer's rows are: a trained layer whose first axis is time, whose rows
          are sorted and put back, or which reads no example at all, couples nothing in the model,
          but an engine that takes row i for example i clips the wrong rows there;
        - what happens before rows come in (an input pipeline that combines or normalises them, one
          person with many rows) and from one step to the next (optimizer, callbacks);
        - functions that give other values for the same rows and random numbers; it warns of these;
        - what changes after it has run (layers that are unfrozen).

    Args:
        model: A Keras model, or a `tfdpnorm.PrivateModel`. A model that is not built yet is built
            by a call on made-up rows, if the shapes of its inputs are known.
        loss: A Keras loss, its name, or a function `(y, predictions) -> [rows, ...]`.
        x: Rows to probe with, arrays [m, ...], m >= 8 or so, for inputs with constraints: public
            or made-up ones, since messages show findings about them. Or `tf.TensorSpec`s
            [None, ...] to make rows up from. None: as the model's inputs.
        y: Targets to probe with, given as `x` is. None tries numbers in the outputs' shape, then
            class labels.
        augmentation: Keras layer, or function from [rows, ...] to [rows * K, ...]; or a list of
            them, as `tfdpnorm.make_private` takes.
        forward: `(x, training) -> predictions`, instead of a call of the model.
        batch_size: How many rows training runs at once, in a physical batch; None for 32.

    Raises:
        ValueError: listing all findings.
    """
    refuse(
        findings(
            model,
            loss=loss,
            x=x,
            y=y,
            augmentation=augmentation,
            forward=forward,
            batch_size=batch_size,
        )
    )


def refuse(found):
    """Raises ValueError with all messages of a list of `Finding`, if there are any."""
    if found:
        raise ValueError("\n".join(finding.message for finding in found))


def findings(model, *, loss=None, x=None, y=None, augmentation=None, forward=None, batch_size=None):
    """As `validate`, but returns the findings.

    Args:
        model: See `validate`.
        loss: See `validate`.
        x: See `validate`.
        y: See `validate`.
        augmentation: See `validate`.
        forward: See `validate`.
        batch_size: See `validate`.

    Returns:
        List of `Finding`. A warning says what could not be checked.
    """
    report = Report([Finding("layers", where, text) for where, text in known_faults(model)])
    rows = model_rows(model, x)
    if rows is None:
        report.unchecked.append(f"model {model.name!r}: the shapes of its inputs are not known")
    else:
        report += probe_model(model, rows, forward=forward, batch_size=batch_size)
        if augmentation is None:
            augmentation = ()
        elif not isinstance(augmentation, (list, tuple)):
            augmentation = (augmentation,)
        for each in augmentation:
            report += probe_augmentation(each, rows, batch_size=batch_size)
    if loss is not None and report.outputs is not None:
        report += probe_loss(loss, report.outputs, y, batch_size=batch_size)
    elif loss is not None:
        report.unchecked.append("the loss: the shapes of the model's outputs are not known")
    _warn_unchecked(report)
    # A loss that the construction added is seen twice.
    return list({finding.message: finding for finding in reversed(report.findings)}.values())[::-1]


def _warn_unchecked(report):
    """Warns once of all that a `Report` could not check.

    Args:
        report: `Report`.
    """
    if report.unchecked:
        warnings.warn(
            "Per-example independence could not be checked for "
            + "; ".join(sentence.removesuffix(".") for sentence in report.unchecked)
            + f". {_NOTHING} {_PASS_ROWS}",
            stacklevel=3,
        )
