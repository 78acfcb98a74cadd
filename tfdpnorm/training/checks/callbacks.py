"""The inputs of callbacks, and their effect on the guarantee."""

import inspect
import os
import string
import warnings
from collections import Counter

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.errors import PrivacyError, PrivacyWarning
from tfdpnorm.keras_compat.training import asks_for_direction, has_schedule
from tfdpnorm.privacy.caveats import caveat
from tfdpnorm.privacy.state import check_queries_are_by_row
from tfdpnorm.training.callbacks.privacy_tensorboard import PrivacyTensorBoard, check_tensorboard
from tfdpnorm.training.callbacks.private_validation import PrivateValidation

# Functions of public or released values. A learning rate that was reduced by a released
# number is one, too.
FREE = ("epsilon", "lr", "learning_rate")

_REFUSED = {
    keras.callbacks.BackupAndRestore: (
        "it would restore weights without their entries in the ledger. Use make_private(..., "
        "run_dir=RunDir(path, resume=True))"
    ),
    keras.callbacks.TerminateOnNaN: (
        'it stops on "loss", which a single training example can turn to NaN. Leave it out: a '
        "gradient that is not finite counts as zero, and any callback may inspect the weights, "
        "which are noisy"
    ),
}
_LOGGERS = (
    keras.callbacks.CSVLogger,
    keras.callbacks.TensorBoard,
    keras.callbacks.RemoteMonitor,
    PrivacyTensorBoard,
)
_PATHS = (
    (keras.callbacks.ModelCheckpoint, "filepath"),
    (keras.callbacks.CSVLogger, "filename"),
    (keras.callbacks.TensorBoard, "log_dir"),
    (PrivacyTensorBoard, "log_dir"),
)
_SET_THE_RATE = (keras.callbacks.ReduceLROnPlateau, keras.callbacks.LearningRateScheduler)
_NEVER_STOP = (keras.callbacks.ReduceLROnPlateau, keras.callbacks.ModelCheckpoint)


def validations_first(callbacks):
    """Returns callbacks as a flat list in which each `PrivateValidation` precedes the others.

    Those that monitor its value find it in the logs then, whatever the order they were given in,
    which is otherwise kept. `callbacks` are those of `fit`: a callback, a (nested) list of them, a
    Keras `CallbackList`, or None.
    """
    flat = tf.nest.flatten(getattr(callbacks, "callbacks", callbacks) or [])
    return sorted(flat, key=lambda callback: not isinstance(callback, PrivateValidation))


def check_callbacks(
    callbacks,
    ledger,
    *,
    validation_data_given,
    validation_is_public=False,
    names_of_metrics=(),
    names_of_logs=None,
):
    """Rejects callbacks that act on private numbers; names in the ledger what else they do.

    Recognised are the callbacks of Keras, classes derived from them, and any other callback with
    an attribute `monitor`. What else a callback may do with the logs is for its author to know;
    the privacy statement names it in general.

    | It looks at | what happens |
    |---|---|
    | a metric of the training examples, one of `names_of_metrics` | rejected |
    | `val_...` of data said to be public | the statement says so |
    | `val_...` of other data | a warning, and the statement says that these are not protected |
    | a `PrivateValidation`, "epsilon", "lr" | allowed |

    What may stop training by any of these but "epsilon" holds the ledger to the whole plan. What
    writes logs to files is named in the statement. Nothing is recorded if anything is rejected.

    `names_of_logs` are those of losses and metrics, without "val_"; None where they are not known.
    """
    callbacks = validations_first(callbacks)
    names = [c.name for c in callbacks if isinstance(c, PrivateValidation)]
    if names:
        check_queries_are_by_row(ledger.plan)
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ValueError(
            f"Expected a name for each PrivateValidation, got {twice[0]!r} twice. Pass name=..., "
            "such as 'private_val_top5_accuracy'."
        )
    for name in names:
        if name in names_of_metrics:
            raise PrivacyError(
                f"Expected a PrivateValidation and metrics of different names, got {name!r} for "
                "both: callbacks would act on the metric, which has no noise. Rename the metric."
            )
    free = {*FREE, *names}
    logs = None
    # Keras' callbacks and ours write no names of their own into the logs.
    packages = {type(callback).__module__.partition(".")[0] for callback in callbacks}
    if names_of_logs is not None and packages <= {"keras", "tfdpnorm"}:
        logs = {*free, *names_of_logs}
        logs |= {f"val_{name}" for name in names_of_logs} if validation_data_given else set()
    for callback in callbacks:
        _refuse(callback, ledger, free, validation_data_given)
        _check_logs(callback, logs, validation_data_given, ledger)
        # Noisy accuracies should rise; Keras 3 asks of others after an epoch.
        monitor = getattr(callback, "monitor", None)
        if asks_for_direction(callback):
            if monitor in FREE:
                raise ValueError(
                    f"{type(callback).__name__} does not know whether {monitor!r} should rise or "
                    'fall. Pass mode="max" or mode="min".'
                )
            callback.mode = "max" if monitor in names else "auto"
        _check_files(callback)
    public_validation = validation_is_public or not validation_data_given
    for callback in callbacks:
        _record(callback, ledger, free, public_validation)


def check_rate_is_settable(callbacks, optimizer):
    """Raises ValueError for callbacks that set the learning rate where it is a schedule."""
    for callback in callbacks:
        if isinstance(callback, _SET_THE_RATE) and has_schedule(optimizer):
            name, kind = type(callback).__name__, type(optimizer).__name__
            raise ValueError(
                f"{name} sets the learning rate, which is a schedule here (suggested settings have "
                f"one). Leave {name} out, or compile with keras.optimizers.{kind}(number)."
            )


