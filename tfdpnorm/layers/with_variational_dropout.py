"""A copy of a model whose dense layers and convolutions have variational dropout."""

from tensorflow import keras

from tfdpnorm.keras_compat.exchange import cloned, set_trainable_alone
from tfdpnorm.layers.variational_dropout import VariationalDropoutConv2D, VariationalDropoutDense

_WITH_DROPOUT = {
    keras.layers.Dense: VariationalDropoutDense,
    keras.layers.Conv2D: VariationalDropoutConv2D,
}


def with_variational_dropout(model, **options):
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
            f"Expected trainable Dense or Conv2D layers in {model.name!r}, got none. Build the "
            "layers of tfdpnorm.layers where they are wanted."
        )
    for layer, other in exchanged:
        other.kernel.assign(layer.kernel)
        if layer.use_bias:
            other.bias.assign(layer.bias)
        set_trainable_alone(other, layer.trainable)
    return copy
