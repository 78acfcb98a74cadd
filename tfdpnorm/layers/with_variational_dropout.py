"""A copy of a model with variational dropout, and how many of its weights become superfluous."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tensorflow import keras

from tfdpnorm.keras_compat.exchange import cloned, set_trainable_alone
from tfdpnorm.keras_compat.models import sublayers
from tfdpnorm.layers.variational_dropout import (
    SPARSE_LOG_ALPHA,
    VariationalDropout,
    VariationalDropoutConv2D,
    VariationalDropoutDense,
)

if TYPE_CHECKING:
    from typing import Any


_WITH_DROPOUT = {
    keras.layers.Dense: VariationalDropoutDense,
    keras.layers.Conv2D: VariationalDropoutConv2D,
}


def with_variational_dropout(model: keras.Model, **options: Any) -> keras.Model:
    """Returns a copy of a model in which variational layers stand for the dense and 2-D ones.

    Trainable `Dense` and `Conv2D` layers, not those of classes that inherit from them, become
    `VariationalDropoutDense` and `VariationalDropoutConv2D` of the same name, with the kernel and
    the bias of the original. All other layers stay as they are.

    Args:
        model: A functional or sequential Keras model, built. The copy is not compiled.
        **options: Of `VariationalDropoutDense`, such as noise="public".

    Returns:
        A Keras model.

    Raises:
        ValueError: for a model without such layers, and as the layers do.
    """

    def exchange(layer):
        if type(layer) not in _WITH_DROPOUT or not layer.trainable:
            return None
        return _WITH_DROPOUT[type(layer)].from_config({**layer.get_config(), **options})

    copy, exchanged = cloned(model, exchange)
    if not exchanged:
        raise ValueError(
            f"Model {model.name!r} has no trainable Dense or Conv2D layer. Use the layers of "
            "tfdpnorm.layers where you need variational dropout."
        )
    for layer, other in exchanged:
        other.kernel.assign(layer.kernel)
        if layer.use_bias:
            other.bias.assign(layer.bias)
        set_trainable_alone(other, layer.trainable)
    return copy


# --- sparsity ---


class Sparsity(NamedTuple):
    """How many weights have noise, biases not counted, and how many of them carry nothing.

    These are the `sparse` ones, with log alpha > the threshold.
    """

    weights: int
    sparse: int

    @property
    def share(self):
        """The share of weights that are sparse, from 0 to 1."""
        return self.sparse / self.weights if self.weights else 0.0


def sparsity_report(model: keras.Model, threshold: float = SPARSE_LOG_ALPHA) -> dict[str, Sparsity]:
    """Returns how sparse each layer with variational dropout is, and all of them together.

    log alpha = 3 is a binary dropout rate of 0.95. A weight of mean exactly 0 counts as sparse if
    it has noise of its own.

    Privacy:
        A function of the weights: of a privately trained model it costs nothing.

    Args:
        model: A built Keras model.
        threshold: log alpha above which a weight counts as sparse.

    Returns:
        Dict from the names of the layers to `Sparsity`, and of "total" to that of all together.

    Raises:
        ValueError: for a model without such layers.

    Reference:
        Molchanov, Ashukha, Vetrov (2017), Section 5.
    """
    report = {}
    for layer in _layers(model):
        weights = layer.kernel.shape.num_elements()
        report[layer.name] = Sparsity(weights, round(layer.sparse_share(threshold) * weights))
    total = Sparsity(*(sum(counts) for counts in zip(*report.values(), strict=True)))
    return {**report, "total": total}


def prune(model: keras.Model, threshold: float = SPARSE_LOG_ALPHA) -> dict[str, Sparsity]:
    """Sets superfluous weights of a model to 0: see `VariationalDropoutDense.prune`.

    Args:
        model: A built Keras model. It is changed.
        threshold: Weights whose log alpha exceeds it are set to zero.

    Returns:
        What `sparsity_report` returned before.

    Raises:
        ValueError: for a model without layers with variational dropout.
    """
    report = sparsity_report(model, threshold)
    for layer in _layers(model):
        layer.prune(threshold)
    return report


def _layers(model):
    found = [x for x in sublayers(model) if isinstance(x, VariationalDropout)]
    if not found:
        raise ValueError(
            f"Model {model.name!r} has no layer with variational dropout. Use "
            "tfdpnorm.layers.VariationalDropoutDense."
        )
    return found