def _or_noisy(ledger):
    """The other remedy, in words; "" where persons are protected, who have no noisy answers."""
    if ledger.unit != "row":
        return ""
    return ', or monitor "private_val_accuracy" of a PrivateValidation callback'


def _refuse(callback, ledger, free, validation_data_given):
    name = type(callback).__name__
    for cls, reason in _REFUSED.items():
        if isinstance(callback, cls):
            raise PrivacyError(f"{name} is not supported in private training: {reason}.")
    if getattr(callback, "load_weights_on_restart", False):
        raise PrivacyError(
            f"load_weights_on_restart of {name} is not supported in private training: "
            f"{_REFUSED[keras.callbacks.BackupAndRestore]}."
        )
    if isinstance(callback, keras.callbacks.TensorBoard):
        check_tensorboard(name)
    monitor = _monitored(callback)
    if monitor is None or monitor in free:
        return
    if not monitor.startswith("val_"):
        raise PrivacyError(
            f"{name} monitors {monitor!r}, which is computed on the training examples without "
            f'noise. Monitor "val_..." of public validation_data{_or_noisy(ledger)}.'
        )


def _check_logs(callback, logs, validation_data_given, ledger):
    """Rejects names that will not be in the logs; `logs` are those that will, or None."""
    is_checkpoint = isinstance(callback, keras.callbacks.ModelCheckpoint)
    needed = _file_name_fields(callback) - {"epoch", "batch"} if is_checkpoint else set()
    needed |= {_monitored(callback)} - {None}
    for name in sorted(needed):
        if name.startswith("val_") and not validation_data_given:
            raise ValueError(
                f"{type(callback).__name__} needs {name!r}, and there is no validation_data. Pass "
                f"validation_data to fit(){_or_noisy(ledger)}."
            )
        if logs is not None and name not in logs:
            raise ValueError(
                f"{type(callback).__name__} needs {name!r}, which fit() does not show. It shows "
                f"{', '.join(sorted(logs))}."
            )


def _check_files(callback):
    """Rejects files that could not be written, before updates are paid for."""
    path = next((getattr(callback, at) for cls, at in _PATHS if isinstance(callback, cls)), None)
    if path is None:
        return
    is_checkpoint, why = isinstance(callback, keras.callbacks.ModelCheckpoint), None
    try:
        if is_checkpoint:
            fields = dict.fromkeys(_file_name_fields(callback), 0.5)
            os.makedirs(os.path.dirname(str(path).partition("{")[0]) or ".", exist_ok=True)
            path = path.format(**{**fields, "epoch": 1, "batch": 1})
        is_folder = isinstance(callback, (keras.callbacks.TensorBoard, PrivacyTensorBoard))
        os.makedirs(path if is_folder else os.path.dirname(path) or ".", exist_ok=True)
        if os.path.isdir(path) and not is_folder:
            why = "it is a folder"
    except OSError as error:
        why = error.strerror
    except (ValueError, LookupError) as error:
        why = str(error)
    if why is not None:
        raise ValueError(f"{type(callback).__name__} cannot write to {str(path)!r}: {why}.")


def named_by_evaluations(callback):
    """Returns the values that functions of a callback name which call an `evaluate`, a list.

    Attributes of the callback, globals, and variables of enclosing functions.
    """
    parts = {**dict(inspect.getmembers(type(callback))), **vars(callback)}
    found = []
    for function in filter(inspect.isfunction, parts.values()):
        names = function.__code__.co_names
        if "evaluate" in names:
            outer = inspect.getclosurevars(function)
            found += [*outer.globals.values(), *outer.nonlocals.values()]
            found += [vars(callback).get(name) for name in names]
    return found


def _record(callback, ledger, free, public_validation):
    name, monitor = type(callback).__name__, _monitored(callback)
    if monitor is not None and monitor != "epsilon" and not isinstance(callback, _NEVER_STOP):
        ledger.record(caveat("may_stop_early", callback=name, monitor=monitor))
    if monitor is not None and monitor not in free:
        code = "acted_on_public_validation" if public_validation else "acted_on_validation"
        known = caveat(code, callback=name, monitor=monitor)
        if not public_validation and known not in ledger.state.caveats:
            warnings.warn(
                f"{name} acts on {monitor!r} without noise: the validation examples are not "
                "protected, and the statement says so. Pass validation_is_public=True if they are "
                f"public{_or_noisy(ledger)}.",
                PrivacyWarning,
                stacklevel=4,
            )
        ledger.record(known)
    if isinstance(callback, _LOGGERS):
        whose = "training examples" + ("" if public_validation else " and validation data")
        ledger.record(caveat("metrics_written", callback=name, examples=whose))
    if isinstance(callback, keras.callbacks.ModelCheckpoint):
        for field in sorted(_file_name_fields(callback) - free - {"epoch", "batch"}):
            if not (public_validation and field.startswith("val_")):
                ledger.record(caveat("metric_in_file_names", callback=name, metric=field))


def _monitored(callback):
    """The name of the metric that a callback acts on, or None."""
    if isinstance(callback, keras.callbacks.ModelCheckpoint) and not callback.save_best_only:
        return None
    monitor = getattr(callback, "monitor", None)
    return monitor if isinstance(monitor, str) else None


def _file_name_fields(checkpoint):
    """The metrics that Keras fills into the names of a checkpoint's files, such as val_loss."""
    return {field for _, field, _, _ in string.Formatter().parse(checkpoint.filepath) if field}
