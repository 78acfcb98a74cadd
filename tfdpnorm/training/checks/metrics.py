"""Metrics and inference see examples: what they keep stays in the metrics' own variables."""

import contextlib

import numpy as np
import tensorflow as tf
from tensorflow import keras

from tfdpnorm.errors import PrivacyError
from tfdpnorm.independence.changed_state import changed_by, readers_before
from tfdpnorm.keras_compat.graphs import current_graph, operation_count
from tfdpnorm.keras_compat.models import modules_inside
from tfdpnorm.keras_compat.variables import raw, weights
from tfdpnorm.training.checks.callbacks import FREE


def check_metrics_are_outside(metrics, model):
    """Raises ValueError for metrics inside of the model: what they saw would be saved with it."""
    inside = {id(x) for x in modules_inside(model)}
    for metric in tf.nest.flatten(metrics):
        if isinstance(metric, keras.metrics.Metric) and id(metric) in inside:
            raise PrivacyError(
                f"Metric {metric.name!r} is an attribute of the model or of a layer: its counts of "
                "private examples would be saved with the weights. Pass a new metric: "
                f"metrics=[{type(metric).__name__}()]."
            )


def checked_names(metrics, output_names):
    """Returns the names that `fit` may show metrics by, a tuple.

    Keras puts the names of outputs before them if there are several. Raises ValueError for a name
    that callbacks go by, as that of something released or public.
    """
    names = [_name(metric) for metric in tf.nest.flatten(metrics) if metric is not None]
    for name in names:
        if name in FREE or name.startswith("val_"):
            raise PrivacyError(
                f"A metric is named {name!r}, and {', '.join(FREE)} and val_... are reserved: a "
                "callback that monitors it would act on private examples. Give it another name=...."
            )
    return (*names, *(f"{output}_{name}" for output in output_names or () for name in names))


def _name(metric):
    if isinstance(metric, str):
        return metric
    return getattr(metric, "name", None) or getattr(metric, "__name__", type(metric).__name__)


class MetricsApart:
    """Checks that what a step shows of examples changes the metrics' own variables only.

    Made before these are updated in a step that is traced. In an eager step it sees nothing.
    """

    def __init__(self):
        self._begin = operation_count()

    def check(self, metrics):
        """Looks at the operations that were made since, given all metrics that may keep something.

        Raises ValueError if they change another variable than the metrics' own, or if the model or
        the loss reads what a metric keeps.
        """
        if tf.executing_eagerly():
            return
        handles = [v.handle for metric in metrics for v in raw(list(metric.variables))]
        own = {id(handle) for handle in handles}
        for op, handle in changed_by(current_graph().get_operations()[self._begin :]):
            if id(handle) not in own:
                raise PrivacyError(
                    f"A metric changes a variable that is not its own ({op.type} {op.name!r}). "
                    "Data of private examples would be released, or change later updates, without "
                    "noise. Keep them in a variable of the metric: self.add_weight(...) in a "
                    "keras.metrics.Metric."
                )
        for op in readers_before(handles, self._begin):
            raise PrivacyError(
                f"The model or the loss reads a variable of a metric ({op.type} {op.name!r}), "
                "which holds data of private examples. It would change updates without noise: "
                "remove the operation."
            )


@contextlib.contextmanager
def changes_no_variable(model, metrics=list):
    """Context of code that sees examples and must change no variable; otherwise a ValueError.

    In a graph that is traced, the operations are looked at, those in called functions as well,
    whatever variable they change and whether or not Keras knows of it: nothing has run yet. Eagerly
    the variables of the model are compared, and put back. What code of the user's keeps elsewhere
    in an eager call, in attributes of Python or in seeds for instance, is not seen.

    The variables of `metrics()` may change. It is called at the end: Keras makes the variables of
    some, and the metrics of losses, when it first has rows.
    """
    eagerly, begin = tf.executing_eagerly(), operation_count()
    # While these exist, whatever writes a variable has to give it a new buffer.
    before = [(v, v.read_value()) for v in weights(model)] if eagerly else []
    changed = []
    try:
        yield
    finally:  # Also after an error: what was written until then would stay.
        own = {id(v.handle) for metric in metrics() for v in raw(list(metric.variables))}
        for variable, value in before:
            if id(variable.handle) not in own and not _same(value, variable):
                variable.assign(value)
                changed.append(f"another value of {variable.name!r}")
    operations = [] if eagerly else current_graph().get_operations()[begin:]
    changed += [f"{op.type} {op.name!r}" for op, h in changed_by(operations) if id(h) not in own]
    if changed:
        raise PrivacyError(
            f"Inference changes a variable that does not belong to a metric: {changed[0]}. Data of "
            "examples would be released, or change later updates, without noise. Remove the "
            "assignment from the model, the loss or the metric."
        )


def _same(value, variable):
    old, new = np.asarray(value), np.asarray(variable.read_value())
    if old.shape != new.shape:
        return False
    is_one_buffer = old.size > 0 and old.ctypes.data == new.ctypes.data
    return is_one_buffer or old.tobytes() == new.tobytes()
