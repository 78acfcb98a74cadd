"""Metrics see examples, and nothing of theirs is noised: they must keep it to themselves."""

import tensorflow as tf
from tensorflow import keras

from tfdpnorm.independence.changed_state import changed_by, readers_before
from tfdpnorm.keras_compat.graphs import current_graph, operation_count
from tfdpnorm.keras_compat.models import modules_inside
from tfdpnorm.training.checks.callbacks import FREE


def check_metrics_are_outside(metrics, model):
    """Refuses metrics that are part of the model: what they saw would be saved with it.

    Args:
        metrics: As `compile` gets them.
        model: The wrapped Keras model.

    Raises:
        ValueError: naming the first of them.
    """
    inside = {id(x) for x in modules_inside(model)}
    for metric in tf.nest.flatten(metrics):
        if isinstance(metric, keras.metrics.Metric) and id(metric) in inside:
            raise ValueError(
                f"Expected metrics that are no part of the model, got {metric.name!r}, an "
                "attribute of the model or of a layer: with the weights it would be saved what it "
                f"counted of private examples. Pass a new one: metrics=[{type(metric).__name__}()]."
            )


def checked_names(metrics, output_names):
    """Returns the names that `fit` may show metrics by, a tuple.

    Args:
        metrics: As `compile` gets them.
        output_names: Of the outputs, which Keras puts before them if there are several; or None.

    Raises:
        ValueError: for a name that callbacks go by, as that of something released or public.
    """
    names = [_name(metric) for metric in tf.nest.flatten(metrics) if metric is not None]
    for name in names:
        if name in FREE or name.startswith("val_"):
            raise ValueError(
                f"Expected metrics of other names than {', '.join(FREE)} and val_..., got one "
                f"named {name!r}: a callback that monitors it would act on private examples. "
                "Give it another name=...."
            )
    return (*names, *(f"{output}_{name}" for output in output_names or () for name in names))


def _name(metric):
    if isinstance(metric, str):
        return metric
    return getattr(metric, "name", None) or getattr(metric, "__name__", type(metric).__name__)


class MetricsApart:
    """Sees to it that what a step shows of examples changes the metrics' own variables only.

    Made before these are updated in a step that is traced. In an eager step it sees nothing.
    """

    def __init__(self):
        self._begin = operation_count()

    def check(self, metrics):
        """Looks at the operations that were made since.

        Args:
            metrics: All metrics that may keep something, a list.

        Raises:
            ValueError: if they change another variable, or if the model or the loss reads what a
                metric keeps.
        """
        if tf.executing_eagerly():
            return
        handles = [v.handle for metric in metrics for v in metric.variables]
        own = {id(handle) for handle in handles}
        for op, handle in changed_by(current_graph().get_operations()[self._begin :]):
            if id(handle) not in own:
                raise ValueError(
                    f"Expected metrics that change no variable but their own, got {op.type} "
                    f"{op.name!r}. What they see of private examples would be released, or change "
                    "later updates, without noise. Keep it in a variable of the metric: "
                    "self.add_weight(...) in a keras.metrics.Metric."
                )
        for op in readers_before(handles, self._begin):
            raise ValueError(
                "Expected a model and a loss that do not read what metrics keep of private "
                f"examples, got {op.type} {op.name!r}, which does. It would change updates "
                "without noise: remove it."
            )
