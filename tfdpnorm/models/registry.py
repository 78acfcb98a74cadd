"""The registry of network families."""

import inspect

from tfdpnorm.arguments import choice, refusal
from tfdpnorm.layers import with_weight_noise

_BUILDERS = {}


def register(name):
    """Decorator that registers a function `(norm, num_classes, input_shape=..., ...) -> Model`.

    Args:
        name: Name for `build`.
    """

    def add(builder):
        if name in _BUILDERS:
            raise ValueError(f"Expected a new model name, got {name!r}, which is registered.")
        _BUILDERS[name] = builder
        return builder

    return add


def names():
    """Returns the sorted names of the registered models."""
    return sorted(_BUILDERS)


def options(name):
    """Returns the names of the options that a model takes besides `norm` and `num_classes`.

    Raises:
        ValueError: for an unknown name.
    """
    parameters = inspect.signature(_BUILDERS[choice("model name", name, names())]).parameters
    return [p for p in parameters if p not in ("norm", "num_classes")]


def build(
    name,
    norm="none",
    num_classes=10,
    input_shape=None,
    *,
    weight_noise_stddev=0.0,
    weight_noise_seed=None,
    **model_options,
):
    """Builds an untrained Keras model.

    Args:
        name: One of `names()`.
        norm: The normalisation of the network, one of `tfdpnorm.models.NORMS`.
        num_classes: Number of outputs (logits).
        input_shape: Shape of one example, without the batch; None for the family's own.
        weight_noise_stddev: Standard deviation of normal noise on the weights, drawn at every call
            in training and testing (Davody et al. 2020, Section 2); 0 for none. See
            `tfdpnorm.layers.with_weight_noise`.
        weight_noise_seed: Int that makes the draws repeatable, or None.
        **model_options: Further arguments of the family's builder, such as `statistics`.

    Returns:
        A `tf.keras.Model` from [rows, *input_shape] to float32 logits [rows, num_classes].

    Raises:
        ValueError: for an unknown name, norm or option, a shape that the family cannot take, or a
            negative `weight_noise_stddev`.
    """
    known = options(name)
    unknown = sorted(set(model_options) - set(known))
    if unknown:
        raise ValueError(f"Expected options of {known} for model {name!r}, got {unknown}.")
    if not isinstance(num_classes, int) or num_classes < 1:
        raise refusal("num_classes", "to be a positive int", num_classes)
    if input_shape is not None:
        model_options["input_shape"] = tuple(input_shape)
    model = _BUILDERS[name](norm=norm, num_classes=num_classes, **model_options)
    return with_weight_noise(model, weight_noise_stddev, weight_noise_seed)
